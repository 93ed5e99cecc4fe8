"""A fixed number of draws and one look (Cohen et al. 2019, CERTIFY): the largest radius they prove."""

from __future__ import annotations

from dataclasses import dataclass

from certus.bounds import check_alpha, check_draws, fewest_draws, lower_bound
from certus.contracts import Draw, Evidence, Source, Steps
from certus.errors import OptionError


@dataclass(frozen=True)
class Fixed:
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

    def test(self, source: Source, label: int) -> Steps[Evidence]:
        counts = yield Draw(source, self.n)
        votes = tuple(int(count) for count in counts[0])
        low = lower_bound(votes[label], self.n, self.alpha)
        return Evidence(label, (votes,), self.n, low, 1 - low, self.alpha)
