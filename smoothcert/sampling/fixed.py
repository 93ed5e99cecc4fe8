"""A fixed number of draws and one look (Cohen et al. 2019, CERTIFY): the largest radius they prove."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothcert.boundaries import Boundaries, smallest
from smoothcert.bounds import check_alpha, check_draws, fewest_draws, lower_bound
from smoothcert.contracts import Draw, Evidence, Noise, Sampling, Source, Steps
from smoothcert.errors import OptionError
from smoothcert.sampling._shared import reach


@dataclass(frozen=True)
class Fixed(Sampling):
    """n draws, then one Clopper–Pearson bound at 1 − alpha."""

    n: int = 100_000
    alpha: float = 0.001

    def __post_init__(self) -> None:
        check_alpha(self.alpha, "fixed")
        check_draws(self.n, "n", "fixed")
        if self.n < (fewest := fewest_draws(0.5, self.alpha)):
            raise OptionError(
                f"n of fixed must be at least {fewest} to certify anything at alpha {self.alpha:g}; got {self.n}"
            )

    @property
    def cap(self) -> int:
        return self.n

    def check(self, noise: Noise, dim: int) -> str:
        """The largest radius these draws can prove."""
        return reach(noise, self.n, self.alpha, dim)

    def boundaries(self, p0: float) -> Boundaries:
        """This scheme as a test of one probability: what `smoothcert plan` compares the others with."""
        accept = smallest(0, self.n, lambda k: lower_bound(k, self.n, self.alpha) >= p0)
        return Boundaries(np.array([self.n]), np.array([accept]), np.array([self.n + 1]))

    def test(self, source: Source, label: int | None, dim: int) -> Steps[Evidence]:
        if label is None:
            raise OptionError("fixed tests a class that other draws chose; the leader is tested by spending or anytime")
        counts = yield Draw(source, self.n)
        votes = tuple(int(count) for count in counts[0])
        low = lower_bound(votes[label], self.n, self.alpha)
        return Evidence(label, (votes,), self.n, low, 1 - low, self.alpha)
