"""The selector of an ACES composition alone: a run of it goes with any certified network and any core afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from smoothcert.bounds import check_draws
from smoothcert.contracts import Certificate, Procedure, Source, Steps
from smoothcert.decisions import grid_place
from smoothcert.procedures._compose import check_halves, sampled
from smoothcert.procedures.aces import selection_of
from smoothcert.readouts import SelectorUncertainty


@dataclass(frozen=True)
class Select(Procedure):
    """1 where the network selects, 0 where it does not, tested at alpha/2; the data's labels say nothing about that."""

    theta: float = 0.5
    n0: int = 100
    n: int = 100_000
    alpha: float = 0.001
    n_predict: int = field(default=10_000, metadata={"stored": "look"})

    kind: ClassVar[Literal["select"]] = "select"
    labelled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        grid_place(self.theta, "select")
        check_draws(self.n0, "n0", "select")
        check_draws(self.n_predict, "look", "select")
        check_halves("select", min(self.n, self.n_predict), self.alpha)

    @property
    def cap(self) -> int:
        return self.n0 + self.n

    def __call__(self, source: Source, dim: int, truth: int | None = None) -> Steps[Certificate]:
        bins = yield from sampled(replace(source, readout=SelectorUncertainty()), self.n0, self.n, self.n_predict)
        return selection_of(bins, self.theta, self.alpha, source.noise, dim)
