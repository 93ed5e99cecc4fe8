"""Hold-out scores and labels → weights of an ensemble's members: one file for each way to choose them.

A weighting has `fit(members, inputs, noise, seed, advance)` and `work(members, inputs)`, the number of member
evaluations that `fit` will tell `advance` of. Weights are fitted once, on inputs that nothing is certified on, and then
fixed: weights chosen at a clean test input and held while sampling are no certificate (METHODS E3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Fitted(NamedTuple):
    """Weights on the simplex, in the order of the members, and what their fit found on the way."""

    weights: tuple[float, ...]
    report: Mapping[str, float]
