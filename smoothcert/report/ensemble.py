"""An ensemble beside its members: their average and upper envelope, what it gains, and what it costs.

The average is the mean over members with its standard deviation, the envelope the best member of each column (SWEEN's
AVG and UE). Gains are paired, because all runs saw the same inputs. The strongest member is the one with the highest
ACR on these inputs; it is not chosen again in every resample.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smoothcert.bounds import Floats
from smoothcert.report._family import Family, difference
from smoothcert.report._more_draws import MoreDraws, with_draws
from smoothcert.report.paired import Estimate, Resampled, resampled
from smoothcert.report.question import asked
from smoothcert.runs.run import Run

ENSEMBLE, STRONGEST, AVERAGE = range(3)  # of what is resampled


@dataclass(frozen=True)
class Line:
    """One row of the table, with standard deviations where it is a mean over members."""

    name: str
    acr: float
    certified: Mapping[float, float]  # by radius, those that were tried
    acr_sd: float | None = None
    certified_sd: Mapping[float, float] | None = None


@dataclass(frozen=True)
class Gain:
    """What the ensemble has more than something else."""

    acr: Estimate
    relative: Estimate | None  # of the other's ACR
    certified: Mapping[float, Estimate]


@dataclass(frozen=True)
class Cost:
    """Members asked, where the run has counted them."""

    a_draw: float  # members asked, mean over draws
    spared: float  # share of draws that did not need all members; of K-consensus the KCR
    an_input: float | None  # evaluations of members, mean over inputs


@dataclass(frozen=True)
class Time:
    """Seconds ÷ those of the same ensemble when it asks all of its members."""

    against: str
    ratio: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Everything about one ensemble."""

    family: Family
    radii: tuple[float, ...]  # those that were tried
    ensemble: Line
    average: Line
    envelope: Line
    strongest: Line
    same: MoreDraws | None  # the strongest member, given as many evaluations as the ensemble took
    over_strongest: Gain
    over_average: Gain
    pairs: Floats  # [inputs, 2], radius of the best member for this input, and of the ensemble; 0 where wrong
    cost: Cost | None
    time: Time | None

    @property
    def sides(self) -> tuple[int, int, int]:
        """Inputs on which the ensemble's radius is larger than that of every member, the same as the best, smaller."""
        best, ours = self.pairs.T
        return int((ours > best).sum()), int((ours == best).sum()), int((ours < best).sum())


def compare(families: Sequence[Family], radii: Sequence[float]) -> list[Comparison]:
    """Each ensemble beside its members; one that does not ask all of them also beside the one that does."""
    return [_compare(family, families, radii) for family in families]


def _compare(family: Family, families: Sequence[Family], radii: Sequence[float]) -> Comparison:
    tried = tuple(radius for radius in radii if asked(family.ensemble).tried(radius))
    reached = [_reached(record) for record in (family.ensemble, *family.members)]
    ours, *theirs = (_figures(radii_of, tried) for radii_of in reached)  # [inputs, 1 + radii] each
    lines = [_line(record.name, part, tried) for record, part in zip(family.members, theirs, strict=True)]
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


def _reached(record: Run) -> Floats:
    """The radius of each input, −1 where it is wrong: a right label may be certified with radius 0."""
    return np.array([row.radius if row.correct else -1.0 for row in record.rows])


def _figures(reached: Floats, radii: Sequence[float]) -> Floats:
    """What ACR and certified accuracies are means of, input by input: [inputs, 1 + radii]."""
    return np.stack([np.maximum(reached, 0.0), *(reached >= radius for radius in radii)], axis=1).astype(np.float64)


def _line(name: str, figures: Floats, radii: Sequence[float]) -> Line:
    acr, *shares = (float(mean) for mean in figures.mean(axis=0))
    return Line(name, acr, dict(zip(radii, shares, strict=True)))


def _average(figures: Floats, members: Sequence[Line], radii: Sequence[float]) -> Line:
    """Mean and standard deviation over members of figures [members, inputs, 1 + radii]."""
    acr, *shares = (float(mean) for mean in figures.mean(axis=(0, 1)))
    return Line(
        f"average of {len(members)} members",
        acr,
        dict(zip(radii, shares, strict=True)),
        statistics.stdev(line.acr for line in members),
        {radius: statistics.stdev(line.certified[radius] for line in members) for radius in radii},
    )


def _envelope(members: Sequence[Line], radii: Sequence[float]) -> Line:
    shares = {radius: max(line.certified[radius] for line in members) for radius in radii}
    return Line("upper envelope", max(line.acr for line in members), shares)


def _gain(drawn: Resampled, over: int, radii: Sequence[float]) -> Gain:
    shares = {radius: drawn.gain(ENSEMBLE, over, i) for i, radius in enumerate(radii, start=1)}
    return Gain(drawn.gain(ENSEMBLE, over, 0), drawn.relative(ENSEMBLE, over, 0), shares)


def _cost(record: Run) -> Cost | None:
    counted = record.settings.get("means", {}).get("member_calls")
    if not counted:
        return None
    a_draw = counted["asked"] / counted["rows"]
    draws = [row.draws for row in record.rows if row.draws is not None]
    return Cost(a_draw, counted["early"] / counted["rows"], a_draw * sum(draws) / len(draws) if draws else None)


def _time(family: Family, families: Sequence[Family]) -> Time | None:
    """Against the run of the whole ensemble by the same means; seconds of other means do not compare."""
    for other in families:
        alike = other.identity is not None and other.identity == family.identity
        if family.whole is False and other.whole and alike and difference(other.ensemble, family.ensemble) is None:
            ours, theirs = _seconds(family.ensemble), _seconds(other.ensemble)
            if ours and theirs and _means(family.ensemble) == _means(other.ensemble):
                return Time(other.ensemble.name, ours / theirs)
    return None


def _means(record: Run) -> list[Any]:
    means = record.settings.get("means", {})
    return [means.get(name) for name in ("engine", "threads", "workers", "batch")]


def _seconds(record: Run) -> float:
    return sum(row.seconds or 0.0 for row in record.rows)
