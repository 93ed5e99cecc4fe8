"""Certify a radius known in advance with a bound that holds at every moment: a one-sided beta mixture.

M_n = ∫ (likelihood of p)/(likelihood of p0) over p > p0 with a Beta(½,½) prior is a supermartingale whenever
P(hit) ≤ p0, so it ever reaches 1/α with probability at most α (Ville): any looks, any number of them, no cap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import betaincc, betaln

from smoothcert.boundaries import Boundaries, smallest
from smoothcert.bounds import Integers
from smoothcert.sampling._shared import Sequential
from smoothcert.sampling.spending import looks

MOST = 10**9  # draws that are still counted when asking how many it takes
MARGIN = 1e-9  # on the logarithm, far above its rounding


@dataclass(frozen=True)
class Anytime(Sequential):
    """Test the radii, smallest first. The cap only says when to stop asking; raising it later would be allowed."""

    def boundaries(self, p0: float, alpha: float | None = None) -> Boundaries:
        return _table(p0, alpha or self.alpha, self.beta, self.spacing, self.cap)

    def fewest(self, p0: float) -> int:
        return smallest(1, MOST, lambda n: log_mixture(n, n, p0) >= math.log(1 / self.alpha) + MARGIN)


def log_mixture(hits: int, draws: int, p0: float) -> float:
    """Ln M after so many hits."""
    a, b = 0.5 + hits, 0.5 + draws - hits
    tail = float(betaincc(a, b, p0))
    if tail <= 0.0:
        return -math.inf
    prior = math.log(math.pi) + math.log(float(betaincc(0.5, 0.5, p0)))
    likelihood = hits * math.log(p0) + (draws - hits) * math.log1p(-p0)
    return float(betaln(a, b)) + math.log(tail) - prior - likelihood


@lru_cache(maxsize=64)
def _table(p0: float, alpha: float, beta: float, spacing: int, cap: int) -> Boundaries:
    size = looks(spacing, cap)
    return Boundaries(size, _crossing(size, p0, alpha), _crossing(size, 1 - p0, beta))


def _crossing(size: Integers, p0: float, error: float) -> Integers:
    """For each look, the fewest hits above n·p0 at which ln M reaches ln(1/error)."""
    enough = math.log(1 / error) + MARGIN

    def at(draws: int) -> int:
        return smallest(math.floor(draws * p0) + 1, draws, lambda hits: log_mixture(hits, draws, p0) >= enough)

    return np.array([at(draws) for draws in size.tolist()], dtype=np.int64)
