"""Adversarial training of the smoothed classifier (Salman et al., NeurIPS 2019).

x̂ maximises −log mean_k softmax(f(x̂+ε_k))_y in an l2 ball; then the cross-entropy at x̂+ε_k. Published for CIFAR-10:

    σ      steps  epsilon  copies
    0.25   10     1        8
    0.5    2      2        2
    1.0    10     2        2
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from smoothcert.contracts import Batch, Norm
from smoothcert.errors import require_number, unknown
from smoothcert.training.noisy import Noisy, ddn, pgd
from smoothcert.training.objectives import Loss, warmed

ATTACKS = ("pgd", "ddn")


@dataclass(frozen=True)
class Smoothadv(Loss):
    """`epsilon` is the radius of the ball, warmed up over `warmup` epochs; steps are 2·epsilon/steps unless given."""

    norms: ClassVar[tuple[Norm, ...] | None] = ("l2",)  # of the attack, and so of the certificate it is to serve
    published = {
        0.25: {"steps": 10, "epsilon": 1.0, "copies": 8},
        0.5: {"steps": 2, "epsilon": 2.0, "copies": 2},
        1.0: {"steps": 10, "epsilon": 2.0, "copies": 2},
    }

    may_be_zero = ("steps",)

    steps: int = 10
    epsilon: float = 1.0
    copies: int = 8
    step_size: float | None = None
    attack: str = "pgd"
    warmup: float = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number(self.name, step_size=self.step_size or 0.0)
        if self.attack not in ATTACKS:
            raise unknown(f"attack of {self.name}", str(self.attack), ATTACKS)

    def points(self, model: nn.Module, batch: Batch, noisy: Noisy) -> Tensor:
        """The points x̂ for these draws, in the ball as far as it has been warmed up."""
        radius = self.epsilon * warmed(batch.epoch, self.warmup)
        if self.attack == "ddn":
            return ddn(model, batch, noisy, radius, self.steps)
        return pgd(model, batch, noisy, radius, self.steps, self.step_size)
