"""How an ensemble comes about: what was asked for, checked at once, and what hold-out inputs then decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from smoothcert import catalog
from smoothcert.classifiers.composite import Part, compose
from smoothcert.contracts import Classifier, Noise
from smoothcert.ensembles import cascade_part, falling, vote_part
from smoothcert.ensembles.holdout import noisy_accuracy
from smoothcert.errors import ModelError, OptionError

if TYPE_CHECKING:
    from torch import Tensor

    from smoothcert.data import Inputs

PROBABILITIES = ("softmax", "weighted")  # what fitted weights are for
ONLY_ASKED = ("learned",)  # weights whose fit may have members made fast; another may need the networks themselves


class Holdout(NamedTuple):
    """Inputs to choose by, and the noise on them."""

    inputs: Inputs
    noise: Noise
    seed: int


class Choice(NamedTuple):
    """What was decided: the order of the members, why, and their vote; and what was seen on the way."""

    order: tuple[int, ...]
    reason: str
    vote: Part
    accuracy: tuple[float, ...] | None  # under noise, of the members in the order they were given
    report: Mapping[str, float]


@dataclass(frozen=True)
class EnsembleSpec:
    """What is asked of an ensemble of so many members; impossible wishes are refused here."""

    members: int
    vote: str
    weights: Sequence[float] | str | None  # numbers, or the name of a way to fit them
    consensus: int | None = None
    early_exit: Mapping[str, float] | bool = False
    options: Mapping[str, Any] | None = None  # of that way

    def __post_init__(self) -> None:
        if self.fitting is not None and self.vote not in PROBABILITIES:
            raise OptionError(f"vote with {self.weights} weights must be of probabilities, weighted; got {self.vote}")
        if self.options and self.fitting is None:
            raise OptionError(f"options of weights must go with learned or optimal; got {', '.join(self.options)}")
        numbers = [1 / self.members] * self.members if isinstance(self.weights, str) else self.weights
        vote_part(self.vote, numbers, self.members)
        order = self._by_weight(numbers) or range(self.members)
        compose([_nobody] * self.members, self._vote(numbers, list(order)), self.cascade)

    @property
    def fitting(self) -> Any:
        """The part that fits the weights, or None."""
        if not isinstance(self.weights, str):
            return None
        return catalog.build("ensembles.weights", self.weights, self.options)

    @property
    def cascade(self) -> Part | None:
        return cascade_part(self.consensus, self.early_exit)

    def work(self, inputs: int) -> int:
        """Evaluations of members that `choose` takes on so many hold-out inputs."""
        fit = self.fitting.work(self.members, inputs) if self.fitting is not None else 0
        return int(fit) + self.members * inputs

    def choose(
        self,
        members: Sequence[Classifier],
        fast: Sequence[Classifier],
        holdout: Holdout | None,
        advance: Callable[[int], None],
    ) -> Choice:
        """Fit weights, then put the members in order: of weight for early exit, of accuracy for consensus."""
        weights: Any = self.weights
        report, accuracy = dict[str, float](), None
        if holdout is not None and self.fitting is not None:
            asked = fast if self.weights in ONLY_ASKED else members
            weights, report = self.fitting.fit(asked, *holdout, advance)
        if holdout is not None:
            accuracy = noisy_accuracy(fast, *holdout, advance=advance)
        order, reason = list(range(self.members)), "as given"
        if (by_weight := self._by_weight(weights)) is not None:
            order, reason = by_weight, "falling weight"
        elif self.consensus is not None and accuracy is not None:
            order, reason = falling(accuracy), "accuracy under noise on hold-out inputs"
        if self.fitting is not None:  # who was found to have no say need not be asked
            order = [number for number in order if weights[number] > 0]
        return Choice(tuple(order), reason, self._vote(weights, order), accuracy, report)

    def _by_weight(self, weights: Any) -> list[int] | None:
        return falling(weights) if self.early_exit and weights is not None else None

    def _vote(self, weights: Any, order: Sequence[int]) -> Part:
        part = vote_part(self.vote, weights, self.members)
        return {**part, "weights": [part["weights"][number] for number in order]} if "weights" in part else part


def refuse_unlike(members: Sequence[Classifier], names: Sequence[str], example: Tensor) -> None:
    """One pass of each: members must accept the same inputs and tell the same classes apart."""
    from smoothcert.ensembles._vote import ask

    classes: dict[int, str] = {}
    for member, name in zip(members, names, strict=True):
        try:
            found = ask(member, example.unsqueeze(0)).shape[1]
        except (ModelError, RuntimeError, ValueError, TypeError, IndexError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ModelError(
                f"member {name} must accept inputs of shape {list(example.shape)}; got: {reason}"
            ) from error
        classes.setdefault(found, name)
    if len(classes) > 1:
        (one, first), (two, second) = list(classes.items())[:2]
        raise ModelError(f"classes of members must be the same; got {one} in {first} and {two} in {second}")


def _nobody(x: Tensor) -> Tensor:
    raise ModelError("a member that is not there yet must not be asked")
