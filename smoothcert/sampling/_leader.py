"""Testing the leading class without draws that choose it.

Let h(p) be the probability that a class of probability p ever crosses the boundary. If every class is below p0, the
error is at most Σ h(p_c). Where U_j − 1 ≥ (n_j − 1)·p0 at every look, each path's p^{k−1}(1−p)^{n−k} rises in p up to
p0, so h(p)/p rises too, and Σ h(p_c) ≤ h(p0)/p0: boundaries at level α·p0 are always valid. The same property bounds
the sum by h(q) + h(1−q) with q ≥ ½ the largest class (2·h(½) if none reaches ½), which is usually far less: then the
boundaries may have level α − e, e = h(1−p0), after that bound has been computed for every q. If some class reaches p0,
only the others can be wrong: at most h(1−p0). For a curve of radii e is that of the smallest one, the largest of all.

h is had for every p from one computation at p0: a path's probability depends on p only through its hits and draws.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Protocol

import numpy as np

from smoothcert.errors import OptionError
from smoothcert.sampling._boundaries import Boundaries, Integers
from smoothcert.sampling._exact import START, Floats

CELLS = 33  # of the interval ½…p0 on which the bound is computed


class Scheme(Protocol):
    """A sampling whose boundaries count all draws so far."""

    @property
    def alpha(self) -> float: ...

    def boundaries(self, p0: float, alpha: float | None = None) -> Boundaries: ...


@lru_cache(maxsize=256)
def leader_level(scheme: Scheme, wanted: tuple[float, ...], p0: float) -> float:
    """The level for the boundaries of p0, one of the `wanted`, when the leading class is tested."""
    smallest = min(wanted)
    excess = Crossings.of(scheme.boundaries(smallest), smallest).at(1 - smallest)
    level = scheme.alpha - excess
    if level > scheme.alpha * p0:
        crossings = Crossings.of(scheme.boundaries(p0, level), p0)
        if crossings.rising and crossings.error() <= scheme.alpha and excess + level <= scheme.alpha:
            return level
    level = scheme.alpha * p0
    if not Crossings.of(scheme.boundaries(p0, level), p0).rising:
        raise OptionError(
            f"the leading class cannot be tested at alpha {scheme.alpha:g}; use draws that choose it (n0)"
        )
    return level


class Crossings:
    """Where a table is crossed, and with which probability under p0; `at` moves that to any smaller p."""

    def __init__(self, p0: float, hits: Integers, draws: Integers, mass: Floats, dust: float, rising: bool) -> None:
        self.p0, self.hits, self.draws, self.mass, self.dust, self.rising = p0, hits, draws, mass, dust, rising

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
        return cls(p0, hits, sizes, mass, state.dust, rising)

    def at(self, p: float) -> float:
        """h(p) for p ≤ p0, rounded up by the mass that was not followed."""
        if p <= 0.0:
            return 0.0
        ratio = self.hits * np.log(p / self.p0) + (self.draws - self.hits) * np.log((1 - p) / (1 - self.p0))
        return float(np.dot(self.mass, np.exp(ratio))) + self.dust

    def error(self) -> float:
        """A bound on the error over all distributions whose classes are below p0."""
        edges = np.linspace(0.5, self.p0, CELLS)
        pairs = [self.at(high) + self.at(1 - low) for low, high in pairwise(edges)]
        return max([2 * self.at(0.5), *pairs])
