"""A linear classifier of pictures, whose radii are known: importable as `pictured:score`. It can be held up.

The true radius of x is |w·x + b|/‖w‖, and under Gaussian noise class 1 has the share Φ(margin/σ) of votes.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import torch

SHAPE = (3, 4, 4)
WEIGHT = torch.linspace(-1, 1, math.prod(SHAPE))
BIAS = 0.8
GATE = Path(os.environ.get("PICTURED_GATE", "/nonexistent"))  # closed while it exists


def score(x: torch.Tensor) -> torch.Tensor:
    while GATE.exists():
        time.sleep(0.01)
    side = x.flatten(1) @ WEIGHT + BIAS
    return torch.stack([-side, side], dim=1)


def margin(x: torch.Tensor) -> torch.Tensor:
    """Distance to the boundary, positive on the side of class 1."""
    return (x.flatten(1) @ WEIGHT + BIAS) / WEIGHT.norm()
