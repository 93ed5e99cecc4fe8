"""Routing, prediction: the composition's label, without a radius."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from smoothcert.contracts import Certificate, Draw, Source, Steps
from smoothcert.noise import NoNoise
from smoothcert.procedures._compose import check_halves, composed, sources, unproven
from smoothcert.procedures.predict import Predict
from smoothcert.procedures.route import branch_of


@dataclass(frozen=True)
class RoutePredict:
    """n draws for the selector and n for the branch it selects, each winner tested at alpha/2."""

    n: int = 10_000
    alpha: float = 0.001

    kind: ClassVar[Literal["predict"]] = "predict"
    test_class: ClassVar[str] = "guess"
    sampling: ClassVar[None] = None
    labelled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_halves("route_predict", self.n, self.alpha)

    @property
    def cap(self) -> int:
        return 2 * self.n

    def __call__(self, source: Source, dim: int, truth: int | None = None) -> Steps[Certificate]:
        parts, predict = sources(source), Predict(self.n, self.alpha / 2)
        selection = yield from predict(parts["select"], dim)
        if selection.abstained:
            return composed(selection, None, self.alpha)
        branch = branch_of(parts, selection.label)
        if isinstance(branch.noise, NoNoise):
            answer = unproven((yield Draw(branch, 1, purpose="core")), source.noise)
        else:
            answer = yield from predict(branch, dim)
        return composed(selection, answer, self.alpha)
