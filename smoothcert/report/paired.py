"""Differences between runs on the same inputs, with intervals that speak about inputs drawn like these.

Of means, inputs are resampled, each with all of its figures (Efron's percentile bootstrap): what makes an input easy or
hard for every run alike cancels in the difference.

Of shares it is exact. Of n inputs, some are gained (only the second run has them) and some are lost (only the first
has): McNemar's table. The difference of the shares is (gained − lost)/n, and the other inputs say nothing about it.
The interval inverts the exact test of a given difference by the observed one. That test also depends on how many inputs
change sides at all, which is not known: as Berger and Boos (1994) do, the share of changed inputs is first confined to
its own exact interval, at the cost of GAMMA, and the worst case within it counts. So the level is kept for every n and
for shares near 0 and 1, where resampled inputs fail.

Of several runs held against one, some difference looks sure by chance: intervals then have a level each that adds up
(Bonferroni), p-values are Holm's. Both hold however the runs depend on each other, as runs on the same inputs do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN
from typing import NamedTuple

import numpy as np

from smoothcert.bounds import Floats
from smoothcert.report.metrics import LEVEL, Interval
from smoothcert.report.tables import ends, rounded

RESAMPLES = 5000
SEED = 0  # the same runs give the same intervals
BLOCK = 2**20  # numbers drawn at a time: bounds memory, not results
MANY = 20_000  # inputs, above which a normal distribution stands for resampling
GAMMA = 0.02  # of 1 − level, spent on the share of changed inputs
PLACES = 5  # in the interval of that share: the tail grows with it, but for parities, which the inner ones are for
HALVINGS = 22  # of the range of a difference: to 2⁻²², rounded outwards


class Estimate(NamedTuple):
    """A figure of these inputs, and where it lies for inputs drawn like them, at level LEVEL."""

    value: float
    low: float
    high: float

    def told(self, shift: int = 0) -> tuple[str, str]:
        """A difference as it is shown, and its interval, rounded outwards; the point moved to the right by `shift`."""
        return difference(self.value, shift), ends(Interval(self.low, self.high), shift)


def difference(value: float, shift: int = 0) -> str:
    """A difference with its sign, to nearest, with a decimal more than figures have: rows do not contradict them."""
    found = rounded(value, ROUND_HALF_EVEN, shift, decimals=4)
    return found if found.startswith("−") else f"+{found}"


@dataclass(frozen=True, eq=False)
class Resampled:
    """Means over all inputs [runs, figures], and over each resample of them [resamples, runs, figures]."""

    means: Floats
    drawn: Floats

    def gain(self, ours: int, theirs: int, figure: int, level: float = LEVEL) -> Estimate:
        """How much more the one run has than the other."""
        value = self.means[ours, figure] - self.means[theirs, figure]
        return _estimate(value, self.drawn[:, ours, figure] - self.drawn[:, theirs, figure], level)

    def relative(self, ours: int, theirs: int, figure: int) -> Estimate | None:
        """The same as a share of what the other has; None where some resample has nothing."""
        if not (self.drawn[:, theirs, figure] > 0.0).all():
            return None
        value = self.means[ours, figure] / self.means[theirs, figure] - 1
        return _estimate(value, self.drawn[:, ours, figure] / self.drawn[:, theirs, figure] - 1)


def resampled(values: Floats, resamples: int = RESAMPLES, seed: int = SEED) -> Resampled:
    """Resample the inputs of values [inputs, runs, figures].

    Of more than MANY inputs the means of resamples are normal, with the values' own covariances, to three digits: they
    are drawn so, since picking a million inputs five thousand times would take an hour.
    """
    inputs, shape = len(values), values.shape[1:]
    flat, rng, some = values.reshape(inputs, -1), np.random.default_rng(seed), max(1, BLOCK // inputs)
    if inputs > MANY:
        sizes, directions = np.linalg.eigh(np.atleast_2d(np.cov(flat, rowvar=False)) / inputs)
        steps = rng.standard_normal((resamples, len(sizes))) * np.sqrt(np.maximum(sizes, 0.0))
        return Resampled(values.mean(axis=0), (flat.mean(axis=0) + steps @ directions.T).reshape(resamples, *shape))
    blocks = [_times(rng, min(some, resamples - first), inputs) @ flat for first in range(0, resamples, some)]
    return Resampled(values.mean(axis=0), np.concatenate(blocks).reshape(resamples, *shape) / inputs)


def _times(rng: np.random.Generator, resamples: int, inputs: int) -> Floats:
    """How often each input is in each resample of as many: [resamples, inputs]."""
    chosen = rng.integers(inputs, size=(resamples, inputs)) + inputs * np.arange(resamples)[:, None]
    return np.bincount(chosen.ravel(), minlength=resamples * inputs).reshape(resamples, inputs).astype(np.float64)


def _estimate(value: float, drawn: Floats, level: float = LEVEL) -> Estimate:
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(drawn, (tail, 1.0 - tail))
    return Estimate(float(value), float(low), float(high))


def level_of(comparisons: int) -> float:
    """The level of each of so many intervals that hold together at LEVEL."""
    return 1.0 - (1.0 - LEVEL) / comparisons if comparisons > 1 else LEVEL


def holm(p_values: Sequence[float]) -> list[float]:
    """Of several tests, p-values at which the chance of any false alarm stays below what they say (Holm, 1979)."""
    found, worst = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        worst = max(worst, (len(p_values) - rank) * p_values[place])
        found[place] = min(1.0, worst)
    return found


def interval(gained: int, lost: int, inputs: int, level: float = LEVEL) -> Interval:
    """Where the difference (gained − lost)/inputs lies for inputs drawn like these, at this level."""
    changed = _clopper_pearson(gained + lost, inputs, GAMMA * (1.0 - level))
    rare = (1.0 - GAMMA) * (1.0 - level) / 2.0
    low = _lowest(gained - lost, inputs, changed, rare)
    return Interval(low, -_lowest(lost - gained, inputs, changed, rare))


def p_value(gained: int, lost: int) -> float:
    """McNemar's exact two-sided test that inputs are as often gained as lost."""
    from scipy.special import bdtrc

    most, changed = max(gained, lost), gained + lost
    return min(1.0, 2.0 * float(bdtrc(most - 1, changed, 0.5))) if changed else 1.0


def _lowest(total: int, inputs: int, changed: Interval, rare: float) -> float:
    """The lowest difference that does not make gained − lost ≥ total too rare."""
    low, high = -changed.high, total / inputs
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _tail(total, middle, inputs, changed) <= rare else (low, middle)
    return low


def _tail(total: int, difference: float, inputs: int, changed: Interval) -> float:
    """P(gained − lost ≥ total) under a true difference, at the worst share of changed inputs.

    The sum of independent steps +1, −1 and 0: its distribution is the power of their Fourier transform, taken on as
    many places as hold all of it, or all but 1e-13 (Bernstein's inequality).
    """
    shares = np.linspace(max(changed.low, abs(difference)), max(changed.high, abs(difference)), PLACES)[:, None]
    half = min(inputs, math.ceil(10.0 * math.sqrt(inputs * shares[-1, 0]) + 30.0))
    places = np.arange(half + 1) * 2.0 * np.pi / (2 * half + 1)
    step = 1.0 - shares + shares * np.cos(places) - 1j * difference * np.sin(places)
    chances: Floats = np.fft.irfft(step**inputs, 2 * half + 1, axis=1)
    middle = round(inputs * difference) if half < inputs else 0
    reached = np.arange(max(total, middle - half), middle + half + 1) % (2 * half + 1)
    return float(chances[:, reached].sum(axis=1).max())


def _clopper_pearson(hits: int, inputs: int, risk: float) -> Interval:
    from scipy.special import betaincinv

    low = float(betaincinv(hits, inputs - hits + 1, risk / 2.0)) if hits else 0.0
    high = float(betaincinv(hits + 1, inputs - hits, 1.0 - risk / 2.0)) if hits < inputs else 1.0
    return Interval(low, high)
