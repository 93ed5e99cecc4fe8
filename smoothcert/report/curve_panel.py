"""Certified-accuracy curves as a page shows them: the picture, the best run at each radius, and what to read off it.

Readings are computed here, on a grid of radii, by the same count as in every table; the page's script only shows them.
Radii of different norms do not compare: a panel is of one norm.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from smoothcert.report import plots
from smoothcert.report.inputs import as_data
from smoothcert.report.metrics import Share, radius_name, same_inputs
from smoothcert.report.tables import NORMS, percent, span, warning
from smoothcert.runs.run import Run

MOST = 250  # places of the reading, about one for each point of the picture's width
ENVELOPE = "upper envelope"


@dataclass(frozen=True)
class CurvePanel:
    """The curves of one norm."""

    norm: str  # as it is written
    names: list[str]  # of the runs, in the order of their colours
    picture: str
    envelope: bool  # whether the picture holds one
    last: int  # places of the reading, from 0
    start: int  # where the reading begins
    readings: str  # as JSON
    dotted: bool  # some radii were asked for in advance


@dataclass(frozen=True)
class Curve:
    """A run's certified accuracy at any radius, by bisection."""

    run: Run
    reached: list[float]  # radii of the right answers, ascending

    @cached_property
    def shares(self) -> list[Share]:
        """What the curve can be: by the number of right answers that reach a radius."""
        return [Share(hits, len(self.run.rows)) for hits in range(len(self.reached) + 1)]

    def share(self, radius: float) -> Share:
        """At a radius that was tried."""
        return self.shares[len(self.reached) - bisect_left(self.reached, radius)]

    def at(self, radius: float) -> Share | None:
        """None where the run never tried so large a radius."""
        return self.share(radius) if self.run.claim.tried(radius) else None


def curve(run: Run) -> Curve:
    """The curve of a run."""
    return Curve(run, sorted(row.radius for row in run.rows if row.correct))


def places(end: float, whole: bool, radii: Sequence[float]) -> list[float]:
    """Radii to read at: round steps up to the end, whole ones if need be, and every radius of the tables."""
    least = max(end / MOST, 1.0 if whole else 0.0)
    tens = 10.0 ** math.floor(math.log10(least))
    step = next(tens * k for k in (1, 2, 5, 10) if tens * k >= least * (1 - 1e-9))
    even = (round(i * step, 9) for i in range(int(end / step) + 1))
    return sorted({*even, *(radius for radius in radii if radius <= end)})


def upper(curves: Sequence[Curve]) -> tuple[list[float], list[float]]:
    """Corners of the best certified accuracy at each radius: a value holds on the interval that ends at its radius."""
    corners = sorted({0.0, *(radius for one in curves for radius in plots.steps(one.run)[0])})
    best = [max((share.value for one in curves if (share := one.at(radius))), default=0.0) for radius in corners]
    if curves[0].run.claim.radii is not None:
        return corners, best
    return [*corners, corners[-1]], [*best, 0.0]


def panel(number: int, runs: Sequence[Run], radii: Sequence[float]) -> CurvePanel:
    """The panel of certify runs of one norm."""
    figure = plots.curve_figure(runs)
    axes, curves = figure.axes[0], [curve(run) for run in runs]
    if (legend := axes.get_legend()) is not None:
        legend.remove()  # the page has its own, with the values read
    axes.patch.set_gid("plot")
    claims = [run.claim for run in runs]
    envelope = len(runs) > 1 and warning(claims) is None and same_inputs(runs)
    if envelope:
        x, y = upper(curves)
        axes.step(x, y, where="pre", color=plots.INK, linewidth=1.4, linestyle=(0, (1.5, 1.5)), gid="envelope")
    end = float(axes.get_xlim()[1])
    wanted = [radius for claim in claims for radius in claim.radii or ()]
    at = places(end, runs[0].claim.norm == "l0", [*radii, *wanted])
    return CurvePanel(
        norm=NORMS[runs[0].claim.norm],
        names=[run.name for run in runs],
        picture=plots.inline_svg(figure, _words(curves, radii), f"curve-{number}"),
        envelope=envelope,
        last=len(at) - 1,
        start=bisect_left(at, max((r for r in [*radii, *wanted] if r <= end / 2), default=0.0)),
        readings=as_data({"end": end, "radii": at, "runs": _readings(curves, at, envelope)}),
        dotted=bool(wanted),
    )


def _readings(curves: Sequence[Curve], at: Sequence[float], envelope: bool) -> list[list[Any]]:
    """For each run, and then the envelope, at each radius: height, percent, interval; None where it was not tried."""
    cells = {share: _cell(share) for one in curves for share in one.shares}
    tried = [one.run.claim.radii or (math.inf,) for one in curves]
    read = [
        [one.share(radius) if radius <= radii[-1] else None for radius in at]
        for one, radii in zip(curves, tried, strict=True)
    ]
    runs: list[list[Any]] = [[None if share is None else cells[share] for share in shares] for shares in read]
    if envelope:
        known = [[cells[share] for share in shares if share is not None] for shares in zip(*read, strict=True)]
        best = [max(shares, default=None) for shares in known]
        runs.append([None if found is None else [*found[:2], ""] for found in best])
    return runs


def _cell(share: Share) -> list[Any]:
    return [round(share.value, 5), percent(share), span(share.interval)]


def _words(curves: Sequence[Curve], radii: Sequence[float]) -> str:
    """The curves for who cannot see them."""
    said = [
        f"{one.run.name}: "
        + ", ".join(f"{percent(share)} % at {radius_name(radius)}" for radius in radii if (share := one.at(radius)))
        for one in curves
    ]
    return "Certified accuracy against radius. " + "; ".join(said)
