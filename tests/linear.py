"""Linear classifiers, whose true radius is |w·x+b|/‖w‖: importable as `linear:score` by tests of the command line."""

from __future__ import annotations

import torch

from smoothcert.testing import LinearClassifier

SCORE = LinearClassifier((3.0, -2.0, 1.0, 0.5), -0.9)
WEIGHT, BIAS, margin = torch.tensor(SCORE.weight), SCORE.bias, SCORE.margin


def score(x: torch.Tensor) -> torch.Tensor:
    return SCORE(x)


def three(x: torch.Tensor) -> torch.Tensor:
    side = x @ WEIGHT + BIAS
    return torch.stack([-side, side, side * 0 - 10], dim=1)


def nan(x: torch.Tensor) -> torch.Tensor:
    return score(x) * float("nan")


def flat(x: torch.Tensor) -> torch.Tensor:
    return score(x)[:, 0]


def batchwise(x: torch.Tensor) -> torch.Tensor:
    return score(x) - score(x).mean(0)


def moody(x: torch.Tensor) -> torch.Tensor:
    return score(x) + torch.rand(len(x), 2)


def broken(x: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("no such luck")


def text(x: torch.Tensor) -> str:
    return "scores"


not_callable = 3
