"""The selector of an ACES composition alone: a run of it goes with any certified network and any core afterwards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from smoothcert.contracts import Certificate, Source, Steps
from smoothcert.procedures._compose import sampled
from smoothcert.procedures.aces import Thresholded, selection_of
from smoothcert.readouts import SelectorUncertainty


@dataclass(frozen=True)
class Select(Thresholded):
    """1 where the network selects, 0 where it does not, tested at alpha/2; the data's labels say nothing about that."""

    theta: float = 0.5

    kind: ClassVar[Literal["select"]] = "select"
    labelled: ClassVar[bool] = False

    def __call__(self, source: Source, dim: int, truth: int | None = None) -> Steps[Certificate]:
        bins = yield from sampled(replace(source, readout=SelectorUncertainty()), self.n0, self.n, self.n_predict)
        return selection_of(bins, self.theta, self.alpha, source.noise, dim)
