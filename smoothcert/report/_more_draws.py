"""What a run would have certified with another number of draws, computed from its votes; nothing is drawn.

Each input's share of votes is taken for its probability p. Hits among n draws are then Bin(n, p), and every number of
hits has its radius, so the expected radius and the probability to reach a given one are sums. Where all votes agreed,
p is taken for 1, which is more than is known: the computed figures flatter the run a little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from smoothcert.bounds import Floats, proven_radii
from smoothcert.catalog import rebuild as build
from smoothcert.contracts import Noise
from smoothcert.errors import SmoothcertError
from smoothcert.report.course import tested_class
from smoothcert.report.draws import tested
from smoothcert.report.question import asked, part
from smoothcert.runs.run import Run
from smoothcert.sampling.fixed import Fixed

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

WIDE, NODES = 9.0, 96  # of a sum over hits: standard deviations on either side, and most terms on a side
CLOSE = 1e-6  # a stored radius must be what its votes give


@dataclass(frozen=True)
class MoreDraws:
    """Expected figures of a run with so many draws an input."""

    draws: int
    acr: float
    certified: Mapping[float, float]  # by radius


def with_draws(record: Run, times: float, radii: Sequence[float]) -> MoreDraws | None:
    """With so many times the draws; None for other schemes than `fixed`, or where votes do not give the radii."""
    settings = part(record, "sampling")
    if settings.get("name") != "fixed" or record.norm == "l0" or not all(tested(row) for row in record.rows):
        return None
    try:
        sampling, noise = build("sampling", settings), build("noise", part(record, "noise"))
    except SmoothcertError:
        return None
    against = asked(record).against
    classes = [tested_class(against, row) for row in record.rows]
    hits = np.array([tested(row)[0][label or 0] for row, label in zip(record.rows, classes, strict=True)])
    kept = [row.radius for row in record.rows]
    if None in classes or not np.allclose(
        np.maximum(proven_radii(hits, sampling.n, sampling.alpha, noise, 0), 0.0), kept, atol=CLOSE
    ):
        return None
    more = Fixed(round(times * sampling.n), sampling.alpha)
    right = np.array([label == row.label for row, label in zip(record.rows, classes, strict=True)])
    p = hits[right] / sampling.n
    return MoreDraws(
        more.n,
        float(expected_radius(p, more, noise).sum()) / len(right),
        {r: float(reaching(p, more, noise.p_needed(r, 0)).sum()) / len(right) for r in radii},
    )


def expected_radius(p: Floats, sampling: Fixed, noise: Noise) -> Floats:
    """E[radius] of each p.

    Hits are summed one by one, or, where they are many, in equal steps: a binomial with so wide a spread is smooth
    enough for that to be the same sum, to six decimals where the radius has its kink at 0 and far better elsewhere.
    """
    from scipy.special import gammaln, xlog1py, xlogy

    n = sampling.n
    reach = WIDE * np.sqrt(n * p * (1 - p)) + WIDE  # the second for p near 0 or 1, where hits are few and far between
    step = np.maximum(1, np.ceil(reach / NODES)).astype(np.int64)
    hits = np.round(n * p).astype(np.int64)[:, None] + step[:, None] * np.arange(-NODES, NODES + 1)
    inside = (hits >= 0) & (hits <= n)
    hits = np.where(inside, hits, 0)
    ways = gammaln(n + 1) - gammaln(hits + 1) - gammaln(n - hits + 1)
    chance = np.where(inside, np.exp(ways + xlogy(hits, p[:, None]) + xlog1py(n - hits, -p[:, None])), 0.0)
    radii = np.maximum(proven_radii(hits, n, sampling.alpha, noise, 0), 0.0)
    found: Floats = (chance * radii).sum(axis=1) / chance.sum(axis=1)
    return found


def reaching(p: Floats, sampling: Fixed, need: float) -> Floats:
    """The probability that the lower bound is at least `need`, for each p."""
    from scipy.special import betainc

    fewest = int(sampling.boundaries(need).accept[0])
    if fewest > sampling.n:
        return np.zeros(len(p))
    return np.asarray(betainc(fewest, sampling.n - fewest + 1, p), dtype=np.float64)
