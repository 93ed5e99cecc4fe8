"""Three linear classifiers that differ near the boundary: members of ensembles, importable as `lines:a` by commands."""

from __future__ import annotations

import linear
import torch


def a(x: torch.Tensor) -> torch.Tensor:
    return linear.score(x)


def b(x: torch.Tensor) -> torch.Tensor:
    return linear.score(x + torch.tensor([0.1, 0.0, 0.0, 0.0]))


def c(x: torch.Tensor) -> torch.Tensor:
    return 2 * linear.score(x - torch.tensor([0.1, 0.0, 0.1, 0.0]))
