"""Routing: a smoothed selector chooses one of any number of branches, each with its own network and noise.

With branches that differ in σ it is a noise level for every input that needs no memory to be sound (Sun, Mao, Vechev,
ICLR 2026). A core, a branch without noise, answers without a radius. ACES is the case of two branches; what both say
where the selector is uncertain has no counterpart here, so an uncertain selector abstains.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from smoothcert.bounds import check_draws
from smoothcert.contracts import Certificate, Draw, Procedure, Sampling, Source, Steps
from smoothcert.errors import ModelError
from smoothcert.noise import NoNoise
from smoothcert.procedures._compose import check_answerable, composed, sources, unproven
from smoothcert.procedures.certify import Certify
from smoothcert.procedures.predict import Predict
from smoothcert.sampling.fixed import Fixed


@dataclass(frozen=True)
class RouteProcedure(Procedure):
    """Selector and selected branch are certified one after the other, each by n0 draws that choose, then a test."""

    n0: int = 100
    sampling: Sampling = field(default_factory=Fixed)

    kind: ClassVar[Literal["certify"]] = "certify"

    def __post_init__(self) -> None:
        check_draws(self.n0, "n0", "route")
        halved(self.sampling)

    @property
    def alpha(self) -> float:
        return self.sampling.alpha

    @property
    def cap(self) -> int:
        return 2 * (self.n0 + self.sampling.cap)

    def __call__(self, source: Source, dim: int, truth: int | None = None) -> Steps[Certificate]:
        return routed(Certify(self.n0, halved(self.sampling)), self.alpha, source, dim)


@dataclass(frozen=True)
class RoutePredict(Procedure):
    """n draws for the selector and n for the branch it selects, each winner tested at alpha/2; no radius."""

    n: int = 10_000
    alpha: float = 0.001

    kind: ClassVar[Literal["predict"]] = "predict"

    def __post_init__(self) -> None:
        check_answerable("route_predict", self.n, self.alpha, 2)

    @property
    def cap(self) -> int:
        return 2 * self.n

    def __call__(self, source: Source, dim: int, truth: int | None = None) -> Steps[Certificate]:
        return routed(Predict(self.n, self.alpha / 2), self.alpha, source, dim)


def routed(procedure: Procedure, alpha: float, source: Source, dim: int) -> Steps[Certificate]:
    """Selector and selected branch, each answered by this procedure at half of alpha."""
    parts = sources(source)
    selection = yield from procedure(parts["select"], dim)
    if selection.abstained:
        return composed(selection, None, alpha)
    if (role := f"branch {selection.label}") not in parts:
        raise ModelError(f"the selector must have as many classes as there are branches; got class {selection.label}")
    branch = parts[role]
    if isinstance(branch.noise, NoNoise):
        answer = unproven((yield Draw(branch, 1, purpose="core")), source.noise)
    else:
        answer = yield from procedure(branch, dim)
    return composed(selection, answer, alpha)


def halved(sampling: Any) -> Sampling:
    """The same sampling at half its alpha; where every case is counted there is none."""
    half: Sampling = replace(sampling, alpha=sampling.alpha / 2) if sampling.alpha else sampling
    return half
