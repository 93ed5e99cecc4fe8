"""Sound conversions of a radius from one norm to another, and lengths compared in whole numbers.

A ball of radius r in norm q lies inside the ball of radius R in norm p when r = R/d^max(0, 1/p − 1/q), since
‖δ‖_p ≤ d^max(0, 1/p − 1/q)·‖δ‖_q for δ of d coordinates, with equality for some δ: no larger r would do. So an l2
radius R is R/√d in l∞ and R in l1. Nothing follows from an l0 radius: a step of any length may touch every coordinate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from smoothcert.contracts import Norm
from smoothcert.errors import OptionError, unknown

ORDERS: dict[Norm, float] = {"l1": 1.0, "l2": 2.0, "linf": math.inf}


def converted(radius: float, held: Norm, wanted: Norm, dim: int) -> float:
    """The largest radius in the wanted norm whose ball lies inside the given ball, rounded down."""
    if held == wanted:
        return radius
    for norm in (held, wanted):
        if norm not in ORDERS:
            raise unknown("norm of a radius to convert", norm, ORDERS)
    if dim < 1:
        raise OptionError(f"dim of a radius to convert must be at least 1; got {dim}")
    power = max(0.0, 1 / ORDERS[held] - 1 / ORDERS[wanted])
    if power == 0.0:
        return radius
    # The step down is larger than what the power and the quotient can have rounded up.
    return max(0.0, radius / math.pow(dim, power) * (1 - 1e-15))


def within(moved: Iterable[int], radius: float, norm: Norm, grid: int, closed: bool = False) -> bool:
    """Whether a perturbation, in whole steps of 1/grid, is in the ball of this radius; nothing is rounded.

    The ball is open, as certificates are: Σ(255δ)² < (255R)² in l2. In l0 and where `closed` the border belongs to it.
    """
    steps = [abs(int(step)) for step in moved]
    if norm == "l0":
        return sum(step > 0 for step in steps) <= radius
    limit = Fraction(radius) * grid
    length, most = {
        "l1": (sum(steps), limit),
        "l2": (sum(step * step for step in steps), limit * limit),
        "linf": (max(steps, default=0), limit),
    }[norm]
    return length <= most if closed else length < most
