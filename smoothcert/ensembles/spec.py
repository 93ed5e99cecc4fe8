"""An ensemble as it is asked for: checked at once, and completed by what hold-out inputs decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from smoothcert import catalog
from smoothcert.classifiers import wrap
from smoothcert.classifiers.composite import Part, compose
from smoothcert.contracts import Classifier
from smoothcert.engine.batch_check import check_scores
from smoothcert.ensembles import Vote, ask, checked_weights
from smoothcert.ensembles.holdout import HoldoutInputs
from smoothcert.errors import ModelError, OptionError, unknown

if TYPE_CHECKING:
    from torch import Tensor

MEANS = {"soft": "scores", "softmax": "softmax", "weighted": "softmax"}  # votes that are means, and of what
AS_GIVEN = "as given"
ONLY_ASKED = (
    "learned",
    "signed",
)  # weights whose fit may have members made fast; another may need the networks themselves


def Ensemble(
    members: Sequence[Any],
    vote: str = "soft",
    weights: Sequence[float] | None = None,
    consensus: int | None = None,
    early_exit: bool | Mapping[str, float] | None = None,
) -> Classifier:
    """Several models as one classifier.

    members: torch networks in eval mode, callables, what `load` gives, ensembles; the same one may come twice.
    vote: soft (mean of scores), softmax (of probabilities), weighted, hard, max_margin.
    weights: one number a member with sum 1, for soft, softmax and weighted (which is of probabilities).
    consensus: where the first so many members agree they answer for all; put the most accurate first.
    early_exit: True, or its `threshold` and `level`; members are then asked in order of falling weight.
    """
    members = [wrap(model) for model in members]
    if early_exit and weights is not None:
        chosen = vote_part(vote, weights, len(members))["weights"]
        order = falling(chosen)
        members, weights = [members[number] for number in order], [chosen[number] for number in order]
    return compose(members, vote_part(vote, weights, len(members)), cascade_part(consensus, early_exit))


def vote_part(vote: str, weights: Any, members: int) -> dict[str, Any]:
    """The part that a vote's short name and weights stand for, weights checked."""
    files = {name.removesuffix("_vote"): name for name in catalog.names("ensembles") if _is_vote(name)}
    short = vote.removesuffix("_vote")
    if short not in files and short not in MEANS:
        raise unknown("vote of an ensemble", vote, sorted({*files, *MEANS}))
    if weights is not None and short not in MEANS:
        raise OptionError(f"weights of an ensemble need the vote soft, softmax or weighted; got {vote}")
    if weights is not None:
        numbers = list(checked_weights(weights, members, MEANS[short]))
        return {"name": "weighted_vote", "weights": numbers, "values": MEANS[short]}
    if short == "weighted":
        raise OptionError("weights of weighted_vote must be given; got none")
    return {"name": "soft_vote", "values": "softmax"} if short == "softmax" else {"name": files[short]}


def cascade_part(consensus: int | None, early_exit: bool | Mapping[str, float] | None) -> Part | None:
    """The part that decides how many members are asked; None: always all."""
    if consensus is not None and early_exit:
        raise OptionError("an ensemble must have one of consensus and early_exit; got both")
    if consensus is not None:
        return {"name": "k_consensus", "k": consensus}
    if not early_exit:
        return None
    return {"name": "early_exit", **(early_exit if isinstance(early_exit, Mapping) else {})}


def falling(values: Sequence[float]) -> list[int]:
    """Positions in order of falling value; equal ones stay as they are."""
    return sorted(range(len(values)), key=lambda number: -values[number])


def _is_vote(file: str) -> bool:
    """Whether the part of this file is a plain vote; some files of the folder are tools and hold no part."""
    try:
        return issubclass(catalog.find("ensembles", file)[0], Vote)
    except AttributeError:
        return False


class EnsembleChoice(NamedTuple):
    """What was decided: the order of the members, why, and their vote; and what was seen on the way."""

    order: tuple[int, ...]
    reason: str
    vote: Part  # of the members in that order
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
    best: int | None = None  # so many were chosen by their accuracy on hold-out inputs, best first

    def __post_init__(self) -> None:
        if self.fitting is not None and self.vote not in self.fitting.votes:
            votes = " or ".join(self.fitting.votes)
            raise OptionError(f"vote with {self.weights} weights must be {votes}; got {self.vote}")
        if self.options and self.fitting is None:
            raise OptionError(
                f"options of weights need learned, signed or optimal weights; got {', '.join(self.options)}"
            )
        if self.weights == "signed" and self.cascade is not None:
            raise OptionError(f"signed weights must be of all members; got them with {self.cascade['name']}")
        if self.best is not None and not (type(self.best) is int and self.best >= 1):
            raise OptionError(f"best of an ensemble must be a number of members of at least 1; got {self.best}")
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

    def work(self, inputs: int, candidates: int = 0) -> int:
        """Evaluations of members on so many hold-out inputs, where `best` of so many candidates are taken too."""
        fit = self.fitting.work(self.members, inputs) if self.fitting is not None else 0
        return int(fit) + (self.members + (candidates if self.best is not None else 0)) * inputs

    def choose(
        self, members: Sequence[Classifier], fast: Sequence[Classifier], holdout: HoldoutInputs | None
    ) -> EnsembleChoice:
        """Fit weights, then put the members in order: of weight for early exit, of accuracy for consensus."""
        weights: Any = self.weights
        report, accuracy = dict[str, float](), None
        if holdout is not None and self.fitting is not None:
            asked = fast if self.weights in ONLY_ASKED else members
            weights, report = self.fitting.fit(asked, holdout)
        if holdout is not None:
            accuracy = holdout.accuracy(fast)
        order, reason = list(range(self.members)), AS_GIVEN
        if (by_weight := self._by_weight(weights)) is not None:
            order, reason = by_weight, "falling weight"
        elif self.consensus is not None and accuracy is not None:
            order, reason = falling(accuracy), "accuracy under noise on hold-out inputs"
        if self.fitting is not None:  # who was found to have no say need not be asked
            order = [number for number in order if weights[number] != 0]
        return EnsembleChoice(tuple(order), reason, self._vote(weights, order), accuracy, report)

    def _by_weight(self, weights: Any) -> list[int] | None:
        return falling(weights) if self.early_exit and weights is not None else None

    def _vote(self, weights: Any, order: Sequence[int]) -> Part:
        part = vote_part(self.vote, weights, self.members)
        return {**part, "weights": [part["weights"][number] for number in order]} if "weights" in part else part


def refuse_unlike(members: Sequence[Classifier], names: Sequence[str], example: Tensor) -> None:
    """One pass of each: members must accept the same inputs and tell the same classes apart."""
    classes: dict[int, str] = {}
    for member, name in zip(members, names, strict=True):
        try:
            found = check_scores(ask(member, example.unsqueeze(0)), 1).shape[1]
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
