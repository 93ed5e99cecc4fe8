"""Votes → confidence bounds → radii: plain functions on scipy.special, every one rounded to the safe side.

`lower_bound` and `upper_bound` are Clopper–Pearson (Biometrika 1934); `tie_p_value` is the two-sided binomial test that
prediction uses (Hung and Fithian, Annals of Statistics 2019); in the plural they do the same to arrays. scipy's
inverse beta function is good to about 1e-14; MARGIN is far above that and far below anything a radius shows.

`proven_radii` goes all the way from hits to radii, `radii_between` from bounds to radii: nothing else does.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy.special import betainc, betaincc, betainccinv, betaincinv

from smoothcert.errors import OptionError

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

MARGIN = 1e-12
MOST_DRAWS = 10**11
UNPROVEN = -1.0  # in the place of a radius; radius 0 proves the label of the input itself


class Radial(Protocol):
    """What a proof needs of a noise."""

    @property
    def whole(self) -> bool: ...

    def radius(self, p_top: Any, p_next: Any, dim: int) -> Any: ...


def proven_radii(hits: Integers, draws: Integers | int, alpha: float, noise: Radial, dim: int) -> Floats:
    """The radius that so many hits prove, at alpha, for a class that other draws chose; UNPROVEN where none."""
    low = lower_bounds(hits, draws, alpha)
    return radii_between(low, 1 - low, noise, dim)


def radii_between(low: Floats, next_high: Floats, noise: Radial, dim: int, exact: bool = False) -> Floats:
    """The radius that bounds on the class and on its runner-up prove, rounded down; UNPROVEN where they prove none.

    `exact`: every case was counted, so that bounds are the probabilities themselves and may meet.
    """
    import torch

    low, next_high = np.asarray(low, dtype=np.float64), np.asarray(next_high, dtype=np.float64)
    if not low.size:
        return low
    radius = np.asarray(noise.radius(torch.from_numpy(low), torch.from_numpy(next_high), dim))
    proven = ((low > next_high) | ((low == next_high) & exact)) & (radius >= 0.0)
    if not exact and not noise.whole:  # whole numbers of coordinates, and of steps, are exact as they are
        # The bounds carry a margin far above the rounding of `radius`; one step down makes that safe at any size.
        radius = np.maximum(0.0, np.nextafter(radius, -np.inf))
    return np.where(proven, radius, UNPROVEN)


def lower_bound(hits: int, draws: int, alpha: float) -> float:
    """A p such that P(Bin(draws, p) ≥ hits) ≤ alpha: the true probability is below it with probability ≤ alpha."""
    if hits == 0:
        return 0.0
    bound = float(betaincinv(hits, draws - hits + 1, alpha)) * (1 - MARGIN)
    while bound > 0.0 and betainc(hits, draws - hits + 1, bound) > alpha:
        bound *= 1 - 1e-9
    return bound


def lower_bounds(hits: Integers, draws: Integers | int, alpha: float) -> Floats:
    """The lower bound of every number of hits, each distinct one computed once."""
    found = np.empty(np.broadcast_shapes(np.shape(hits), np.shape(draws)))
    hits, draws = np.broadcast_to(hits, found.shape), np.broadcast_to(draws, found.shape)
    for n in np.unique(draws):
        here = draws == n
        distinct, places = np.unique(hits[here], return_inverse=True)
        some, misses = distinct[distinct > 0], n - distinct[distinct > 0]
        bounds = np.asarray(betaincinv(some, misses + 1, alpha), dtype=np.float64) * (1 - MARGIN)
        while (high := (bounds > 0.0) & (betainc(some, misses + 1, bounds) > alpha)).any():
            bounds[high] *= 1 - 1e-9
        found[here] = np.concatenate([np.zeros(len(distinct) - len(some)), bounds])[places]
    return found


def upper_bound(hits: int, draws: int, alpha: float) -> float:
    """A p such that P(Bin(draws, p) ≤ hits) ≤ alpha: the true probability is above it with probability ≤ alpha."""
    if hits == draws:
        return 1.0
    bound = min(1.0, float(betainccinv(hits + 1, draws - hits, alpha)) * (1 + MARGIN))
    while bound < 1.0 and betaincc(hits + 1, draws - hits, bound) > alpha:
        bound = min(1.0, bound * (1 + 1e-9))
    return bound


def tie_p_value(first: int, second: int) -> float:
    """Two-sided binomial p-value of first against second when both are equally likely; 1 when there is nothing."""
    return float(tie_p_values(np.array(first), np.array(second)))


def tie_p_values(first: Integers, second: Integers) -> Floats:
    """The two-sided p-value of every pair."""
    most, least = np.maximum(first, second), np.minimum(first, second)
    # Where both are equal, and so both may be 0, there is nothing to compute.
    tails = betainc(np.maximum(most, 1), least + 1, 0.5)
    return np.where(most == least, 1.0, np.minimum(1.0, 2 * tails * (1 + MARGIN)))


def best_lower_bound(draws: int, alpha: float) -> float:
    """The lower bound when every draw hits, α^{1/n}: nothing above it can be shown with this many draws."""
    return lower_bound(draws, draws, alpha)


@lru_cache(maxsize=1024)
def fewest_draws(p: float, alpha: float) -> int:
    """The smallest number of draws that can show a probability above p, if every one of them hits."""
    low = high = max(1, math.floor(math.log(alpha) / math.log(p)) - 1)
    while best_lower_bound(high, alpha) <= p:
        if high > MOST_DRAWS:
            return high  # beyond what anyone draws, and soon beyond what a double can tell from certainty
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if best_lower_bound(middle, alpha) > p else (middle, high)
    return high


def check_alpha(alpha: float, whose: str, option: str = "alpha") -> None:
    """An error probability is strictly between 0 and 1."""
    if not (isinstance(alpha, int | float) and 0.0 < alpha < 1.0):
        raise OptionError(f"{option} of {whose} must be between 0 and 1, both excluded; got {alpha}")


def check_draws(draws: int, option: str, whose: str, most: int = MOST_DRAWS) -> None:
    """A number of draws is a positive whole number, and not more than anyone can make."""
    if isinstance(draws, bool) or not isinstance(draws, int) or draws <= 0:
        raise OptionError(f"{option} of {whose} must be a positive whole number; got {draws}")
    if draws > most:
        raise OptionError(f"{option} of {whose} must be a whole number of at most {most}; got {draws}")
