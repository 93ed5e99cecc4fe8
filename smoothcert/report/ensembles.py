"""An ensemble beside its members: their average and upper envelope, what it gains, and what it costs.

The average is the mean over members with its standard deviation, the envelope the best member of each column (SWEEN's
AVG and UE). Gains are paired, because all runs saw the same inputs. The strongest member is the one with the highest
ACR on these inputs; it is not chosen again in every resample.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from smoothcert.bounds import Floats, proven_radii
from smoothcert.contracts import Noise
from smoothcert.report.columns import columns
from smoothcert.report.families import Family, difference
from smoothcert.report.paired import Estimate, Resampled, resampled
from smoothcert.report.schemes import tested, tested_class
from smoothcert.runs.run import Run
from smoothcert.sampling.fixed import Fixed

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

ENSEMBLE, STRONGEST, AVERAGE = range(3)  # of what is resampled
WIDE, NODES = 9.0, 96  # of a sum over hits: standard deviations on either side, and most terms on a side
AT_ONCE = 10_000  # such sums
CLOSE = 1e-6  # a stored radius must be what its votes give


@dataclass(frozen=True)
class RunFigures:
    """One row of the table, with standard deviations where it is a mean over members."""

    name: str
    acr: float
    certified: Mapping[float, float]  # by radius, those that were tried
    acr_sd: float | None = None
    certified_sd: Mapping[float, float] | None = None


@dataclass(frozen=True)
class EnsembleGain:
    """What the ensemble has more than something else."""

    acr: Estimate
    relative: Estimate | None  # of the other's ACR
    certified: Mapping[float, Estimate]


@dataclass(frozen=True)
class MemberCost:
    """Members asked, where the run has counted them."""

    a_draw: float  # members asked, mean over draws
    spared: float  # share of draws that did not need all members; of K-consensus the KCR
    an_input: float | None  # evaluations of members, mean over inputs


@dataclass(frozen=True)
class TimeRatio:
    """Seconds ÷ those of the same ensemble when it asks all of its members."""

    against: str
    ratio: float


@dataclass(frozen=True)
class MoreDraws:
    """Expected figures of a run with so many draws an input."""

    draws: int
    acr: float
    certified: Mapping[float, float]  # by radius


@dataclass(frozen=True, eq=False)
class Comparison:
    """Everything about one ensemble."""

    family: Family
    radii: tuple[float, ...]  # those that were tried
    ensemble: RunFigures
    average: RunFigures
    envelope: RunFigures
    strongest: RunFigures
    same: MoreDraws | None  # the strongest member, given as many evaluations as the ensemble took
    over_strongest: EnsembleGain
    over_average: EnsembleGain
    pairs: Floats  # [inputs, 2], radius of the best member for this input, and of the ensemble; 0 where wrong
    cost: MemberCost | None
    time: TimeRatio | None

    @property
    def sides(self) -> tuple[int, int, int]:
        """Inputs on which the ensemble's radius is larger than that of every member, the same as the best, smaller."""
        best, ours = self.pairs.T
        return int((ours > best).sum()), int((ours == best).sum()), int((ours < best).sum())


def compare(families: Sequence[Family], radii: Sequence[float]) -> list[Comparison]:
    """Each ensemble beside its members; one that does not ask all of them also beside the one that does."""
    return [_compare(family, families, radii) for family in families]


def _compare(family: Family, families: Sequence[Family], radii: Sequence[float]) -> Comparison:
    tried = tuple(radius for radius in radii if family.ensemble.claim.tried(radius))
    reached = [_reached(run) for run in (family.ensemble, *family.members)]
    ours, *theirs = (_figures(radii_of, tried) for radii_of in reached)  # [inputs, 1 + radii] each
    lines = [_line(run.name, part, tried) for run, part in zip(family.members, theirs, strict=True)]
    best = max(range(len(lines)), key=lambda i: lines[i].acr)
    drawn = resampled(np.stack([ours, theirs[best], np.mean(theirs, axis=0)], axis=1))
    cost = _cost(family.ensemble)
    times = cost.a_draw if cost else float(family.size)
    best_radius = np.maximum(np.max(reached[1:], axis=0), 0.0)
    return Comparison(
        family=family,
        radii=tried,
        ensemble=_line(family.ensemble.name, ours, tried),
        average=_average(np.stack(theirs), lines, tried),
        envelope=_envelope(lines, tried),
        strongest=lines[best],
        same=with_draws(family.members[best], times, tried),
        over_strongest=_gain(drawn, STRONGEST, tried),
        over_average=_gain(drawn, AVERAGE, tried),
        pairs=np.stack([best_radius, np.maximum(reached[0], 0.0)], axis=1),
        cost=cost,
        time=_time(family, families),
    )


def _reached(run: Run) -> Floats:
    """The radius of each input, −1 where it is wrong: a right label may be certified with radius 0."""
    return np.where(columns(run).correct, columns(run).radius, -1.0)


def _figures(reached: Floats, radii: Sequence[float]) -> Floats:
    """What ACR and certified accuracies are means of, input by input: [inputs, 1 + radii]."""
    return np.stack([np.maximum(reached, 0.0), *(reached >= radius for radius in radii)], axis=1).astype(np.float64)


def _line(name: str, figures: Floats, radii: Sequence[float]) -> RunFigures:
    acr, *shares = (float(mean) for mean in figures.mean(axis=0))
    return RunFigures(name, acr, dict(zip(radii, shares, strict=True)))


def _average(figures: Floats, members: Sequence[RunFigures], radii: Sequence[float]) -> RunFigures:
    """Mean and standard deviation over members of figures [members, inputs, 1 + radii]."""
    acr, *shares = (float(mean) for mean in figures.mean(axis=(0, 1)))
    return RunFigures(
        f"average of {len(members)} members",
        acr,
        dict(zip(radii, shares, strict=True)),
        statistics.stdev(line.acr for line in members),
        {radius: statistics.stdev(line.certified[radius] for line in members) for radius in radii},
    )


def _envelope(members: Sequence[RunFigures], radii: Sequence[float]) -> RunFigures:
    shares = {radius: max(line.certified[radius] for line in members) for radius in radii}
    return RunFigures("upper envelope", max(line.acr for line in members), shares)


def _gain(drawn: Resampled, over: int, radii: Sequence[float]) -> EnsembleGain:
    shares = {radius: drawn.gain(ENSEMBLE, over, i) for i, radius in enumerate(radii, start=1)}
    return EnsembleGain(drawn.gain(ENSEMBLE, over, 0), drawn.relative(ENSEMBLE, over, 0), shares)


def _cost(run: Run) -> MemberCost | None:
    calls = None if run.means is None else run.means.member_calls
    if calls is None:
        return None
    a_draw = calls.asked / calls.rows
    draws = [row.draws for row in run.rows if row.draws is not None]
    return MemberCost(a_draw, calls.early / calls.rows, a_draw * sum(draws) / len(draws) if draws else None)


def _time(family: Family, families: Sequence[Family]) -> TimeRatio | None:
    """Against the run of the whole ensemble by the same means; seconds of other means do not compare."""
    for other in families:
        alike = other.identity is not None and other.identity == family.identity
        if family.whole is False and other.whole and alike and difference(other.ensemble, family.ensemble) is None:
            ours, theirs = (sum(row.seconds or 0.0 for row in one.ensemble.rows) for one in (family, other))
            if ours and theirs and _means(family.ensemble) == _means(other.ensemble):
                return TimeRatio(other.ensemble.name, ours / theirs)
    return None


def _means(run: Run) -> tuple[object, ...]:
    means = run.means
    return () if means is None else (means.engine, means.threads, means.workers, means.batch)


def with_draws(run: Run, times: float, radii: Sequence[float]) -> MoreDraws | None:
    """What the run would have certified with so many times the draws, computed from its votes; nothing is drawn.

    Each input's share of votes is taken for its probability p. Hits among n draws are then Bin(n, p), and every number
    of hits has its radius, so the expected radius and the probability to reach a given one are sums. Where all votes
    agreed, p is taken for 1, which is more than is known: the computed figures flatter the run a little. None for other
    schemes than `fixed`, or where votes do not give the radii.
    """
    spec = run.spec
    if spec is None or not isinstance(spec.sampling, Fixed) or not all(tested(row) for row in run.rows):
        return None
    sampling, noise, dim = spec.sampling, spec.noise, spec.dim
    classes = [tested_class(spec.procedure.test_class, row) for row in run.rows]
    if None in classes or noise.whole:
        return None
    hits = np.array([tested(row)[0][label or 0] for row, label in zip(run.rows, classes, strict=True)])
    proven = np.maximum(proven_radii(hits, sampling.n, sampling.alpha, noise, dim), 0.0)
    if not np.allclose(proven, columns(run).radius, atol=CLOSE):
        return None
    more = Fixed(round(times * sampling.n), sampling.alpha)
    right = np.array([label == row.label for row, label in zip(run.rows, classes, strict=True)])
    p = hits[right] / sampling.n
    return MoreDraws(
        more.n,
        float(_expected_radii(p, more, noise, dim).sum()) / len(right),
        {r: float(reaching(p, more, noise.p_needed(r, dim)).sum()) / len(right) for r in radii},
    )


def _expected_radii(p: Floats, sampling: Fixed, noise: Noise, dim: int) -> Floats:
    """The same for many inputs: each distinct p once, so many at a time as memory allows."""
    distinct, places = np.unique(p, return_inverse=True)
    some = np.array_split(distinct, -(-len(distinct) // AT_ONCE) or 1)
    return np.concatenate([expected_radius(part, sampling, noise, dim) for part in some])[places]


def expected_radius(p: Floats, sampling: Fixed, noise: Noise, dim: int) -> Floats:
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
    radii = np.maximum(proven_radii(hits, n, sampling.alpha, noise, dim), 0.0)
    found: Floats = (chance * radii).sum(axis=1) / chance.sum(axis=1)
    return found


def reaching(p: Floats, sampling: Fixed, need: float) -> Floats:
    """The probability that the lower bound is at least `need`, for each p."""
    from scipy.special import betainc

    fewest = int(sampling.boundaries(need).accept[0])
    if fewest > sampling.n:
        return np.zeros(len(p))
    return np.asarray(betainc(fewest, sampling.n - fewest + 1, p), dtype=np.float64)
