"""A history as a picture: a row of panels for each question, with what every version reached, the oldest at the left.

Bars are the intervals of each figure by itself. Versions were asked about the same inputs, so that a change between two
of them can be sure though their bars overlap; the table tells it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from smoothcert.report.history import Line
from smoothcert.report.metrics import Interval, radius_name
from smoothcert.report.plots import INK, MARKERS, PALETTE, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_RADII = 5  # curves of certified accuracy that can be told apart
MOST_NAMES = 12  # versions with room for a name


def figure(lines: Sequence[Line]) -> Figure:
    """ACR at the left, certified accuracy at the first radii at the right; of predictions accuracy alone."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        made = Figure(figsize=(9.6, 0.4 + 3.2 * len(lines)), layout="constrained")
        for part, line in zip(made.subfigures(len(lines), 1, squeeze=False)[:, 0], lines, strict=True):
            part.suptitle(textwrap.fill(line.words, 130), fontsize=9, x=0.01, ha="left", color=INK)
            left, right = part.subplots(1, 2)
            _radius(left, line)
            _shares(right, line)
            for axes in (left, right):
                _names(axes, line)
    return made


def _radius(axes: Axes, line: Line) -> None:
    figures = [version.figures for version in line.versions]
    if any(run.acr is None for run in figures):
        axes.set_visible(False)
        return
    axes.set_title("average certified radius", fontsize=10, color=INK)
    _points(axes, [run.acr or 0.0 for run in figures], [run.acr_interval for run in figures], 0, "")


def _shares(axes: Axes, line: Line) -> None:
    figures = [version.figures for version in line.versions]
    radii = [r for r in figures[0].certified_accuracy if all(run.certified_accuracy.get(r) for run in figures)]
    axes.set_title("certified accuracy" if radii else "accuracy", fontsize=10, color=INK)
    axes.set_ylim(-0.03, 1.03)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}".replace("%", " %"))
    if not radii:
        _points(axes, [run.accuracy.value for run in figures], [run.accuracy.interval for run in figures], 0, "")
    for number, radius in enumerate(radii[:MOST_RADII]):
        shares = [share for run in figures if (share := run.certified_accuracy[radius]) is not None]
        around = [share.interval for share in shares]
        _points(axes, [share.value for share in shares], around, number, f"at {radius_name(radius)}")
    if len(radii) > 1:
        axes.legend(frameon=False, fontsize=8, labelcolor=INK, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _points(axes: Axes, values: Sequence[float], around: Sequence[Interval | None], number: int, label: str) -> None:
    colour, shape = PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)]
    axes.plot(values, marker=shape, color=colour, label=label, linewidth=1.4, markersize=5)
    for place, ends in enumerate(around):
        if ends is not None:
            axes.plot([place, place], ends, color=colour, linewidth=1.0, alpha=0.55)


def _names(axes: Axes, line: Line) -> None:
    every = -(-len(line.versions) // MOST_NAMES)
    places = range(0, len(line.versions), every)
    names = [f"{line.versions[i].when:%Y-%m-%d}\n{line.versions[i].digest[:8]}" for i in places]
    axes.set_xticks(list(places), names, fontsize=8, rotation=0 if len(places) < 5 else 60)
    axes.set_xlim(-0.5, len(line.versions) - 0.5)
    axes.grid(color=INK, alpha=0.12, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=0, pad=6, labelsize=8)
