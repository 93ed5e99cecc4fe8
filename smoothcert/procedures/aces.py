"""ACES (Horváth, Müller, Fischer, Vechev 2022): certified where it can be, else accurate.

F(x) = g_certify(x) where g_select(x) = 1, else F_core(x). Both smoothed parts are tested at α/2 (Algorithm 1):

    selected, and certified     the certified class, with the smaller of both radii
    not selected                what the core says, radius 0
    nobody knows, both agree    what both say, radius 0
    else                        an abstention

Without a selection network the certified network's own entropy selects, and both share every forward pass. Nothing that
is drawn depends on θ, so a run answers for all thresholds (`smoothcert aces combine`).

Prediction (Algorithm 4) has two-sided binomial tests at α/2 in the place of bounds, and no radius. Every branch needs
its own winner *and* its own p-value, where the paper's listing joins them by "or" (erratum E4).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from smoothcert.bounds import check_draws
from smoothcert.contracts import Certificate, Draw, Noise, Procedure, Source, Steps
from smoothcert.decisions import BOTH, CORE, VoteCounts, grid_place, guessed, split, who_answers
from smoothcert.procedures._compose import check_answerable, composed, predicted, sampled, sources, tested, unproven
from smoothcert.readouts import ClassAndEntropy, SelectorUncertainty


@dataclass(frozen=True)
class Thresholded(Procedure):
    """n0 draws choose, n fresh ones test at alpha/2 each; the first `n_predict` of these are a prediction's."""

    theta: float = 0.3
    n0: int = 100
    n: int = 100_000
    alpha: float = 0.001
    n_predict: int = field(default=10_000, metadata={"stored": "look"})

    def __post_init__(self) -> None:
        name = type(self).__module__.rpartition(".")[2]
        grid_place(self.theta, name)
        check_draws(self.n0, "n0", name)
        check_draws(self.n, "n", name)
        check_draws(self.n_predict, "look", name)
        check_answerable(name, min(self.n, self.n_predict), self.alpha, 2)

    @property
    def cap(self) -> int:
        return self.n0 + self.n


@dataclass(frozen=True)
class AcesProcedure(Thresholded):
    """The certified class with the smaller of both radii, or the core's without one."""

    kind: ClassVar[Literal["certify"]] = "certify"

    def __call__(self, source: Source, dim: int, truth: int | None = None) -> Steps[Certificate]:
        parts = sources(source)
        certify = replace(parts["certify"], readout=ClassAndEntropy())
        votes = yield from sampled(certify, self.n0, self.n, self.n_predict)
        bins, select = votes, certify
        if "select" in parts:
            select = replace(parts["select"], readout=SelectorUncertainty())
            bins = yield from sampled(select, self.n0, self.n, self.n_predict, "select-")
        core = yield Draw(parts["core"], 1, purpose="core")
        selection = selection_of(bins, self.theta, self.alpha, select.noise, dim)
        certified = tested(int(votes.guess[0].argmax()), votes.test[0], self.alpha / 2, certify.noise, dim)
        return _decided(selection, certified, unproven(core, source.noise), self.alpha)


@dataclass(frozen=True)
class AcesPredict(Procedure):
    """n draws for the class and for the selection; natural accuracy is that of this at n = 10 000."""

    theta: float = 0.3
    n: int = 10_000
    alpha: float = 0.001

    kind: ClassVar[Literal["predict"]] = "predict"

    def __post_init__(self) -> None:
        grid_place(self.theta, "aces_predict")
        check_answerable("aces_predict", self.n, self.alpha, 2)

    @property
    def cap(self) -> int:
        return self.n

    def __call__(self, source: Source, dim: int, truth: int | None = None) -> Steps[Certificate]:
        parts = sources(source)
        votes = yield Draw(replace(parts["certify"], readout=ClassAndEntropy()), self.n, purpose="predict")
        bins = votes
        if "select" in parts:
            select = replace(parts["select"], readout=SelectorUncertainty())
            bins = yield Draw(select, self.n, purpose="select-predict")
        core = yield Draw(parts["core"], 1, purpose="core")
        selection = predicted(split(bins[-1:], [self.theta])[0, 0], self.alpha / 2, source.noise)
        certified = predicted(votes[0], self.alpha / 2, source.noise)
        return _decided(selection, certified, unproven(core, source.noise), self.alpha)


def selection_of(bins: VoteCounts, theta: float, alpha: float, noise: Noise, dim: int) -> Certificate:
    """Whether copies are selected at θ: 1 or 0 by the draws that choose, then tested at alpha/2."""
    guess, _, test = (split(counts[-1:], [theta])[0, 0] for counts in bins)
    return tested(int(guessed(guess)), test, alpha / 2, noise, dim)


def _decided(selection: Certificate, certified: Certificate, core: Certificate, alpha: float) -> Certificate:
    """The table atop this file."""
    who = int(who_answers(*(np.array(part.label) for part in (selection, certified, core))))
    if who == BOTH:
        return replace(core, alpha=alpha, parts=(selection, certified, core))
    return composed(selection, core if who == CORE else certified, alpha)
