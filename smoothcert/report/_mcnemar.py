"""How far two shares of the same inputs are apart, exactly.

Of n inputs, some are gained (only the second run has them) and some are lost (only the first has): McNemar's table. The
difference of the shares is (gained − lost)/n, and the other inputs say nothing about it.

The interval inverts the exact test of a given difference by the observed one. That test also depends on how many inputs
change sides at all, which is not known: as Berger and Boos (1994) do, the share of changed inputs is first confined to
its own exact interval, at the cost of GAMMA, and the worst case within it counts. So the level is kept for every n and
for shares near 0 and 1, where resampled inputs fail.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from smoothcert.report.metrics import LEVEL, Interval

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

GAMMA = 0.001  # of 1 − LEVEL, spent on the share of changed inputs
PLACES = 5  # in the interval of that share: the tail grows with it, but for parities, which the inner ones are for
HALVINGS = 22  # of the range of a difference: to 2⁻²², rounded outwards


def interval(gained: int, lost: int, inputs: int) -> Interval:
    """Where the difference (gained − lost)/inputs lies for inputs drawn like these, at level LEVEL."""
    changed = _clopper_pearson(gained + lost, inputs)
    low = _lowest(gained - lost, inputs, changed)
    return Interval(low, -_lowest(lost - gained, inputs, changed))


def p_value(gained: int, lost: int) -> float:
    """McNemar's exact two-sided test that inputs are as often gained as lost."""
    from scipy.special import bdtrc

    most, changed = max(gained, lost), gained + lost
    return min(1.0, 2.0 * float(bdtrc(most - 1, changed, 0.5))) if changed else 1.0


def _lowest(total: int, inputs: int, changed: Interval) -> float:
    """The lowest difference that does not make gained − lost ≥ total too rare."""
    rare = (1.0 - LEVEL - GAMMA) / 2.0
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


def _clopper_pearson(hits: int, inputs: int) -> Interval:
    from scipy.special import betaincinv

    low = float(betaincinv(hits, inputs - hits + 1, GAMMA / 2.0)) if hits else 0.0
    high = float(betaincinv(hits + 1, inputs - hits, 1.0 - GAMMA / 2.0)) if hits < inputs else 1.0
    return Interval(low, high)
