"""PREDICT (Cohen, Rosenfeld, Kolter, ICML 2019, section 3.2.1): the smoothed classifier's label, without a radius."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from smoothcert.contracts import Certificate, Draw, Procedure, Source, Steps
from smoothcert.procedures._compose import check_answerable, predicted


@dataclass(frozen=True)
class Predict(Procedure):
    """n draws; the winner, when a two-sided test of the two leaders rejects a tie at alpha."""

    n: int = 1000
    alpha: float = 0.001

    kind: ClassVar[Literal["predict"]] = "predict"

    def __post_init__(self) -> None:
        check_answerable("predict", self.n, self.alpha)

    @property
    def cap(self) -> int:
        return self.n

    def __call__(self, source: Source, dim: int, truth: int | None = None) -> Steps[Certificate]:
        counts = yield Draw(source, self.n, purpose="predict")
        return predicted(counts[0], self.alpha, source.noise)
