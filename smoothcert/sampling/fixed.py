"""A fixed number of draws and one look (Cohen et al. 2019, CERTIFY): the largest radius they prove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smoothcert.boundaries import Boundaries, smallest
from smoothcert.bounds import lower_bound
from smoothcert.sampling._shared import OneLook


@dataclass(frozen=True)
class Fixed(OneLook):
    """n draws, then one Clopper–Pearson bound at 1 − alpha."""

    def bounds(self, votes: Sequence[int], label: int) -> tuple[float, float]:
        low = lower_bound(votes[label], self.n, self.alpha)
        return low, 1 - low

    def boundaries(self, p0: float) -> Boundaries:
        """This scheme as a test of one probability: what `smoothcert plan` compares the others with."""
        accept = smallest(0, self.n, lambda k: lower_bound(k, self.n, self.alpha) >= p0)
        return Boundaries(np.array([self.n]), np.array([accept]), np.array([self.n + 1]))
