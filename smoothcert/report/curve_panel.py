"""Certified-accuracy curves as a page shows them: the picture, the best run at each radius, and what to read off it.

Readings are computed here, on a grid of radii, by the same count as in every table; the page's script only shows them.
Radii of different norms do not compare: a panel is of one norm.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from smoothcert.contracts import WHOLE
from smoothcert.report import plots
from smoothcert.report.inputs import as_data
from smoothcert.report.metrics import Share, radius_name, same_inputs, share_at
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
    crowded: bool  # some steps are too narrow to be drawn


def places(end: float, whole: bool, radii: Sequence[float]) -> list[float]:
    """Radii to read at: round steps up to the end, whole ones if need be, and every radius of the tables."""
    least = max(end / MOST, 1.0 if whole else 0.0)
    tens = 10.0 ** math.floor(math.log10(least))
    step = next(tens * k for k in (1, 2, 5, 10) if tens * k >= least * (1 - 1e-9))
    even = (round(i * step, 9) for i in range(int(end / step) + 1))
    return sorted({*even, *(radius for radius in radii if radius <= end)})


def upper(runs: Sequence[Run]) -> tuple[list[float], list[float]]:
    """Corners of the best certified accuracy at each radius: a value holds on the interval that ends at its radius."""
    wanted = runs[0].claim.radii
    if wanted is None:
        return plots.envelope_steps(runs)
    shares = ([share.value for run in runs if (share := share_at(run, radius))] for radius in (0.0, *wanted))
    return [0.0, *wanted], [max(found, default=0.0) for found in shares]


def panel(number: int, runs: Sequence[Run], radii: Sequence[float]) -> CurvePanel:
    """The panel of certify runs of one norm."""
    figure = plots.curve_figure(runs)
    axes = figure.axes[0]
    if (legend := axes.get_legend()) is not None:
        legend.remove()  # the page has its own, with the values read
    axes.patch.set_gid("plot")
    claims = [run.claim for run in runs]
    envelope = len(runs) > 1 and warning(claims) is None and same_inputs(runs)
    if envelope:
        x, y = upper(runs)
        axes.step(x, y, where="pre", color=plots.INK, linewidth=1.4, linestyle=(0, (1.5, 1.5)), gid="envelope")
    end = float(axes.get_xlim()[1])
    wanted = [radius for claim in claims for radius in claim.radii or ()]
    at = places(end, runs[0].claim.norm in WHOLE, [*radii, *wanted])
    return CurvePanel(
        norm=NORMS[runs[0].claim.norm],
        names=[run.name for run in runs],
        picture=plots.inline_svg(figure, _words(runs, radii), f"curve-{number}"),
        envelope=envelope,
        last=len(at) - 1,
        start=bisect_left(at, max((r for r in [*radii, *wanted] if r <= end / 2), default=0.0)),
        readings=as_data({"end": end, "radii": at, "runs": _readings(runs, at, envelope)}),
        dotted=bool(wanted),
        crowded=plots.crowded(runs),
    )


def _readings(shown: Sequence[Run], at: Sequence[float], envelope: bool) -> list[list[Any]]:
    """For each run, and then the envelope, at each radius: height, percent, interval; None where it was not tried."""
    read = [[share_at(run, radius) for radius in at] for run in shown]
    cells = {share: _cell(share) for shares in read for share in set(shares) if share is not None}
    runs: list[list[Any]] = [[None if share is None else cells[share] for share in shares] for shares in read]
    if envelope:
        known = [[cells[share] for share in shares if share is not None] for shares in zip(*read, strict=True)]
        best = [max(shares, default=None) for shares in known]
        runs.append([None if found is None else [*found[:2], ""] for found in best])
    return runs


def _cell(share: Share) -> list[Any]:
    return [share.hits * 10**5 // share.of / 10**5, percent(share), span(share.interval)]


def _words(runs: Sequence[Run], radii: Sequence[float]) -> str:
    """The curves for who cannot see them."""
    said = [
        f"{run.name}: "
        + ", ".join(
            f"{percent(share)} % at {radius_name(radius)}" for radius in radii if (share := share_at(run, radius))
        )
        for run in runs
    ]
    return "Certified accuracy against radius. " + "; ".join(said)
