"""A composition over its thresholds, beside single networks: what robustness costs in accuracy.

Natural accuracy is that of PREDICT, an abstention counting as wrong. The certified selection rate at r is the share of
inputs that are certainly selected within r; a selector that does not know has selected nothing (erratum E5).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smoothcert.contracts import ABSTAIN
from smoothcert.errors import OptionError
from smoothcert.report.metrics import Share, radius_name, usual_radii
from smoothcert.report.section import Table, plain
from smoothcert.report.tables import decimal, percent
from smoothcert.runs.components import Combination, Components, SingleNetwork

TENTHS = tuple(k / 10 for k in range(11))
DEMANDS = ("natural-accuracy", "acr")
GAPS = (0.05, 0.02, 0.01, 0.005)  # between demands: the widest that leaves a few of them
FEW = 3
ACCURACY, SELECTION = "certified accuracy (%) at radius", "certified selection rate (%) at radius"


@dataclass(frozen=True)
class ThresholdFigures:
    """The figures of a composition at one threshold."""

    theta: float
    natural: Share
    acr: float
    abstained: Share
    certified: Mapping[float, Share]  # by radius
    selected: Mapping[float, Share]  # by radius


def by_threshold(combination: Combination, radii: Sequence[float] | None = None) -> list[ThresholdFigures]:
    """One a threshold; radii default to `default_radii`."""
    wanted = default_radii(combination) if radii is None else radii
    return [_at_threshold(combination, place, wanted) for place in range(len(combination.thetas))]


def default_radii(combination: Combination) -> list[float]:
    """The usual ones up to the largest radius that anything has."""
    return usual_radii(float(max(combination.answers.radius.max(), combination.selection.radius.max())))


def _at_threshold(combination: Combination, place: int, radii: Sequence[float]) -> ThresholdFigures:
    label, radius, natural = (column[place] for column in combination.answers)
    chosen, reach = combination.selection.label[place] == 1, combination.selection.radius[place]
    right = label == combination.labels
    return ThresholdFigures(
        float(combination.thetas[place]),
        _share(natural == combination.labels),
        math.fsum(radius[right]) / len(label),
        _share(label == ABSTAIN),
        {r: _share(right & (radius >= r)) for r in radii},
        {r: _share(chosen & (reach >= r)) for r in radii},
    )


def _share(hits: np.ndarray[Any, np.dtype[np.bool_]]) -> Share:
    return Share(int(hits.sum()), len(hits))


def theta_for(components: Components, demand: str) -> tuple[float, ThresholdFigures]:
    """The threshold that meets `natural-accuracy=0.9` with the largest ACR, or `acr=0.4` with the most accuracy."""
    name, _, text = demand.partition("=")
    try:
        least = float(text)
    except ValueError:
        least = math.nan
    if name not in DEMANDS or not 0.0 <= least < math.inf:
        raise OptionError(f"--theta-for must be {' or '.join(f'{known}=…' for known in DEMANDS)}; got '{demand}'")
    place = DEMANDS.index(name)
    pairs = [((one.natural.value, one.acr), one) for one in by_threshold(components.at(components.thetas), [0.0])]
    met = [(values, one) for values, one in pairs if values[place] >= least]
    if not met:
        best = max(values[place] for values, _ in pairs)
        raise OptionError(f"--theta-for {demand} must be within reach of the hold-out inputs; the most is {best:.3f}")
    _, found = max(met, key=lambda pair: pair[0][1 - place])
    return found.theta, found


def table(found: Sequence[ThresholdFigures], notes: Sequence[str] = (), own: float | None = None) -> Table:
    """A row a threshold: natural accuracy, certified accuracy and selection rate at radii, ACR; `own` is marked."""
    marked = [f"{one.theta:.2f}" + ("\nthis run’s rows" if one.theta == own else "") for one in found]
    columns = [
        plain("NAC %", [percent(one.natural) for one in found]),
        plain("ACR", [decimal(one.acr) for one in found]),
        *(plain(radius_name(r), [percent(one.certified[r]) for one in found], ACCURACY) for r in found[0].certified),
        *(plain(radius_name(r), [percent(one.selected[r]) for one in found], SELECTION) for r in found[0].selected),
    ]
    return Table("θ", tuple(marked), tuple(columns), tuple(notes))


def notes(components: Components) -> list[str]:
    """What the table does not say."""
    origin, labels = components.origin, components.labels
    if origin is None:
        return []
    half, whole = (
        math.fsum(verdicts.radius[verdicts.label == labels]) / len(labels)
        for verdicts in (components.certified, origin.alone)
    )
    return [
        f"natural accuracy (NAC): prediction with {origin.n_predict:,} draws, an abstention is wrong",
        f"the certified network alone: ACR {decimal(whole)} at alpha {origin.alpha:g}, {decimal(half)} at half of it, "
        "which is theta 1 here",
    ]


def as_json(found: Sequence[ThresholdFigures]) -> list[dict[str, Any]]:
    """One object a threshold, nothing rounded."""
    return [
        {
            "theta": one.theta,
            "natural_accuracy": one.natural.value,
            "acr": one.acr,
            "abstained": one.abstained.value,
            "certified_accuracy": {radius_name(r): share.value for r, share in one.certified.items()},
            "certified_selection_rate": {radius_name(r): share.value for r, share in one.selected.items()},
        }
        for one in found
    ]


@dataclass(frozen=True)
class NetworkPoint:
    """One smoothed network alone: its place beside the frontier."""

    name: str
    natural: Share
    acr: float
    certified: Mapping[float, Share]  # at the radius asked for


def point(one: SingleNetwork, radius: float = 0.0) -> NetworkPoint:
    """The figures of a single network."""
    right = one.verdicts.label == one.labels
    acr = math.fsum(one.verdicts.radius[right]) / len(one.labels)
    certified = {radius: _share(right & (one.verdicts.radius >= radius))}
    return NetworkPoint(one.name, _share(one.verdicts.natural == one.labels), acr, certified)


def height(one: ThresholdFigures | NetworkPoint, radius: float | None) -> float:
    """What stands over natural accuracy: ACR, or certified accuracy at a radius."""
    return one.acr if radius is None else one.certified[radius].value


def unbeaten(
    found: Sequence[ThresholdFigures], points: Sequence[NetworkPoint], radius: float | None = None
) -> list[NetworkPoint]:
    """Single networks that no threshold is as good as, in natural accuracy and in ACR (or in accuracy at a radius)."""

    def beaten(one: NetworkPoint) -> bool:
        least, value = one.natural.value, height(one, radius)
        return any(other.natural.value >= least and height(other, radius) >= value for other in found)

    return [one for one in points if not beaten(one)]


def verdict(found: Sequence[ThresholdFigures], points: Sequence[NetworkPoint], radius: float | None = None) -> str:
    """Whether the composition does better than single networks, and than which it does not.

    Those beyond its end are told apart: a frontier stops at its own certified network, and another one goes further.
    """
    what = "ACR" if radius is None else f"certified accuracy at {radius_name(radius)}"
    free, most = unbeaten(found, points, radius), max(height(one, radius) for one in found)
    beyond = [one for one in free if height(one, radius) > most]
    within = [one for one in free if one not in beyond]
    said = [f"more {what} than any threshold has: {_named(beyond, radius)}"] if beyond else []
    if within:
        said.insert(0, f"no threshold is as good in both natural accuracy and {what} as {_named(within, radius)}")
    elif len(beyond) < len(points):
        rest = len(points) - len(beyond)
        others = " other" if beyond else ""
        whom = f"the{others} single network" if rest == 1 else f"each of the {rest}{others} single networks"
        said.insert(0, f"for {whom} some threshold is as accurate and has as much {what}")
    return "; ".join(said)


def _named(points: Sequence[NetworkPoint], radius: float | None) -> str:
    return ", ".join(
        f"{one.name} ({percent(one.natural)} %, "
        f"{decimal(one.acr) if radius is None else percent(one.certified[radius]) + ' %'})"
        for one in points
    )


@dataclass(frozen=True)
class ThetaChoice:
    """A threshold that was found for a demand on hold-out inputs, and what it does on others."""

    least: float  # natural accuracy asked for
    theta: float
    there: ThresholdFigures  # on the hold-out inputs
    here: ThresholdFigures


def choices(components: Components, holdout: Components) -> list[ThetaChoice]:
    """Thresholds for round demands on natural accuracy, as far as the hold-out inputs can meet them."""
    reached = [one.natural.value for one in by_threshold(holdout.at(holdout.thetas), [0.0])]
    found = []
    for least in round_numbers(min(reached), max(reached)):
        theta, there = theta_for(holdout, f"natural-accuracy={least!r}")
        found.append(ThetaChoice(least, theta, there, by_threshold(components.at([theta]), [0.0])[0]))
    return found


def choice_table(components: Components, holdout: Components) -> Table:
    """The same, a row a demand."""
    found = choices(components, holdout)
    there, here = (f"{where}, natural accuracy (%)" for where in ("hold-out", "here"))
    return Table(
        "natural accuracy at least", tuple(f"{100 * one.least:g} %" for one in found),
        (
            plain("θ", [f"{one.theta:.2f}" for one in found]),
            plain(there, [percent(one.there.natural) for one in found]),
            plain("ACR", [decimal(one.there.acr) for one in found]),
            plain(here, [percent(one.here.natural) for one in found]),
            plain("ACR", [decimal(one.here.acr) for one in found]),
        ),
    )  # fmt: skip


def round_numbers(low: float, high: float) -> list[float]:
    """Round numbers above low and at most high."""
    for gap in GAPS:
        first, last = math.floor(low / gap) + 1, math.floor(high / gap + 1e-9)
        if last - first + 1 >= FEW:
            break
    return [round(k * gap, 3) for k in range(first, last + 1)]
