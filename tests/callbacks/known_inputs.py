"""A classifier whose true radii are known, inputs at known distances, and a network with everything that has a mode."""

from __future__ import annotations

import torch
from torch import nn

from smoothcert.testing import LinearClassifier

SIGMA, RADIUS = 0.25, 0.25
LINE = LinearClassifier((1.0, 0.0), -0.5)  # class 1 where the first coordinate is above ½: that is the distance


def at(*distances: float) -> torch.Tensor:
    """Different inputs at these distances from the boundary; negative in class 0."""
    return torch.stack([torch.tensor([0.5 + distance, 0.01 * n]) for n, distance in enumerate(distances)])


def small() -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Flatten(), nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)]
    return nn.Sequential(*layers)
