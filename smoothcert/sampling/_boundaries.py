"""A test of one probability as a table: how many hits certify, how many misses give up, look by look.

Every scheme that certifies a radius known in advance is compiled into such a table before the first draw, so that one
driver runs them all, one exact computation gives the error of each (`_exact.profile`), and a run costs two integer
comparisons a look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from smoothcert.contracts import Draw, Evidence, Noise, Source, Steps
from smoothcert.errors import OptionError

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class Verdict(Enum):
    """What a look decides."""

    CERTIFY = "certify"
    GIVE_UP = "give up"
    CONTINUE = "continue"


@dataclass(frozen=True, eq=False)
class Boundaries:
    """Is P(hit) ≥ p0? At look j with size[j] draws: certify at accept[j] hits, else give up at reject[j] misses.

    size, accept, reject: int64 [looks]; a value above size[j] is never reached. `fresh`: every look counts new draws
    only; otherwise all draws so far.
    """

    size: Integers
    accept: Integers
    reject: Integers
    fresh: bool = False

    @property
    def draws(self) -> Integers:
        """New draws for each look."""
        return self.size if self.fresh else np.diff(self.size, prepend=0)

    def verdict(self, look: int, hits: int) -> Verdict:
        if hits >= self.accept[look]:
            return Verdict.CERTIFY
        return Verdict.GIVE_UP if self.size[look] - hits >= self.reject[look] else Verdict.CONTINUE


def follow(
    source: Source, label: int | None, tables: Sequence[tuple[float, Boundaries]], alpha: float, radii: Sequence[float]
) -> Steps[Evidence]:
    """Test rising probabilities on one stream of draws, stopping at the first that fails; label None: the leader.

    `tables` are (p0, boundaries) for each radius, smallest first, over the same looks. Because each is tested only if
    all smaller ones were proven, and each at level alpha, one alpha covers them all.
    """
    seen: list[tuple[int, ...]] = []
    votes: Integers = np.zeros(1, dtype=np.int64)
    proven, look = 0.0, -1
    for p0, table in tables:
        verdict = table.verdict(look, _hits(votes, label)) if look >= 0 else Verdict.CONTINUE
        while verdict is Verdict.CONTINUE and look + 1 < len(table.size):
            look += 1
            counts = (yield Draw(source, int(table.draws[look])))[0]
            seen.append(tuple(int(vote) for vote in counts))
            votes = counts if table.fresh or look == 0 else votes + counts
            verdict = table.verdict(look, _hits(votes, label))
        if verdict is not Verdict.CERTIFY:
            break
        # A leader that has certified once is the class all larger radii are about.
        proven, label = p0, int(votes.argmax()) if label is None else label
    found = int(votes.argmax()) if label is None else label
    return Evidence(found, tuple(seen), sum(map(sum, seen)), proven, 1 - proven, alpha, tuple(radii))


def _hits(votes: Integers, label: int | None) -> int:
    return int(votes.max() if label is None else votes[label])


def smallest(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The smallest k of low…high with holds(k), which once true stays true; high + 1 if there is none."""
    while low <= high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle - 1
        else:
            low = middle + 1
    return low


def check_radii(radii: Sequence[float], whose: str) -> tuple[float, ...]:
    """Radii are finite, not negative and rising; refused otherwise."""
    import math

    values = tuple(radii)
    if not values:
        raise OptionError(f"{whose} certifies a radius known in advance; give --radius or --radii")
    if not all(isinstance(r, int | float) and math.isfinite(r) and r >= 0 for r in values):
        raise OptionError(f"radii of {whose} must be finite numbers of at least 0; got {list(values)}")
    if list(values) != sorted(set(values)):
        raise OptionError(f"radii of {whose} must be rising; got {list(values)}")
    return tuple(float(r) for r in values)


def needs(
    noise: Noise, radii: Sequence[float], dim: int, fewest: Callable[[float], int], cap: int, whose: str
) -> list[float]:
    """The probability each radius needs; refused where the cap could not show it even if every draw hit."""
    found = [noise.need(radius, dim) for radius in radii]
    for radius, p0 in zip(radii, found, strict=True):
        if p0 >= 1.0:
            raise OptionError(f"radii of {whose} must be within reach of the noise; got {radius:g}, which needs P = 1")
        if cap < (least := fewest(p0)):
            raise OptionError(
                f"{whose} must allow at least {least} draws to certify radius {radius:g}; its cap is {cap} "
                "(raise the cap, or take a wider noise or a larger alpha)"
            )
    return found
