"""Pictures of a composition over its thresholds: what robustness costs in accuracy, and who is selected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smoothcert.files import writing
from smoothcert.report.aces import lines
from smoothcert.report.aces_frontier import height, point
from smoothcert.report.metrics import radius_name
from smoothcert.report.plots import DASHES, INK, MARKERS, NORMS, PALETTE, canvas, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from smoothcert.runs.components import Combined, Parts, Single

Size = tuple[float, float]
WIDE, LOW = (6.4, 4.2), (6.4, 3.6)
NAMES: Any = {"xytext": (4, 3), "textcoords": "offset points", "fontsize": 7.5, "color": INK}  # of points
SHOWN = (0.1, 0.2, 0.3, 0.5, 0.8)  # thresholds whose selection radii are drawn


class Group(NamedTuple):
    """Single networks that share a colour: several are joined, and named one by one in the picture."""

    name: str
    members: Sequence[Single]


def save_all(folder: Path, parts: Parts, radius: float, singles: Sequence[Single] = ()) -> list[Path]:
    """Every picture that these components have, as SVG and PNG."""
    every, groups = parts.at(parts.thetas), [Group(one.name, [one]) for one in singles]
    figures = {
        "frontier": frontier([parts], groups),
        "at-radius": frontier([parts], groups, radius),
        "selection": selection_figure(parts.at([theta for theta in SHOWN if theta in parts.thetas]), parts),
    }
    if parts.doubt is not None:
        figures["entropy"] = entropy_figure(parts, every, radius)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return [path for name, figure in figures.items() for path in save(figure, folder / f"{name}.svg")]


def frontier(
    shown: Sequence[Parts], groups: Sequence[Group] = (), radius: float | None = None, size: Size = WIDE
) -> Figure:
    """ACR, or certified accuracy at a radius, over natural accuracy; single smoothed networks are points."""
    norm = NORMS.get(shown[0].norm, "")
    up = f"average certified {norm} radius" if radius is None else f"certified accuracy at {radius_name(radius)}"
    figure, axes = canvas(size, "natural accuracy", up)
    every = [lines(parts.at(parts.thetas), [radius or 0.0]) for parts in shown]
    room = 0.04 * max(1e-9, *(height(line, radius) for found in every for line in found))
    named: list[float] = []  # heights of the first frontier's names; closer than that they would overlap
    for number, (parts, found) in enumerate(zip(shown, every, strict=True)):
        colour = PALETTE[number % len(PALETTE)]
        corners = [(line.natural.value, height(line, radius)) for line in found]
        axes.plot(*zip(*corners, strict=True), color=colour, linewidth=1.9, label=_shown(parts.name))
        for line, place in list(zip(found, corners, strict=True))[:: max(1, len(found) // 10)]:
            axes.plot(*place, "o", color=colour, markersize=4)
            if number == 0 and all(abs(place[1] - other) > room for other in named):
                axes.annotate(f"{line.theta:.1f}", place, **NAMES)
                named.append(place[1])
    _points(axes, groups, radius, first=len(shown))
    if radius is None:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}".replace("%", " %"))
    axes.set_ylim(bottom=0.0)
    # Above the axes: a frontier may lie in any corner of them.
    figure.legend(loc="outside upper center", ncols=2, frameon=False, labelcolor=INK, fontsize=9)
    return figure


def _points(axes: Axes, groups: Sequence[Group], radius: float | None, first: int) -> None:
    for number, group in enumerate(groups):
        points = [point(one, radius or 0.0) for one in group.members]
        places = [(one.natural.value, one.acr if radius is None else one.certified.value) for one in points]
        axes.plot(*zip(*places, strict=True), MARKERS[number % len(MARKERS)], markersize=6, linestyle=":", linewidth=1,
                  color=PALETTE[(first + number) % len(PALETTE)], label=_shown(group.name))  # fmt: skip
        for one, place in zip(points, places, strict=True) if len(points) > 1 else ():
            axes.annotate(one.name, place, **NAMES)


def entropy_figure(parts: Parts, combined: Combined, radius: float, size: Size = LOW) -> Figure:
    """How many inputs the certified network is right about within a radius, over their median doubt."""
    if parts.doubt is None:
        raise ValueError("the doubts of these components are not known")
    right = (combined.certified.label == parts.labels) & (combined.certified.radius >= radius)
    figure, axes = canvas(size, "median doubt of the noisy copies of an input", "inputs")
    edges = np.linspace(0.0, 1.0, 21)
    shares = [parts.doubt[right], parts.doubt[~right]]
    words = [f"certified and right at {radius_name(radius)}", "not"]
    axes.hist(shares, bins=edges.tolist(), stacked=True, color=[PALETTE[0], PALETTE[1]], label=words)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    return figure


def selection_figure(combined: Combined, parts: Parts, size: Size = LOW) -> Figure:
    """Radii of the selection, sorted: above 0 the certified network is selected, below 0 the core, at 0 neither."""
    norm = NORMS.get(parts.norm, "")
    figure, axes = canvas(size, "share of inputs", f"certified {norm} radius of the selection")
    for number, theta in enumerate(combined.thetas):
        label, radius = combined.selection.label[number], combined.selection.radius[number]
        values = np.sort(np.where(label == 0, -radius, radius))  # an abstention has radius 0
        style: Any = {
            "color": PALETTE[number % len(PALETTE)],
            "linestyle": DASHES[number // len(PALETTE) % len(DASHES)],
        }
        axes.step(np.arange(1, len(values) + 1) / len(values), values, label=f"theta {theta:g}", linewidth=1.7, **style)
    axes.axhline(0.0, color=INK, alpha=0.4, linewidth=0.8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}".replace("%", " %"))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    return figure


def _shown(name: str) -> str:
    # matplotlib hides labels that begin with an underscore.
    return f" {name}" if name.startswith("_") else name
