"""Weights of members' scores, of any sign, that minimise the cross-entropy of their sum (ENS, App. H.3.1, Table 10).

The vote is Σ w_l f_l(x+ε), a soft vote in which a member may count against; −mean log softmax(Σ w_l f_l)_y is convex in
w, without constraints, and Newton's method solves it. A vote is decided by the largest score, which a common factor
does not change: weights are given with sum 1, and the sum that they had, an inverse temperature, is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smoothcert.bounds import check_draws
from smoothcert.contracts import Classifier
from smoothcert.ensembles.holdout import HoldoutInputs
from smoothcert.ensembles.weights import STEPS, Fitted, Floats
from smoothcert.errors import DataError, require_room

ENOUGH = 1e-12  # what a Newton step must promise to gain, for another one to be taken


@dataclass(frozen=True)
class Signed:
    """Cross-entropy on noisy hold-out inputs, members' scores as features."""

    votes: ClassVar[tuple[str, ...]] = ("soft",)

    draws: int = 4  # noisy copies of each input

    def __post_init__(self) -> None:
        check_draws(self.draws, "draws", "signed")

    def work(self, members: int, inputs: int) -> int:
        """Member evaluations that a fit takes."""
        return members * inputs * self.draws

    def fit(self, members: Sequence[Classifier], holdout: HoldoutInputs) -> Fitted:
        """Weights for these hold-out inputs under their noise."""
        classes = holdout.check(members, 1, "signed weights")
        rows = len(holdout.inputs) * self.draws
        require_room("signed weights", 4 * rows * len(members) * classes, draws=self.draws)
        gaps = _gaps(members, holdout, self.draws)
        weights = newton(gaps)
        if not (total := float(weights.sum())) > 1e-6 * float(np.abs(weights).sum()):
            raise DataError(
                f"signed weights must have a sum above 0; got {total:.3g}: members tell these labels wrongly"
            )
        even = newton(gaps.mean(axis=1, keepdims=True))
        report = {
            "loss": loss(gaps, weights),
            "loss_uniform": loss(gaps.mean(axis=1, keepdims=True), even),
            "sum": total,
            "gap": _decrement(gaps, weights)[1],
            "rows": float(len(gaps)),
        }
        return Fitted(tuple(float(weight) for weight in weights / total), report)


def loss(gaps: Floats, weights: Floats) -> float:
    """The mean of log Σ_c exp(w·(f_c − f_y)), the cross-entropy, from gaps [rows, members, classes]."""
    scores = np.einsum("rmc,m->rc", gaps, weights)
    most = scores.max(axis=1)
    return float((most + np.log(np.exp(scores - most[:, None]).sum(axis=1))).mean())


def newton(gaps: Floats) -> Floats:
    """The weights that minimise the loss; where members cannot be told apart, those of least length."""
    weights: Floats = np.full(gaps.shape[1], 1 / gaps.shape[1])
    for _ in range(STEPS):
        step, gain = _decrement(gaps, weights)
        if gain <= ENOUGH:
            break
        size, now = 1.0, loss(gaps, weights)
        while loss(gaps, weights - size * step) > now - 1e-4 * size * gain and size > 1e-12:
            size /= 2
        weights = weights - size * step
    return weights


def _decrement(gaps: Floats, weights: Floats) -> tuple[Floats, float]:
    """The Newton step, and what its quadratic model says is left to gain: gᵀH⁻¹g/2."""
    scores = np.einsum("rmc,m->rc", gaps, weights)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    means = np.einsum("rmc,rc->rm", gaps, shares)
    slope = means.mean(axis=0)
    curve = np.einsum("rmc,rc,rnc->mn", gaps, shares, gaps, optimize=True) / len(gaps) - means.T @ means / len(gaps)
    step: Floats = np.linalg.lstsq(curve, slope, rcond=1e-12)[0]
    return step, float(slope @ step) / 2


def _gaps(members: Sequence[Classifier], holdout: HoldoutInputs, draws: int) -> Floats:
    """Each score less the label's, on each noisy copy: [rows, members, classes]."""
    parts = []
    for owner, scores in holdout.scores(members, draws, "weights"):
        values = scores.numpy()
        own = values[:, np.arange(len(owner)), holdout.inputs.labels[owner]]
        parts.append(np.moveaxis(values - own[..., None], 0, 1))
    found: Floats = np.concatenate(parts)
    return found
