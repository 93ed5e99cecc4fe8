"""One look that also bounds the runner-up: a larger radius when the rest of the votes is spread over several classes.

L_A and U_B are Clopper–Pearson bounds at α/2 each, B the runner-up *in the same draws*. No union over classes is
needed: if the true runner-up C has p_C > U_B, then, B having at least C's votes, C's own bound is exceeded too:
probability ≤ α/2.
"""

from __future__ import annotations

from dataclasses import dataclass

from smoothcert.bounds import check_alpha, check_draws, fewest_draws, lower_bound, upper_bound
from smoothcert.contracts import Draw, Evidence, Noise, Sampling, Source, Steps
from smoothcert.errors import OptionError
from smoothcert.sampling._shared import reach


@dataclass(frozen=True)
class RunnerUp(Sampling):
    """n draws, then bounds on the class and on its runner-up; the class may have less than half of the votes."""

    n: int = 100_000
    alpha: float = 0.001

    def __post_init__(self) -> None:
        check_alpha(self.alpha, "runner_up")
        check_draws(self.n, "n", "runner_up")
        if self.n < (fewest := fewest_draws(0.5, self.alpha / 2)):
            raise OptionError(
                f"n of runner_up must be at least {fewest} to certify anything at alpha {self.alpha:g}; got {self.n}"
            )

    @property
    def cap(self) -> int:
        return self.n

    def check(self, noise: Noise, dim: int) -> str:
        """The largest radius these draws can prove."""
        return reach(noise, self.n, self.alpha / 2, dim)

    def test(self, source: Source, label: int | None, dim: int) -> Steps[Evidence]:
        if label is None:
            raise OptionError(
                "runner_up tests a class that other draws chose; the leader is tested by spending or anytime"
            )
        counts = yield Draw(source, self.n)
        votes = tuple(int(count) for count in counts[0])
        others = max((count for other, count in enumerate(votes) if other != label), default=0)
        low = lower_bound(votes[label], self.n, self.alpha / 2)
        high = min(upper_bound(others, self.n, self.alpha / 2), 1 - low)
        return Evidence(label, (votes,), self.n, low, high, self.alpha)
