"""The largest radius with fewer draws: pilot draws choose how many draws the proof gets (the proof's own are fresh).

Most of a radius comes early: an input near its limit gains nothing from more draws, one that no class leads gains
nothing from any. n is the smallest number whose expected radius is within `loss` of the one at the cap, `loss` being a
share of the largest radius the cap can prove.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from smoothcert.bounds import Floats, Integers, check_draws, fewest_draws, lower_bound, proven_radii
from smoothcert.contracts import Draw, Evidence, Noise, Sampling, Source, Steps
from smoothcert.errors import OptionError
from smoothcert.sampling import Budget
from smoothcert.sampling._shared import Named

FEW_MISSES, MORE = 10, 10  # with fewer misses than this, ten times the pilot draws tell them apart
STEP = 1.25  # numbers of draws that are considered are this far apart


@dataclass(frozen=True)
class Pilot(Named):
    """`pilot` draws choose n ≤ cap, then one Clopper–Pearson bound on n fresh draws at the full alpha."""

    alpha: float = 0.001
    cap: int = 200_000
    pilot: int = 1000
    loss: float = 0.004  # of the largest provable radius that may be given away

    def __post_init__(self) -> None:
        self.refuse_few(self.cap, "cap", self.alpha)
        check_draws(self.pilot, "pilot", "pilot")
        if not 0.0 < self.loss < 1.0:
            raise OptionError(f"loss of pilot must be between 0 and 1, both excluded; got {self.loss}")

    def check(self, noise: Noise, dim: int) -> str:
        """The largest radius these draws can prove."""
        return self.reach(noise, dim, self.alpha)

    @classmethod
    def planned(cls, budget: Budget) -> Mapping[str, Sampling]:
        return {} if budget.radii else {f"pilot cap={cls.cap}": cls(budget.alpha)}

    def foreseen(self, noise: Noise, p: Floats, dim: int, rng: np.random.Generator) -> tuple[Integers, Floats]:
        """As `test` goes; `choose` is asked once for each count that occurs."""
        hits = rng.binomial(self.pilot, p)
        few = self.pilot - hits < FEW_MISSES
        more = (MORE - 1) * self.pilot
        hits, draws = hits + np.where(few, rng.binomial(more, p), 0), self.pilot + np.where(few, more, 0)
        counts, where = np.unique(np.stack([hits, draws]), axis=1, return_inverse=True)
        n = np.array([self.choose(noise, int(hit), int(of), dim) for hit, of in counts.T.tolist()])[where.ravel()]
        return draws + n, np.maximum(proven_radii(rng.binomial(n, p), n, self.alpha, noise, dim), 0.0)

    def test(self, source: Source, label: int | None, dim: int) -> Steps[Evidence]:
        label = self.chosen(label)
        votes = (yield Draw(source, self.pilot, purpose="pilot"))[0]
        if votes.sum() - votes[label] < FEW_MISSES:
            votes = votes + (yield Draw(source, (MORE - 1) * self.pilot, purpose="pilot"))[0]
        n = self.choose(source.noise, int(votes[label]), int(votes.sum()), dim)
        counts = tuple(int(count) for count in (yield Draw(source, n))[0])
        low = lower_bound(counts[label], n, self.alpha)
        return Evidence(label, (counts,), n, low, 1 - low, self.alpha)

    def choose(self, noise: Noise, hits: int, draws: int, dim: int) -> int:
        """How many draws the proof gets, from what the pilot saw."""
        p = (hits + 0.5) / (draws + 1)
        sizes = [self.cap]
        while sizes[-1] / STEP > fewest_draws(0.5, self.alpha):
            sizes.append(math.ceil(sizes[-1] / STEP))
        enough = self._expected(noise, p, self.cap, dim) - self.loss * self._expected(noise, 1.0, self.cap, dim)
        for n in sizes[::-1]:
            if self._expected(noise, p, n, dim) >= enough:
                return n
        return self.cap

    def _expected(self, noise: Noise, p: float, n: int, dim: int) -> float:
        """The radius when the proof's draws fall as the pilot's did; plus one where whole, since 0 is proven too."""
        hits = np.array(math.floor(n * p))
        return max(0.0, float(proven_radii(hits, n, self.alpha, noise, dim)) + noise.whole)
