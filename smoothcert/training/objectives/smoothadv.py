"""Adversarial training of the smoothed classifier (Salman et al., NeurIPS 2019).

x̂ maximises −log mean_k softmax(f(x̂+ε_k))_y in an l2 ball; then the cross-entropy at x̂+ε_k. Published for CIFAR-10:

    σ      steps  epsilon  copies
    0.25   10     1        8
    0.5    2      2        2
    1.0    10     2        2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.contracts import Batch, Norm
from smoothcert.errors import unknown
from smoothcert.training.attack import ddn, pgd
from smoothcert.training.draws import Noisy, fresh
from smoothcert.training.forward import scores
from smoothcert.training.published import require_count, require_number, warmed

ATTACKS = ("pgd", "ddn")


@dataclass(frozen=True)
class Smoothadv:
    """`epsilon` is the radius of the ball, warmed up over `warmup` epochs; steps are 2·epsilon/steps unless given."""

    NORMS: ClassVar[tuple[Norm, ...]] = ("l2",)  # of the attack, and so of the certificate it is to serve
    PUBLISHED: ClassVar[Mapping[float, Mapping[str, Any]]] = {
        0.25: {"steps": 10, "epsilon": 1.0, "copies": 8},
        0.5: {"steps": 2, "epsilon": 2.0, "copies": 2},
        1.0: {"steps": 10, "epsilon": 2.0, "copies": 2},
    }

    steps: int = 10
    epsilon: float = 1.0
    copies: int = 8
    step_size: float | None = None
    attack: str = "pgd"
    warmup: float = 10

    def __post_init__(self) -> None:
        require_count("smoothadv", copies=self.copies)
        require_count("smoothadv", least=0, steps=self.steps)
        require_number("smoothadv", epsilon=self.epsilon, warmup=self.warmup, step_size=self.step_size or 0.0)
        if self.attack not in ATTACKS:
            raise unknown("attack of smoothadv", str(self.attack), ATTACKS)

    def __call__(self, model: nn.Module, batch: Batch) -> Mapping[str, Tensor]:
        noisy = fresh(batch, self.copies)
        answers = scores(model, noisy(self.adversary(model, batch, noisy)))
        return {"cross_entropy": F.cross_entropy(answers.flatten(0, 1), batch.y.repeat(self.copies))}

    def adversary(self, model: nn.Module, batch: Batch, noisy: Noisy) -> Tensor:
        """The points x̂ for these draws, in the ball as far as it has been warmed up."""
        radius = self.epsilon * warmed(batch.epoch, self.warmup)
        if self.attack == "ddn":
            return ddn(model, batch, noisy, radius, self.steps)
        return pgd(model, batch, noisy, radius, self.steps, self.step_size)
