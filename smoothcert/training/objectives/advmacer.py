"""MACER's loss at adversarial points: attack as in smoothadv, then the terms of macer there.

Published for CIFAR-10, 150 epochs (ImageNet: 1 step, 1 copy, epsilon 0.5, strength 2, 90 epochs; SVHN: 2 steps,
4 copies, epsilon 0.5, strength 12 at σ = 0.25 and 4 at 0.5, lr 0.01):

    σ      steps  copies  epsilon  strength λ  hinge γ  beta β
    0.25   2      8       1        12          8        16
    0.5    2      8       2        12          8        16
    1.0    2      4       2        12          8        16
"""

from dataclasses import dataclass

from smoothcert.training.objectives.macer import Macer
from smoothcert.training.objectives.smoothadv import Smoothadv


@dataclass(frozen=True)
class Advmacer(Smoothadv, Macer):
    """Options as in smoothadv and macer: the points of one, the terms of the other."""

    published = {
        0.25: {"copies": 8, "epsilon": 1.0},
        0.5: {"copies": 8, "epsilon": 2.0},
        1.0: {"copies": 4, "epsilon": 2.0},
    }

    steps: int = 2
    copies: int = 8
