"""Draws that a scheme is expected to take at a probability p, exactly, and summed over the inputs of a run.

The p of an input is estimated by its own votes, so the sum is an estimate; at a given p the expectation is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from smoothcert.boundaries import START, Boundaries, Hits
from smoothcert.bounds import Floats
from smoothcert.report.course import tested_class
from smoothcert.report.draws import tested
from smoothcert.report.scheme import Scheme
from smoothcert.runs.run import Run

FAR = 36.0  # the logit that stands for p = 0 and p = 1


@dataclass(frozen=True)
class Expected:
    """Draws of the tests of a run, without those that chose the class."""

    expected: float
    used: int

    @property
    def ratio(self) -> float:
        return self.used / self.expected


def expected(record: Run, scheme: Scheme) -> Expected | None:
    """Expected and used draws; None where votes are not kept."""
    seen = [estimate(tested(row), tested_class(scheme.against, row)) for row in record.rows]
    known = [item for item in seen if item is not None]
    if not known or len(known) < len(seen):
        return None
    course = curve(scheme)
    total = float(np.exp(np.interp(logit(np.array([p for p, _ in known])), *course)).sum())
    return Expected(total, sum(draws for _, draws in known))


def estimate(looks: Sequence[tuple[int, ...]], label: int | None) -> tuple[float, int] | None:
    """The share of votes of the tested class (of the leader, if there was none), and of how many."""
    if not looks:
        return None
    votes = np.array(looks).sum(axis=0)
    return float(votes.max() if label is None else votes[label]) / float(votes.sum()), int(votes.sum())


@lru_cache(maxsize=64)
def curve(scheme: Scheme) -> tuple[Floats, Floats]:
    """The logarithm of the expected draws against the logit of p, on a grid that is dense around every p0."""
    grid = sorted({0.0, 1.0, *(p for test in scheme.tests for p in test.grid)})
    if len(scheme.tests) == 1:
        draws = [scheme.tests[0].profile(p).draws for p in grid]
    else:
        draws = [chain([test.table for test in scheme.tests], p) for p in grid]
    return _refined(logit(np.array(grid)), np.log(draws))


def logit(p: Floats) -> Floats:
    """Log-odds, kept finite."""
    with np.errstate(divide="ignore"):
        odds: Floats = np.clip(np.log(p) - np.log1p(-p), -FAR, FAR)
    return odds


def _refined(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """A monotone cubic through the points (it makes no waves), as a line of many pieces."""
    from scipy.interpolate import PchipInterpolator

    fine = np.unique(np.concatenate([np.linspace(a, b, 9) for a, b in pairwise(x)]))
    return fine, PchipInterpolator(x, y)(fine)


def chain(tables: Sequence[Boundaries], p: float) -> float:
    """Expected draws of tests that follow each other on one stream: each begins where the one before it certified."""
    states: list[Hits | None] = [START, *(None for _ in tables[1:])]
    total = 0.0
    for j, draws in enumerate(tables[0].draws.tolist()):
        alive = [0.0 if state is None else float(state.mass.sum()) for state in states]
        total += draws * sum(alive)
        certified: Hits | None = None
        for i, table in enumerate(tables):
            before = Hits(0, np.array([alive[i]])) if table.fresh else states[i]
            here = _joined(certified, before.after(draws, p) if before is not None and alive[i] > 0.0 else None)
            if here is None:
                states[i] = certified = None
                continue
            accept, floor = int(table.accept[j]), int(table.size[j] - table.reject[j])
            certified = here.within(accept, here.first + len(here.mass))
            states[i] = here.within(min(accept, floor + 1), accept)
    return total


def _joined(one: Hits | None, other: Hits | None) -> Hits | None:
    """The sum of two distributions of hits."""
    if one is None or other is None:
        return one or other
    first = min(one.first, other.first)
    mass = np.zeros(max(one.first + len(one.mass), other.first + len(other.mass)) - first)
    for part in (one, other):
        mass[part.first - first : part.first - first + len(part.mass)] += part.mass
    return Hits(first, mass)
