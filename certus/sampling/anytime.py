"""Certify a radius known in advance with a bound that holds at every moment: a one-sided beta mixture.

M_n = ∫ (likelihood of p)/(likelihood of p0) over p > p0 with a Beta(½,½) prior is a supermartingale whenever
P(hit) ≤ p0, so it ever reaches 1/α with probability at most α (Ville): any looks, any number of them, no cap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy.special import betaincc, betaln

from certus.bounds import check_alpha, check_draws
from certus.contracts import Evidence, Noise, Source, Steps
from certus.sampling._boundaries import Boundaries, Integers, check_radii, follow, needs, smallest
from certus.sampling._leader import leader_level
from certus.sampling.spending import looks

MARGIN = 1e-9  # on the logarithm, far above its rounding


@dataclass(frozen=True)
class Anytime:
    """Test the radii, smallest first. The cap only says when to stop asking; raising it later would be allowed."""

    radii: Sequence[float] = ()
    alpha: float = 0.001
    beta: float = 0.001
    cap: int = 120_000
    spacing: int = 100

    follows_leader: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "radii", check_radii(self.radii, "anytime"))
        check_alpha(self.alpha, "anytime")
        check_alpha(self.beta, "anytime", "beta")
        check_draws(self.cap, "cap", "anytime")
        check_draws(self.spacing, "spacing", "anytime")

    def check(self, noise: Noise, dim: int) -> str:
        """Refuse radii that the cap cannot reach."""
        self._needs(noise, dim)
        return f"up to {self.cap} draws decide radius {', '.join(f'{r:g}' for r in self.radii)} at alpha {self.alpha:g}"

    def boundaries(self, p0: float, alpha: float | None = None) -> Boundaries:
        """The mixture as counts, at the looks this scheme takes."""
        return _table(p0, alpha or self.alpha, self.beta, self.spacing, self.cap)

    def test(self, source: Source, label: int | None, dim: int) -> Steps[Evidence]:
        wanted = self._needs(source.noise, dim)
        tables = [
            (p0, self.boundaries(p0, leader_level(self, tuple(wanted), p0) if label is None else None)) for p0 in wanted
        ]
        return (yield from follow(source, label, tables, self.alpha, self.radii))

    def _needs(self, noise: Noise, dim: int) -> list[float]:
        return needs(noise, self.radii, dim, lambda p0: _fewest(p0, self.alpha), self.cap, "anytime")


def log_mixture(hits: int, draws: int, p0: float) -> float:
    """Ln M after so many hits."""
    a, b = 0.5 + hits, 0.5 + draws - hits
    tail = float(betaincc(a, b, p0))
    if tail <= 0.0:
        return -math.inf
    prior = math.log(math.pi) + math.log(float(betaincc(0.5, 0.5, p0)))
    likelihood = hits * math.log(p0) + (draws - hits) * math.log1p(-p0)
    return float(betaln(a, b)) + math.log(tail) - prior - likelihood


def _fewest(p0: float, alpha: float) -> int:
    """The fewest draws that can certify, if every one of them hits."""
    return smallest(1, 10**9, lambda n: log_mixture(n, n, p0) >= math.log(1 / alpha) + MARGIN)


@lru_cache(maxsize=64)
def _table(p0: float, alpha: float, beta: float, spacing: int, cap: int) -> Boundaries:
    size = looks(spacing, cap)
    return Boundaries(size, _crossing(size, p0, alpha), _crossing(size, 1 - p0, beta))


def _crossing(size: Integers, p0: float, level: float) -> Integers:
    """For each look, the fewest hits above n·p0 at which ln M reaches ln(1/level)."""
    enough = math.log(1 / level) + MARGIN

    def at(draws: int) -> int:
        return smallest(math.floor(draws * p0) + 1, draws, lambda hits: log_mixture(hits, draws, p0) >= enough)

    return np.array([at(draws) for draws in size.tolist()], dtype=np.int64)
