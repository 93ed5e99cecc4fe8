"""Exact probabilities of sequential tests, by carrying the distribution of hits from look to look.

A state is the number of hits with the probability that the test is still running there. Mass below 1e-18 at either end
is dropped to keep windows small, and always counted against the test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from smoothcert.sampling._boundaries import Boundaries

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
DUST = 1e-18


class Hits(NamedTuple):
    """P(first + i hits, still running) for i = 0, 1, …; `dust` is what has been dropped so far."""

    first: int
    mass: Floats
    dust: float = 0.0

    def after(self, draws: int, p: float) -> Hits:
        """The distribution after more draws that hit with probability p."""
        first, kernel = binomial(draws, p)
        mass = np.convolve(self.mass, kernel)
        return _swept(Hits(self.first + first, mass, self.dust))

    def below(self, hits: int) -> Floats:
        """The part with fewer than this many hits."""
        return self.mass[: max(0, hits - self.first)]

    def within(self, low: int, high: int) -> Hits:
        """Only states low ≤ hits < high keep running."""
        start, stop = max(0, low - self.first), max(0, high - self.first)
        mass = self.mass[start:stop]
        return Hits(self.first + start, mass, self.dust) if len(mass) else Hits(low, np.zeros(1), self.dust)


START = Hits(0, np.ones(1))


def _swept(hits: Hits) -> Hits:
    """Drop both ends up to DUST each."""
    rising, falling = np.cumsum(hits.mass), np.cumsum(hits.mass[::-1])
    low, high = int(np.searchsorted(rising, DUST)), int(np.searchsorted(falling, DUST))
    if low + high >= len(hits.mass):
        return Hits(hits.first, np.zeros(1), hits.dust + float(hits.mass.sum()))
    lost = (float(rising[low - 1]) if low else 0.0) + (float(falling[high - 1]) if high else 0.0)
    return Hits(hits.first + low, hits.mass[low : len(hits.mass) - high], hits.dust + lost)


@lru_cache(maxsize=4096)
def binomial(draws: int, p: float) -> tuple[int, Floats]:
    """P(Bin(draws, p) = first + i), by ratios from the mode outwards and then normalised: good to about 1e-13."""
    if p <= 0.0 or p >= 1.0:
        return (0 if p <= 0.0 else draws), np.ones(1)
    mode = min(draws, int((draws + 1) * p))
    up = np.arange(mode, draws, dtype=np.float64)
    down = np.arange(mode, 0, -1, dtype=np.float64)
    above = np.cumprod((draws - up) / (up + 1) * (p / (1 - p)))
    below = np.cumprod(down / (draws - down + 1) * ((1 - p) / p))
    mass = np.concatenate([below[::-1], [1.0], above])
    mass /= math.fsum(mass)
    # A kernel's tails are cut where they can no longer matter: a hundredth of the dust of a state.
    keep = np.flatnonzero(mass > DUST * 1e-4 / len(mass))
    first, last = int(keep[0]), int(keep[-1])
    return first, mass[first : last + 1] / math.fsum(mass[first : last + 1])


@dataclass(frozen=True, eq=False)
class Profile:
    """What a test does when P(hit) = p: probability to certify and to give up at each look, and its expected draws."""

    certify: Floats
    give_up: Floats
    running: Floats  # after each look
    draws: float
    dust: float  # mass not followed; in none of the above

    @property
    def certified(self) -> float:
        """P(certify), with what was not followed counted in: an upper bound."""
        return float(self.certify.sum()) + self.dust

    @property
    def given_up(self) -> float:
        return float(self.give_up.sum()) + self.dust


def profile(table: Boundaries, p: float) -> Profile:
    """The exact course of a test under P(hit) = p."""
    looks = len(table.size)
    certify, give_up, running = np.zeros(looks), np.zeros(looks), np.zeros(looks)
    state, alive, expected = START, 1.0, 0.0
    for j, draws in enumerate(table.draws.tolist()):
        expected += alive * draws
        # Fresh draws forget the count, not the fact that the test is still running.
        before = Hits(0, np.array([alive]), state.dust) if table.fresh else state
        state = before.after(draws, p)
        accept, floor = int(table.accept[j]), int(table.size[j] - table.reject[j])
        low, high = state.below(min(accept, floor + 1)), state.below(accept)
        give_up[j] = low.sum()
        certify[j] = state.mass.sum() - high.sum()
        state = state.within(min(accept, floor + 1), accept)
        alive = running[j] = float(state.mass.sum())
    return Profile(certify, give_up, running, expected, state.dust)
