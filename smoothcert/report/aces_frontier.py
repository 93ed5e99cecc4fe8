"""What robustness costs in accuracy: a composition's thresholds beside single networks, and thresholds for demands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothcert.report.aces import Line, lines, theta_for
from smoothcert.report.metrics import Share, radius_name
from smoothcert.report.tables import decimal, percent

if TYPE_CHECKING:
    from smoothcert.runs.components import Parts, Single

GAPS = (0.05, 0.02, 0.01, 0.005)  # between demands: the widest that leaves a few of them
FEW = 3


@dataclass(frozen=True)
class Point:
    """One smoothed network alone: its place beside the frontier."""

    name: str
    natural: Share
    acr: float
    certified: Share  # at the radius asked for


def point(one: Single, radius: float = 0.0) -> Point:
    """The figures of a single network."""
    right = one.verdicts.label == one.labels
    return Point(
        one.name,
        Share(int((one.verdicts.natural == one.labels).sum()), len(one.labels)),
        math.fsum(one.verdicts.radius[right]) / len(one.labels),
        Share(int((right & (one.verdicts.radius >= radius)).sum()), len(one.labels)),
    )


def unbeaten(found: Sequence[Line], points: Sequence[Point], radius: float | None = None) -> list[Point]:
    """Single networks that no threshold is as good as, in natural accuracy and in ACR (or in accuracy at a radius)."""

    def beaten(one: Point) -> bool:
        least, value = one.natural.value, _height(one, radius)
        return any(line.natural.value >= least and height(line, radius) >= value for line in found)

    return [one for one in points if not beaten(one)]


def height(line: Line, radius: float | None) -> float:
    """What stands over natural accuracy: ACR, or certified accuracy at a radius."""
    return line.acr if radius is None else line.certified[radius].value


def verdict(found: Sequence[Line], points: Sequence[Point], radius: float | None = None) -> str:
    """Whether the composition does better than single networks, and than which it does not.

    Those beyond its end are told apart: a frontier stops at its own certified network, and another one goes further.
    """
    what = "ACR" if radius is None else f"certified accuracy at {radius_name(radius)}"
    free, most = unbeaten(found, points, radius), max(height(line, radius) for line in found)
    beyond = [one for one in free if _height(one, radius) > most]
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


def _height(one: Point, radius: float | None) -> float:
    return one.acr if radius is None else one.certified.value


def _named(points: Sequence[Point], radius: float | None) -> str:
    return ", ".join(
        f"{one.name} ({percent(one.natural)} %, "
        f"{decimal(one.acr) if radius is None else percent(one.certified) + ' %'})"
        for one in points
    )


@dataclass(frozen=True)
class Choice:
    """A threshold that was found for a demand on hold-out inputs, and what it does on others."""

    least: float  # natural accuracy asked for
    theta: float
    there: Line  # on the hold-out inputs
    here: Line


def choices(parts: Parts, holdout: Parts) -> list[Choice]:
    """Thresholds for round demands on natural accuracy, as far as the hold-out inputs can meet them."""
    reached = [line.natural.value for line in lines(holdout.at(holdout.thetas), [0.0])]
    found = []
    for least in round_numbers(min(reached), max(reached)):
        theta, there = theta_for(holdout, f"natural-accuracy={least!r}")
        found.append(Choice(least, theta, there, lines(parts.at([theta]), [0.0])[0]))
    return found


def round_numbers(low: float, high: float) -> list[float]:
    """Round numbers above low and at most high."""
    for gap in GAPS:
        first, last = math.floor(low / gap) + 1, math.floor(high / gap + 1e-9)
        if last - first + 1 >= FEW:
            break
    return [round(k * gap, 3) for k in range(first, last + 1)]
