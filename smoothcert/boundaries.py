"""A test of one probability as a table of boundaries, and everything such a test does, computed exactly.

Every scheme that certifies a radius known in advance is compiled into a table before the first draw: how many hits
certify, how many misses give up, look by look. So one driver runs them all, a run costs two integer comparisons a look,
and `profile` gives the error of each by carrying the distribution of hits from look to look. A state is the number of
hits with the probability that the test is still running there; mass below 1e-18 at either end is cut off to keep
windows small, and always counted against the test.

**Testing the leading class without draws that choose it.** Let h(p) be the probability that a class of probability p
ever crosses the boundary. If every class is below p0, the error is at most Σ h(p_c). Where U_j − 1 ≥ (n_j − 1)·p0 at
every look, each path's p^{k−1}(1−p)^{n−k} rises in p up to p0, so h(p)/p rises too, and Σ h(p_c) ≤ h(p0)/p0: boundaries
at α·p0 are always valid. The same property bounds the sum by h(q) + h(1−q) with q ≥ ½ the largest class (2·h(½) if none
reaches ½), which is usually far less: then the boundaries may have α − e, e = h(1−p0), after that bound has been
computed for every q. If some class reaches p0, only the others can be wrong: at most h(1−p0). For a curve of radii e is
that of the smallest one, the largest of all. `Crossings` has h for every p from one computation at p0: a path's
probability depends on p only through its hits and draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from smoothcert.bounds import Floats, Integers
from smoothcert.errors import OptionError

TRUNCATED = 1e-18  # mass that may be cut off at either end of a state
CELLS = 33  # of the interval ½…p0 on which the leader's error is computed


class Verdict(Enum):
    """What a look decides."""

    CERTIFY = "certify"
    GIVE_UP = "give up"
    CONTINUE = "continue"


@dataclass(frozen=True, eq=False)
class Boundaries:
    """Is P(hit) ≥ p0? At look j with size[j] draws: certify at accept[j] hits, else give up at reject[j] misses.

    size, accept, reject: int64 [looks]; a value above size[j] is never reached. `fresh`: every look counts new draws
    only; otherwise all draws so far.
    """

    size: Integers
    accept: Integers
    reject: Integers
    fresh: bool = False

    @cached_property
    def draws(self) -> Integers:
        """New draws for each look."""
        return self.size if self.fresh else np.diff(self.size, prepend=0)

    def verdict(self, look: int, hits: int) -> Verdict:
        if hits >= self.accept[look]:
            return Verdict.CERTIFY
        return Verdict.GIVE_UP if self.size[look] - hits >= self.reject[look] else Verdict.CONTINUE


def smallest(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The smallest k of low…high with holds(k), which once true stays true; high + 1 if there is none."""
    while low <= high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle - 1
        else:
            low = middle + 1
    return low


class Hits(NamedTuple):
    """P(first + i hits, still running) for i = 0, 1, …; `truncated_mass` is what has been cut off so far."""

    first: int
    mass: Floats
    truncated_mass: float = 0.0

    def after(self, draws: int, p: float) -> Hits:
        """The distribution after more draws that hit with probability p."""
        first, kernel = binomial(draws, p)
        mass = np.convolve(self.mass, kernel)
        return _swept(Hits(self.first + first, mass, self.truncated_mass))

    def below(self, hits: int) -> Floats:
        """The part with fewer than this many hits."""
        return self.mass[: max(0, hits - self.first)]

    def within(self, low: int, high: int) -> Hits:
        """Only states low ≤ hits < high keep running."""
        start, stop = max(0, low - self.first), max(0, high - self.first)
        mass = self.mass[start:stop]
        return (
            Hits(self.first + start, mass, self.truncated_mass)
            if len(mass)
            else Hits(low, np.zeros(1), self.truncated_mass)
        )


START = Hits(0, np.ones(1))


def _swept(hits: Hits) -> Hits:
    """Drop both ends up to TRUNCATED each."""
    rising, falling = np.cumsum(hits.mass), np.cumsum(hits.mass[::-1])
    low, high = int(np.searchsorted(rising, TRUNCATED)), int(np.searchsorted(falling, TRUNCATED))
    if low + high >= len(hits.mass):
        return Hits(hits.first, np.zeros(1), hits.truncated_mass + float(hits.mass.sum()))
    lost = (float(rising[low - 1]) if low else 0.0) + (float(falling[high - 1]) if high else 0.0)
    return Hits(hits.first + low, hits.mass[low : len(hits.mass) - high], hits.truncated_mass + lost)


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
    # A kernel's tails are cut where they can no longer matter: far below what a state may lose.
    keep = np.flatnonzero(mass > TRUNCATED * 1e-4 / len(mass))
    first, last = int(keep[0]), int(keep[-1])
    return first, mass[first : last + 1] / math.fsum(mass[first : last + 1])


@dataclass(frozen=True, eq=False)
class Profile:
    """What a test does when P(hit) = p: probability to certify and to give up at each look, and its expected draws."""

    certify: Floats
    give_up: Floats
    running: Floats  # after each look
    draws: float
    truncated_mass: float  # mass not followed; in none of the above

    @property
    def certified(self) -> float:
        """P(certify), with what was not followed counted in: an upper bound."""
        return float(self.certify.sum()) + self.truncated_mass

    @property
    def given_up(self) -> float:
        return float(self.give_up.sum()) + self.truncated_mass


def profile(table: Boundaries, p: float) -> Profile:
    """The exact course of a test under P(hit) = p."""
    looks = len(table.size)
    certify, give_up, running = np.zeros(looks), np.zeros(looks), np.zeros(looks)
    state, alive, expected = START, 1.0, 0.0
    for j, draws in enumerate(table.draws.tolist()):
        expected += alive * draws
        # Fresh draws forget the count, not the fact that the test is still running.
        before = Hits(0, np.array([alive]), state.truncated_mass) if table.fresh else state
        state = before.after(draws, p)
        accept, floor = int(table.accept[j]), int(table.size[j] - table.reject[j])
        low, high = state.below(min(accept, floor + 1)), state.below(accept)
        give_up[j] = low.sum()
        certify[j] = state.mass.sum() - high.sum()
        state = state.within(min(accept, floor + 1), accept)
        alive = running[j] = float(state.mass.sum())
    return Profile(certify, give_up, running, expected, state.truncated_mass)


@runtime_checkable
class Tabled(Protocol):
    """A sampling whose test of one probability is a table."""

    @property
    def alpha(self) -> float: ...

    def boundaries(self, p0: float, alpha: float | None = None) -> Boundaries: ...


@lru_cache(maxsize=256)
def leader_alpha(scheme: Tabled, wanted: tuple[float, ...], p0: float) -> float:
    """The α for the boundaries of p0, one of the `wanted`, when the leading class is tested."""
    least = min(wanted)
    excess = Crossings.of(scheme.boundaries(least), least).at(1 - least)
    alpha = scheme.alpha - excess
    if alpha > scheme.alpha * p0:
        crossings = Crossings.of(scheme.boundaries(p0, alpha), p0)
        if crossings.rising and crossings.error() <= scheme.alpha and excess + alpha <= scheme.alpha:
            return alpha
    alpha = scheme.alpha * p0
    if not Crossings.of(scheme.boundaries(p0, alpha), p0).rising:
        raise OptionError(
            f"the leading class cannot be tested at alpha {scheme.alpha:g}; use draws that choose it (n0)"
        )
    return alpha


@dataclass(frozen=True, eq=False)
class Crossings:
    """Where a table is crossed, and with which probability under p0; `at` moves that to any smaller p."""

    p0: float
    hits: Integers
    draws: Integers
    mass: Floats
    truncated_mass: float
    rising: bool  # whether U_j − 1 ≥ (n_j − 1)·p0 at every look

    @classmethod
    def of(cls, table: Boundaries, p0: float) -> Crossings:
        """Follow hits under p0, giving up ignored, until they cross."""
        state = START
        found: list[tuple[Integers, Integers, Floats]] = []
        for size, draws, accept in zip(table.size.tolist(), table.draws.tolist(), table.accept.tolist(), strict=True):
            state = state.after(draws, p0)
            crossed = state.mass[len(state.below(accept)) :]
            hits = np.arange(state.first + len(state.mass) - len(crossed), state.first + len(state.mass))
            found.append((hits, np.full(len(crossed), size), crossed))
            state = state.within(state.first, accept)
        hits, sizes, mass = (np.concatenate(column) for column in zip(*found, strict=True))
        reached = table.accept <= table.size
        rising = bool((table.accept[reached] - 1 >= (table.size[reached] - 1) * p0).all())
        return cls(p0, hits, sizes, mass, state.truncated_mass, rising)

    def at(self, p: float) -> float:
        """h(p) for p ≤ p0, rounded up by the mass that was not followed."""
        if p <= 0.0:
            return 0.0
        ratio = self.hits * np.log(p / self.p0) + (self.draws - self.hits) * np.log((1 - p) / (1 - self.p0))
        return float(np.dot(self.mass, np.exp(ratio))) + self.truncated_mass

    def error(self) -> float:
        """A bound on the error over all distributions whose classes are below p0."""
        edges = np.linspace(0.5, self.p0, CELLS)
        pairs = [self.at(high) + self.at(1 - low) for low, high in pairwise(edges)]
        return max([2 * self.at(0.5), *pairs])
