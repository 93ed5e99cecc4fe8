"""What a check found, and how sure the audit is before it accuses.

Let e be the error rate of the audit: an honest run is accused with probability at most e. Three checks leave something
to chance (noise, fresh, attack), so each may accuse wrongly with probability e/3, its `share`.

One test. A certificate of radius R says that its class keeps more than half of the noisy copies of every point inside.
At a point x′ that other draws have chosen, n fresh draws give k hits, and "at least half" is rejected when
P(Bin(n, ½) ≤ k) ≤ t. Fewer hits are likelier the lower p is, so that for every p ≥ ½ this has probability at most t. At
x itself the same is said of the p that R needs.

Many certificates. Each of N is tested at t = share/4N. But a certificate may itself be wrong with probability α, and
then a rejection is no mistake of the audit and no fault of the run. So a certificate of an honest run is contradicted
with probability at most α + t, independently of the others, for their noise is. The number of contradicted ones is
therefore at most as large as a Bin(N, α + t), and the run is accused when it exceeds r, the smallest number with
P(Bin(N, α + t) > r) ≤ share/2. Up to r are listed and excused. Without α (every case was counted) r is 0.

One certificate alone. Where a radius comes from one look, its stored votes, k₁ of n₁, and fresh ones at the same input,
k₂ of n₂, are of one and the same p, which need not be known: given k₁ + k₂, the number k₂ is hypergeometric (Fisher).
P(as few) ≤ t is then reached with probability at most t, α or not, so that votes that were made up are named one by
one. Draws that stop when enough hits have come are not of this kind and have the count above alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import bdtr, bdtrc, gammaln, logsumexp

CHECKS = 3  # that leave something to chance


@dataclass(frozen=True)
class Check:
    """How much was tried, and everything that is not as it should be."""

    name: str
    trials: int
    tried: str  # in words, with its numbers
    violations: tuple[str, ...] = ()
    excused: tuple[str, ...] = ()  # contradicted certificates, not more than alpha allows

    @property
    def held(self) -> bool:
        return not self.violations


def share(error: float) -> float:
    """The probability with which one check may accuse an honest run."""
    return error / CHECKS


def each(error: float, trials: int) -> float:
    """The level t of one test out of so many."""
    return share(error) / (4 * max(1, trials))


def shown_below(hits: int, draws: int, p: float, level: float) -> bool:
    """Whether so few hits show that their probability is below p: P(Bin(draws, p) ≤ hits) ≤ level."""
    return draws > 0 and float(bdtr(hits, draws, min(p, 1.0))) <= level


def as_few(stored_hits: int, stored: int, hits: int, draws: int) -> float:
    """P(at most `hits` in `draws`), given all hits in stored and fresh draws together, if both have the same p."""
    total = stored_hits + hits
    found = np.arange(max(0, total - stored), hits + 1)
    pairs = (draws, found), (stored, total - found), (stored + draws, total)
    ways = [gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) for n, k in pairs]  # logarithms of n over k
    return min(1.0, float(np.exp(logsumexp(ways[0] + ways[1] - ways[2]))))


def excused(trials: int, alpha: float, error: float) -> int:
    """How many of so many certificates an honest run may have contradicted."""
    p, number = min(1.0, alpha + each(error, trials)), 0
    while number < trials and float(bdtrc(number, trials, p)) > share(error) / 2:
        number += 1
    return number


def weighed(check: Check, contradicted: Sequence[str], alpha: float, error: float) -> Check:
    """The check with its contradicted certificates: excused, or violations where they are more than alpha explains."""
    if len(contradicted) > excused(check.trials, alpha, error):
        return replace(check, violations=(*check.violations, *contradicted))
    return replace(check, excused=tuple(contradicted))
