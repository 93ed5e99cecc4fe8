"""How likely a class must be at x for a majority at every input that differs in r coordinates, in exact integers.

A coordinate keeps its value with weight `stay` and takes each of its `others` other values with weight `other`. Where x
and x′ differ, a noisy coordinate equal to x's value speaks for x (t = +1), one equal to x′'s value for x′ (t = −1), any
other for neither. How much likelier a noisy input is under x than under x′ depends only on the sum t over the r
coordinates: (stay/other)^t. By Neyman and Pearson the least favourable class takes the noisy inputs of the highest t
first, the last level in part, until it has half the mass under x′; what it then has under x is what is needed. The
dimension does not enter (Lee, Yuan, Chang, Jaakkola, NeurIPS 2019, reach the same numbers by counting regions).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache


@lru_cache(maxsize=512)
def levels(stay: int, other: int, others: int, radius: int) -> tuple[int, ...]:
    """Weights of t = −radius … radius under x, of (stay + others·other)^radius in all; under x′ they are reversed."""
    if radius == 0:
        return (1,)
    before = levels(stay, other, others, radius - 1)
    padded = (0, 0, *before, 0, 0)
    neither = (others - 1) * other
    return tuple(stay * padded[i] + neither * padded[i + 1] + other * padded[i + 2] for i in range(len(before) + 2))


@lru_cache(maxsize=4096)
def needed(stay: int, other: int, others: int, radius: int) -> Fraction:
    """P(class) under x above which the class has the majority at every x′ that differs in `radius` coordinates."""
    here = levels(stay, other, others, radius)
    total = sum(here)
    level, taken_here, taken_there = 0, 0, 0  # from t = radius downwards
    while 2 * (taken_there + here[level]) < total:
        taken_here, taken_there = taken_here + here[-1 - level], taken_there + here[level]
        level += 1
    part = Fraction(total - 2 * taken_there, 2 * here[level])
    return (taken_here + part * here[-1 - level]) / total


def above(value: Fraction) -> float:
    """The next float that is larger, so that reaching it is more than reaching the value."""
    number = float(value)
    while Fraction(number) <= value:
        number = math.nextafter(number, math.inf)
    return number
