"""Training losses: one file each, a class that is a `Loss`. Here is what they share."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.contracts import Batch, Norm
from smoothcert.errors import require_fields
from smoothcert.training.noisy import Noisy, fresh, scores


class Loss:
    """A loss at noisy copies of the inputs; its terms are summed for the gradient and logged by name.

    All that a loss needs is said in its file: override `points` to move the inputs first, `terms` for another loss at
    their copies, or `__call__` for everything. Its random numbers come from the batch: training can be repeated.
    """

    norms: ClassVar[tuple[Norm, ...] | None] = None  # of the noises that it can be had with; None: of any
    published: ClassVar[Mapping[float, Mapping[str, Any]]] = {}  # σ → options, used where none are given
    denoises: ClassVar[bool] = False  # trains a denoiser, images → images, and not a classifier

    may_be_zero: ClassVar[tuple[str, ...]] = ()  # counts that may be 0; the others are at least 1

    copies: int

    def __post_init__(self) -> None:
        require_fields(self.name, self, self.may_be_zero)

    @property
    def name(self) -> str:
        return type(self).__module__.rsplit(".", 1)[-1]

    @property
    def options(self) -> dict[str, Any]:
        """As config.json keeps them."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.init}  # type: ignore[arg-type]

    def __call__(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        noisy = fresh(batch, self.copies)
        return self.terms(scores(model, noisy(self.points(model, batch, noisy))), batch)

    def points(self, model: nn.Module, batch: Batch, noisy: Noisy) -> Tensor:
        """Where the copies are taken, [batch, ...]: at the inputs."""
        return batch.x

    def terms(self, answers: Tensor, batch: Batch) -> dict[str, Tensor]:
        """The terms, from scores [copies, batch, classes]: the mean cross-entropy."""
        return {"cross_entropy": F.cross_entropy(answers.flatten(0, 1), batch.y.repeat(self.copies))}


def warmed(epoch: float, epochs: float) -> float:
    """The share of a strength that grows with each epoch and is whole after so many."""
    return min(1.0, (int(epoch) + 1) / epochs) if epochs > 0 else 1.0
