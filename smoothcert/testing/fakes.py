"""Classifiers whose probabilities and radii are known, and answers to a procedure without any classifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from smoothcert.contracts import Counts, Draw, Norm, Steps

T = TypeVar("T")


@dataclass(frozen=True)
class LinearClassifier:
    """Class 1 where w·x + b > 0, else class 0.

    Under noise that is symmetric around 0 the smoothed classifier has the same boundary, so its true radius at x is the
    distance to that plane: |w·x + b| / ‖w‖ in l2.
    """

    weight: tuple[float, ...]
    bias: float = 0.0

    def __call__(self, x: Tensor) -> Tensor:
        side = x.flatten(1) @ torch.tensor(self.weight) + self.bias
        return torch.stack([-side, side], dim=1)

    def margin(self, x: Tensor, norm: Norm = "l2") -> Tensor:
        """Distances of inputs [..., dim] to the plane, in float64; negative in class 0."""
        weight = torch.tensor(self.weight, dtype=torch.float64)
        dual = {"l1": weight.abs().max(), "l2": weight.norm(), "linf": weight.abs().sum()}[norm]
        distance: Tensor = (x.double() @ weight + self.bias) / dual
        return distance


@dataclass(frozen=True)
class BandClassifier:
    """Class k in the k-th band of the first coordinate.

    Under Gaussian noise of level sigma, around any x that begins with `centre`, class k has probability
    probabilities[k]. Of two classes the first has the true radius σ·Φ⁻¹(p).
    """

    probabilities: tuple[float, ...]
    sigma: float
    centre: float = 0.5

    def __call__(self, x: Tensor) -> Tensor:
        edges = self.centre + self.sigma * ndtri(np.cumsum(self.probabilities)[:-1])
        band = torch.bucketize(x.flatten(1)[:, 0].contiguous().double(), torch.as_tensor(edges))
        return torch.nn.functional.one_hot(band, len(self.probabilities)).float()


def answer(
    steps: Steps[T], answers: Sequence[float] | Callable[[Draw], Counts], rng: np.random.Generator | None = None
) -> T:
    """The result of a procedure whose draws come from these class probabilities, or are answered by a function."""
    numbers = rng or np.random.default_rng(0)
    draw = next(steps)
    while True:
        if callable(answers):
            counts = np.asarray(answers(draw), dtype=np.int64)
        else:
            counts = numbers.multinomial(draw.draws, answers)[None, :].astype(np.int64)
        try:
            draw = steps.send(counts)
        except StopIteration as end:
            result: T = end.value
            return result
