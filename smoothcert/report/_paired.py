"""Differences between runs on the same inputs, with intervals from resampled inputs (Efron's percentile bootstrap).

Inputs are resampled, each with all of its figures, so that what makes an input easy or hard for every run alike cancels
in the difference. An interval speaks about inputs drawn like these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from smoothcert.report.metrics import LEVEL

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

RESAMPLES = 5000
SEED = 0  # the same runs give the same intervals
BLOCK = 2**20  # numbers drawn at a time: bounds memory, not results


class Estimate(NamedTuple):
    """A figure of these inputs, and where it lies for inputs drawn like them, at level LEVEL."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Resampled:
    """Means over all inputs [runs, figures], and over each resample of them [resamples, runs, figures]."""

    means: Floats
    drawn: Floats

    def gain(self, ours: int, theirs: int, figure: int) -> Estimate:
        """How much more the one run has than the other."""
        value = self.means[ours, figure] - self.means[theirs, figure]
        return _estimate(value, self.drawn[:, ours, figure] - self.drawn[:, theirs, figure])

    def relative(self, ours: int, theirs: int, figure: int) -> Estimate | None:
        """The same as a share of what the other has; None where some resample has nothing."""
        if not (self.drawn[:, theirs, figure] > 0.0).all():
            return None
        value = self.means[ours, figure] / self.means[theirs, figure] - 1
        return _estimate(value, self.drawn[:, ours, figure] / self.drawn[:, theirs, figure] - 1)


def resampled(values: Floats, resamples: int = RESAMPLES, seed: int = SEED) -> Resampled:
    """Resample the inputs of values [inputs, runs, figures]."""
    inputs, shape = len(values), values.shape[1:]
    flat, rng, some = values.reshape(inputs, -1), np.random.default_rng(seed), max(1, BLOCK // inputs)
    blocks = [_times(rng, min(some, resamples - first), inputs) @ flat for first in range(0, resamples, some)]
    return Resampled(values.mean(axis=0), np.concatenate(blocks).reshape(resamples, *shape) / inputs)


def _times(rng: np.random.Generator, resamples: int, inputs: int) -> Floats:
    """How often each input is in each resample of as many: [resamples, inputs]."""
    chosen = rng.integers(inputs, size=(resamples, inputs)) + inputs * np.arange(resamples)[:, None]
    return np.bincount(chosen.ravel(), minlength=resamples * inputs).reshape(resamples, inputs).astype(np.float64)


def _estimate(value: float, drawn: Floats) -> Estimate:
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(drawn, (tail, 1.0 - tail))
    return Estimate(float(value), float(low), float(high))
