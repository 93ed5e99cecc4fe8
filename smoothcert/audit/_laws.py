"""What is known of each noise: centre, spread and fourth moment of a noisy coordinate of x, from its law alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtr

from smoothcert.contracts import EVERY, Stream

if TYPE_CHECKING:
    from torch import Tensor

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"


class Law(NamedTuple):
    """Of independent numbers, one a coordinate, or a single one where one random number moves all coordinates."""

    centre: Numbers  # [m]
    spread: Numbers  # [m], standard deviation; 0 where nothing moves
    fourth: Numbers  # [m], E((v − centre)/spread)⁴
    single: bool = False

    def standard(self, noisy: Numbers) -> tuple[Numbers, Numbers]:
        """Noisy copies [rows, dim] as numbers [rows, moving] with mean 0 and variance 1, and their fourth moments."""
        values = noisy.mean(axis=1, keepdims=True) if self.single else noisy
        moves = self.spread > 0
        return (values[:, moves] - self.centre[moves]) / self.spread[moves], self.fourth[moves]


def law(noise: Any, x: Tensor) -> Law | None:
    """The law of noisy copies of x; None for a noise that is not known here."""
    known = {
        "Gaussian": _gaussian,
        "Uniform": _uniform,
        "GaussianGrid": _gaussian_grid,
        "Discrete": _discrete,
        "Splitting": _splitting,
    }
    found = known.get(type(noise).__name__)
    return None if found is None else found(noise, x)


def _gaussian(noise: Any, x: Tensor) -> Law:
    return _added(x, noise.sigma, 3.0)


def _uniform(noise: Any, x: Tensor) -> Law:
    return _added(x, noise.lam / 3**0.5, 9 / 5)


def _gaussian_grid(noise: Any, x: Tensor) -> Law:
    wide = noise.sigma * noise.grid
    steps = np.arange(-int(10 * wide) - 2, int(10 * wide) + 3)
    weights = ndtr((steps + 0.5) / wide) - ndtr((steps - 0.5) / wide)
    variance = float(weights @ steps**2.0)
    return _added(x, variance**0.5 / noise.grid, float(weights @ steps**4.0) / variance**2)


def _discrete(noise: Any, x: Tensor) -> Law:
    values = np.arange(noise.values) / (noise.values - 1)
    level = np.floor(_flat(x) * (noise.values - 1) + 0.5).astype(int)
    weights = np.full((len(level), noise.values), (1 - noise.keep) / (noise.values - 1))
    weights[np.arange(len(level)), level] = noise.keep
    return _moments(np.broadcast_to(values, weights.shape), weights)


def _splitting(noise: Any, x: Tensor) -> Law:
    """Every case once: one offset moves all coordinates, so their mean is what is random."""
    import torch

    every = torch.zeros(noise.cases, *x.shape)
    noise.fill(every, x, Stream(0, 0, EVERY), 0)
    means = every.numpy().reshape(noise.cases, -1).astype(np.float64).mean(axis=1)
    return _moments(means[None], np.full((1, noise.cases), 1 / noise.cases))._replace(single=True)


def _added(x: Tensor, spread: float, fourth: float) -> Law:
    centre = _flat(x)
    return Law(centre, np.full(centre.shape, spread), np.full(centre.shape, fourth))


def _moments(values: Numbers, weights: Numbers) -> Law:
    centre = (values * weights).sum(axis=1)
    off = values - centre[:, None]
    variance, fourth = (((off**power) * weights).sum(axis=1) for power in (2, 4))
    variance[variance < 1e-24] = 0.0
    return Law(centre, np.sqrt(variance), np.divide(fourth, variance**2, out=np.ones_like(fourth), where=variance > 0))


def _flat(x: Tensor) -> Numbers:
    return x.numpy().reshape(-1).astype(np.float64)
