"""Routing: a smoothed selector chooses one of any number of branches, each with its own network and noise.

With branches that differ in σ it is a noise level for every input that needs no memory to be sound (Sun, Mao, Vechev,
ICLR 2026). A core, a branch without noise, answers without a radius. ACES is the case of two branches; what both say
where the selector is uncertain has no counterpart here, so an uncertain selector abstains.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from smoothcert.bounds import check_draws
from smoothcert.contracts import Certificate, Draw, Sampling, Source, Steps
from smoothcert.errors import ModelError
from smoothcert.noise import NoNoise
from smoothcert.procedures._compose import composed, sources, unproven
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.fixed import Fixed


@dataclass(frozen=True)
class Route:
    """Selector and selected branch are certified one after the other, each by n0 draws that choose, then a test."""

    n0: int = 100
    sampling: Sampling = field(default_factory=Fixed)

    kind: ClassVar[Literal["certify"]] = "certify"
    test_class: ClassVar[str] = "guess"
    labelled: ClassVar[bool] = True

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
        parts, certify = sources(source), Certify(self.n0, halved(self.sampling))
        selection = yield from certify(parts["select"], dim)
        if selection.abstained:
            return composed(selection, None, self.sampling.alpha)
        branch = branch_of(parts, selection.label)
        if isinstance(branch.noise, NoNoise):
            answer = unproven((yield Draw(branch, 1, purpose="core")), source.noise)
        else:
            answer = yield from certify(branch, dim)
        return composed(selection, answer, self.sampling.alpha)


def branch_of(parts: Any, number: int) -> Source:
    """The branch of this number."""
    if (role := f"branch {number}") not in parts:
        raise ModelError(f"the selector must have as many classes as there are branches; got class {number}")
    branch: Source = parts[role]
    return branch


def halved(sampling: Any) -> Sampling:
    """The same sampling at half its alpha; where every case is counted there is none."""
    half: Sampling = replace(sampling, alpha=sampling.alpha / 2) if sampling.alpha else sampling
    return half
