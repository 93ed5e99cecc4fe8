"""Linear networks for compositions, with known boundaries: importable as `switches:select` by commands.

The selector turns on a hyperplane of its own, so every radius of a composition is a distance to a plane.
"""

from __future__ import annotations

import linear
import torch

WEIGHT = torch.tensor([0.5, 1.0, -2.0, 1.5])
BIAS = -0.35


def margin(x: torch.Tensor) -> torch.Tensor:
    """The distance to the selector's plane, positive where it selects."""
    return (x.double() @ WEIGHT.double() + BIAS) / WEIGHT.double().norm()


def select(x: torch.Tensor) -> torch.Tensor:
    side = x @ WEIGHT + BIAS
    return torch.stack([-side, side], dim=1)


def steep(x: torch.Tensor) -> torch.Tensor:
    """`linear:score` with scores so large that its entropy is near 0 or 1 bit."""
    return 20 * linear.score(x)


def core(x: torch.Tensor) -> torch.Tensor:
    """Always the other class than `linear:score`, so that it is seen who answered."""
    return -linear.score(x)
