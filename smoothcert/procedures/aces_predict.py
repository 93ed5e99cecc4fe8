"""ACES, prediction (Horváth et al. 2022, Algorithm 4): the composition's label, without a radius.

As in certification, with two-sided binomial tests at α/2 in the place of bounds. Every branch needs its own winner
*and* its own p-value, where the paper's listing joins them by "or" (erratum E4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from smoothcert.ballots import ClassAndEntropy, Doubt, grid_place, selected
from smoothcert.contracts import Certificate, Draw, Source, Steps
from smoothcert.procedures._compose import as_votes, check_halves, decided, predicted, sources, unproven


@dataclass(frozen=True)
class AcesPredict:
    """n draws for the class and for the selection; natural accuracy is that of this at n = 10 000."""

    theta: float = 0.3
    n: int = 10_000
    alpha: float = 0.001

    kind: ClassVar[Literal["predict"]] = "predict"
    test_class: ClassVar[str] = "guess"
    sampling: ClassVar[None] = None
    labelled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        grid_place(self.theta, "aces_predict")
        check_halves("aces_predict", self.n, self.alpha)

    @property
    def cap(self) -> int:
        return self.n

    def __call__(self, source: Source, dim: int, truth: int | None = None) -> Steps[Certificate]:
        parts = sources(source)
        certify = replace(parts["certify"], ballot=ClassAndEntropy())
        votes = yield Draw(certify, self.n, purpose="predict")
        doubts = votes[1]
        if "select" in parts:
            doubts = (yield Draw(replace(parts["select"], ballot=Doubt()), self.n, purpose="select-predict"))[0]
        core = yield Draw(parts["core"], 1, purpose="core")
        hits = selected(doubts, self.theta)
        selection = predicted((self.n - hits, hits), self.alpha / 2, source.noise)
        certified = predicted(as_votes(votes[0]), self.alpha / 2, source.noise)
        return decided(selection, certified, unproven(core, source.noise), self.alpha)
