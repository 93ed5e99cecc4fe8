"""MACER's loss at adversarial points: attack as in smoothadv, then the terms of macer there.

Published for CIFAR-10, 150 epochs (ImageNet: 1 step, 1 copy, epsilon 0.5, strength 2, 90 epochs; SVHN: 2 steps,
4 copies, epsilon 0.5, strength 12 at σ = 0.25 and 4 at 0.5, lr 0.01):

    σ      steps  copies  epsilon  strength λ  hinge γ  beta β
    0.25   2      8       1        12          8        16
    0.5    2      8       2        12          8        16
    1.0    2      4       2        12          8        16
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from smoothcert.contracts import Batch, Norm
from smoothcert.training.draws import fresh
from smoothcert.training.forward import scores
from smoothcert.training.objectives.macer import Macer
from smoothcert.training.objectives.smoothadv import Smoothadv


@dataclass(frozen=True)
class Advmacer:
    """Options as in smoothadv and macer."""

    NORMS: ClassVar[tuple[Norm, ...]] = Smoothadv.NORMS
    PUBLISHED: ClassVar[Mapping[float, Mapping[str, Any]]] = {
        0.25: {"copies": 8, "epsilon": 1.0},
        0.5: {"copies": 8, "epsilon": 2.0},
        1.0: {"copies": 4, "epsilon": 2.0},
    }

    steps: int = 2
    epsilon: float = 1.0
    copies: int = 8
    strength: float = 12.0
    hinge: float = 8.0
    beta: float = 16.0
    step_size: float | None = None
    attack: str = "pgd"
    warmup: float = 10

    def __post_init__(self) -> None:
        self._parts()

    def __call__(self, model: nn.Module, batch: Batch) -> Mapping[str, Tensor]:
        attack, loss = self._parts()
        noisy = fresh(batch, self.copies)
        return loss.terms(scores(model, noisy(attack.adversary(model, batch, noisy))), batch)

    def _parts(self) -> tuple[Smoothadv, Macer]:
        attack = Smoothadv(self.steps, self.epsilon, self.copies, self.step_size, self.attack, self.warmup)
        return attack, Macer(self.copies, self.strength, self.hinge, self.beta)
