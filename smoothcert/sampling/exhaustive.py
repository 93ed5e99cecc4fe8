"""Every case of the noise, once: probabilities are counted, not estimated, so nothing is left to chance.

For noises that have only so many cases (`splitting`: 2λq offsets; `band` and `block`: the places of a window). Class A
wins with n_A votes, ties going to the lower class number. Class c overtakes A only when k cases that turn from A to c
make n_c + k ≥ n_A − k (> where A < c), so A stands while 2k ≤ n_A − n_c − [c < A]: the [c < A] is counted among the
votes of the others here, and the noise knows how far an input must move for k cases (Levine, Feizi, ICML 2021).

A case votes for its top class, or with a threshold for every class whose softmax score is above that, perhaps for none
(Levine, Feizi, NeurIPS 2020). What k cases can do to n_A and to n_c is the same either way, and so is the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from smoothcert.bounds import check_draws
from smoothcert.contracts import EVERY, Counts, Draw, Evidence, Noise, Readout, Sampling, Source, Steps, Tensor
from smoothcert.errors import OptionError, is_number
from smoothcert.sampling._shared import rising


@dataclass(frozen=True)
class AboveThreshold:
    """A column for each class: 1 where its softmax score is above the threshold, which several may be, or none."""

    threshold: float

    def __post_init__(self) -> None:
        if not (is_number(self.threshold) and 0.0 <= self.threshold < 1.0):
            raise OptionError(f"threshold of exhaustive must be a number from 0 to below 1; got {self.threshold}")

    def outcomes(self, classes: int) -> int:
        return 2

    def __call__(self, scores: Tensor) -> Tensor:
        return (scores.double().softmax(dim=1) > self.threshold).long()

    def close(self, scores: Tensor, error: float) -> Tensor:
        shares = scores.double().softmax(dim=1)
        return (shares - self.threshold).abs() <= 2 * shares * (1 - shares) * error  # to first order


@dataclass(frozen=True)
class Exhaustive(Sampling):
    """One look at all cases, at most `cap` of them; no alpha, and no draws that choose the class.

    radii: whether these are certified is asked, and no more; none: the largest. threshold: none, or of votes for every
    class above it.
    """

    cap: int = 100_000
    radii: tuple[float, ...] | None = None
    threshold: float | None = None

    alpha: ClassVar[float] = 0.0
    counts_all: ClassVar[bool] = True
    follows_leader: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_draws(self.cap, "cap", "exhaustive")
        object.__setattr__(self, "radii", rising(self.radii, "exhaustive") if self.radii else None)
        if self.threshold is not None:
            AboveThreshold(self.threshold)  # which refuses what is no threshold

    def check(self, noise: Noise, dim: int) -> str:
        """Refuse noises that cannot be counted; otherwise how many cases there are."""
        return f"all {self._cases(noise)} cases of the noise are evaluated: certificates are exact, without alpha"

    def test(self, source: Source, label: int | None, dim: int) -> Steps[Evidence]:
        cases = self._cases(source.noise)
        counts = yield Draw(replace(source, readout=self.readout), cases, purpose=EVERY)
        votes = self.votes(counts)
        label = votes.index(max(votes)) if label is None else label
        others = max((count + (other < label) for other, count in enumerate(votes) if other != label), default=0)
        return Evidence(label, (votes,), cases, votes[label] / cases, others / cases, self.alpha, self.radii)

    @property
    def readout(self) -> Readout:
        return super().readout if self.threshold is None else AboveThreshold(self.threshold)

    def votes(self, counts: Counts | Sequence[Sequence[int]]) -> tuple[int, ...]:
        """With a threshold a class has a column of its own: cases that are not for it, and those that are."""
        return super().votes(counts) if self.threshold is None else tuple(int(column[1]) for column in counts)

    def _cases(self, noise: Noise) -> int:
        cases = noise.cases
        if cases is None:
            raise OptionError(
                "sampling exhaustive counts every case of a noise, which must be splitting, band or block; "
                f"got {type(noise).__name__.lower()}"
            )
        if cases > self.cap:
            raise OptionError(f"cap of exhaustive must be at least {cases}, the cases of the noise; got {self.cap}")
        return cases
