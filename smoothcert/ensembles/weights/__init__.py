"""Hold-out scores and labels → weights of an ensemble's members: one file for each way to choose them.

A weighting has `fit(members, holdout)`, `work(members, inputs)`, the number of member evaluations that a fit takes, and
`votes`, those that its weights are for. Weights are fitted once, on inputs that nothing is certified on, and then
fixed: weights chosen at a clean test input and held while sampling are no certificate (METHODS E3).

Those of probabilities are a convex programme on the simplex {w ≥ 0, Σw = 1}, solved exactly by active sets: a
quadratic form, and the cross-entropy of a mixture. How far a solution can be from the best is known from its gradient
alone (`gap`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

TIGHT = 1e-12  # relative to the size of the matrix: where a slope counts as level, and a weight as zero
ENOUGH = 1e-10  # gap of the mixture at which Newton's method stops
STEPS = 200
PROBABILITIES = ("softmax", "weighted")  # votes that weights on the simplex are for


class Fitted(NamedTuple):
    """Weights on the simplex, in the order of the members, and what their fit found on the way."""

    weights: tuple[float, ...]
    report: Mapping[str, float]


def gap(slope: Floats, weights: Floats) -> float:
    """How much a convex function can still fall from weights with this gradient: at most gradient·w − min gradient."""
    return float(slope @ weights - slope.min())


def quadratic(matrix: Floats, linear: Floats | None = None) -> Floats:
    """The w that minimises ½wᵀMw + bᵀw, M positive semidefinite; of several, the one nearest to equal weights.

    Solve on the face of the weights still free; go there, or as far as the first weight that would turn negative, which
    then leaves; when there is none, let in the member of steepest descent. The value falls each time, so it ends.
    """
    k = len(matrix)
    linear = np.zeros(k) if linear is None else linear
    scale = max(float(np.abs(matrix).max()), float(np.abs(linear).max()), 1e-300)
    m, b = matrix / scale, linear / scale
    w, free = np.full(k, 1 / k), np.ones(k, dtype=bool)
    for _ in range(STEPS * k):
        aim = _on_face(m, b, free)
        low = aim < -TIGHT
        if low.any():
            reach = np.where(low, w / np.where(low, w - aim, 1.0), np.inf)
            w = np.maximum(w + reach.min() * (aim - w), 0.0)
            w[reach.argmin()] = 0.0
            free &= w > 0.0
            continue
        w = np.maximum(aim, 0.0) / np.maximum(aim, 0.0).sum()
        slope = m @ w + b
        if gap(slope, w) <= TIGHT or free[slope.argmin()]:
            break
        free[slope.argmin()] = True
    return w


def mixture(likelihoods: Floats) -> Floats:
    """The w that minimises −mean log(Qw) for likelihoods Q > 0 [rows, members]: Newton's method on the simplex."""
    q, (rows, k) = likelihoods, likelihoods.shape
    w: Floats = np.full(k, 1 / k)
    for _ in range(STEPS):
        ratio = q / (q @ w)[:, None]
        slope = -ratio.mean(axis=0)
        if gap(slope, w) <= ENOUGH:
            break
        curve = ratio.T @ ratio / rows
        aim = quadratic(curve, slope - curve @ w)
        size, now, fall = 1.0, mixture_loss(q, w), float(slope @ (aim - w))
        while mixture_loss(q, (1 - size) * w + size * aim) > now + 1e-4 * size * fall and size > 1e-12:
            size /= 2
        w = (1 - size) * w + size * aim
    return w


def mixture_loss(likelihoods: Floats, weights: Floats) -> float:
    """−mean log(Qw), the cross-entropy of the mixture."""
    return float(-np.log(likelihoods @ weights).mean())


def mixture_gap(likelihoods: Floats, weights: Floats) -> float:
    """How far the mixture's cross-entropy can be above its minimum."""
    return gap(-(likelihoods / (likelihoods @ weights)[:, None]).mean(axis=0), weights)


def _on_face(m: Floats, b: Floats, free: np.ndarray[Any, np.dtype[np.bool_]]) -> Floats:
    """The minimum over Σw = 1 with only the free weights, whatever their signs; the least-norm one of several."""
    face = np.flatnonzero(free)
    size = len(face)
    system = np.ones((size + 1, size + 1))
    system[:size, :size] = m[np.ix_(face, face)]
    system[size, size] = 0.0
    solved = np.linalg.lstsq(system, np.append(-b[face], 1.0), rcond=TIGHT)[0]
    aim = np.zeros(len(b))
    aim[face] = solved[:size]
    return aim
