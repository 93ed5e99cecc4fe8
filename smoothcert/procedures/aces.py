"""ACES, certification (Horváth, Müller, Fischer, Vechev 2022, Algorithm 1): certified where it can be, else accurate.

F(x) = g_certify(x) where g_select(x) = 1, else F_core(x). Both smoothed parts are tested at α/2:

    selected, and certified     the certified class, with the smaller of both radii
    not selected                what the core says, radius 0
    nobody knows, both agree    what both say, radius 0
    else                        an abstention

Without a selection network the certified network's own entropy selects, and both share every forward pass. Nothing that
is drawn depends on θ, so a run answers for all thresholds (`smoothcert aces combine`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from smoothcert.ballots import ClassAndEntropy, Doubt, grid_place, selected
from smoothcert.bounds import check_draws
from smoothcert.contracts import Certificate, Draw, Noise, Source, Steps
from smoothcert.procedures._compose import Votes, as_votes, check_halves, decided, sampled, sources, tested, unproven


@dataclass(frozen=True)
class Aces:
    """n0 draws choose, n fresh ones test at alpha/2 each; the first `look` of these are a prediction's."""

    theta: float = 0.3
    n0: int = 100
    n: int = 100_000
    alpha: float = 0.001
    look: int = 10_000

    kind: ClassVar[Literal["certify"]] = "certify"
    test_class: ClassVar[str] = "guess"
    sampling: ClassVar[None] = None
    labelled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        grid_place(self.theta, "aces")
        check_draws(self.n0, "n0", "aces")
        check_draws(self.look, "look", "aces")
        check_halves("aces", min(self.n, self.look), self.alpha)

    @property
    def cap(self) -> int:
        return self.n0 + self.n

    def __call__(self, source: Source, dim: int, truth: int | None = None) -> Steps[Certificate]:
        parts = sources(source)
        certify = replace(parts["certify"], ballot=ClassAndEntropy())
        votes = yield from sampled(certify, self.n0, self.n, self.look)
        doubts, select = votes, certify
        if "select" in parts:
            select = replace(parts["select"], ballot=Doubt())
            doubts = yield from sampled(select, self.n0, self.n, self.look, "select-")
        core = yield Draw(parts["core"], 1, purpose="core")
        selection = selection_of(doubts, self.theta, self.alpha, select.noise, dim)
        label = int(votes.guess[0].argmax())
        certified = tested(label, as_votes(votes.test[0]), self.alpha / 2, certify.noise, dim)
        return decided(selection, certified, unproven(core, source.noise), self.alpha)


def selection_of(doubts: Votes, theta: float, alpha: float, noise: Noise, dim: int) -> Certificate:
    """Whether copies are selected at θ: 1 or 0 by the draws that choose, a tie going to 1, then tested at alpha/2."""
    chosen = selected(doubts.guess[-1], theta)
    label = int(2 * chosen >= doubts.guess[-1].sum())
    return tested(label, split(doubts, theta), alpha / 2, noise, dim)


def split(doubts: Votes, theta: float) -> tuple[int, int]:
    """Draws of the test that are not selected at θ, and those that are."""
    hits = selected(doubts.test[-1], theta)
    return int(doubts.test[-1].sum()) - hits, hits
