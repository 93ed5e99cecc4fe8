"""A fixed number of draws and one look (Cohen et al. 2019, CERTIFY): the largest radius they prove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from smoothcert.boundaries import Boundaries, smallest
from smoothcert.bounds import Floats, Integers, lower_bound, proven_radii
from smoothcert.contracts import Noise, Sampling
from smoothcert.sampling import Budget
from smoothcert.sampling._shared import OneLook


@dataclass(frozen=True)
class Fixed(OneLook):
    """n draws, then one Clopper–Pearson bound at 1 − alpha."""

    def bounds(self, votes: Sequence[int], label: int) -> tuple[float, float]:
        low = lower_bound(votes[label], self.n, self.alpha)
        return low, 1 - low

    @classmethod
    def planned(cls, budget: Budget) -> Mapping[str, Sampling]:
        return {f"fixed n={budget.n}": cls(budget.n, budget.alpha)}

    def foreseen(self, noise: Noise, p: Floats, dim: int, rng: np.random.Generator) -> tuple[Integers, Floats]:
        n = np.full(len(p), self.n)
        return n, np.maximum(proven_radii(rng.binomial(n, p), n, self.alpha, noise, dim), 0.0)

    def boundaries(self, p0: float, alpha: float | None = None) -> Boundaries:
        """This scheme as a test of one probability: what `smoothcert plan` compares the others with."""
        accept = smallest(0, self.n, lambda k: lower_bound(k, self.n, alpha or self.alpha) >= p0)
        return Boundaries(np.array([self.n]), np.array([accept]), np.array([self.n + 1]))
