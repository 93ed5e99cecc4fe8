"""Every case of the noise, once: probabilities are counted, not estimated, so nothing is left to chance.

For noises that have only so many cases (`splitting`: 2λq offsets). Class A wins with n_A of N votes, ties going to the
lower class number. Class c overtakes A only when k votes moved from A to c make n_c + k ≥ n_A − k (> where A < c), so A
stands while 2k ≤ n_A − n_c − [c < A]: the [c < A] is counted among the votes of the others here, and the noise knows
how far an input must move for k votes (Levine, Feizi, ICML 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from smoothcert.bounds import check_draws
from smoothcert.contracts import EVERY, Draw, Evidence, Noise, Sampling, Source, Steps
from smoothcert.errors import OptionError


@dataclass(frozen=True)
class Exhaustive(Sampling):
    """One look at all cases, at most `cap` of them; no alpha, and no draws that choose the class."""

    cap: int = 100_000

    alpha: ClassVar[float] = 0.0
    counts_all: ClassVar[bool] = True
    follows_leader: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_draws(self.cap, "cap", "exhaustive")

    def check(self, noise: Noise, dim: int) -> str:
        """Refuse noises that cannot be counted; otherwise how many cases there are."""
        return f"all {self._cases(noise)} cases of the noise are evaluated: certificates are exact, without alpha"

    def test(self, source: Source, label: int | None, dim: int) -> Steps[Evidence]:
        cases = self._cases(source.noise)
        counts = yield Draw(source, cases, purpose=EVERY)
        votes = tuple(int(count) for count in counts[0])
        label = votes.index(max(votes)) if label is None else label
        others = max((count + (other < label) for other, count in enumerate(votes) if other != label), default=0)
        return Evidence(label, (votes,), cases, votes[label] / cases, others / cases, self.alpha)

    def _cases(self, noise: Noise) -> int:
        cases = noise.cases
        if cases is None:
            raise OptionError(
                "sampling exhaustive counts every case of a noise, which must be splitting; "
                f"got {type(noise).__name__.lower()}"
            )
        if cases > self.cap:
            raise OptionError(f"cap of exhaustive must be at least {cases}, the cases of the noise; got {self.cap}")
        return cases
