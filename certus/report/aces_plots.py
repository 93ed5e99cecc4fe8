"""Pictures of a composition over its thresholds: what robustness costs in accuracy, and who is selected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from certus.files import writing
from certus.report.aces import Line, lines
from certus.report.metrics import radius_name
from certus.report.plots import DASHES, INK, MARKERS, NORMS, PALETTE, canvas, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from certus.runs.combine import Combined
    from certus.runs.components import Parts, Single

SHOWN = (0.1, 0.2, 0.3, 0.5, 0.8)  # thresholds whose selection radii are drawn


def save_all(folder: Path, parts: Parts, radius: float, singles: Sequence[Single] = ()) -> list[Path]:
    """Every picture that these components have, as SVG and PNG."""
    every = parts.at(parts.thetas)
    figures = {
        "frontier": frontier(parts, singles),
        "at-radius": frontier(parts, singles, radius),
        "selection": selection_figure(parts.at([theta for theta in SHOWN if theta in parts.thetas]), parts),
    }
    if parts.doubt is not None:
        figures["entropy"] = entropy_figure(parts, every, radius)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return [path for name, figure in figures.items() for path in save(figure, folder / f"{name}.svg")]


def frontier(parts: Parts, singles: Sequence[Single] = (), radius: float | None = None) -> Figure:
    """ACR, or certified accuracy at a radius, over natural accuracy; single smoothed networks are points."""
    found = lines(parts.at(parts.thetas), [0.0 if radius is None else radius])
    norm = NORMS.get(str(parts.settings.get("norm")), "")
    up = f"average certified {norm} radius" if radius is None else f"certified accuracy at {radius_name(radius)}"
    figure, axes = canvas((6.4, 4.0), "natural accuracy", up)

    def height(line: Line) -> float:
        return line.acr if radius is None else line.certified[radius].value

    axes.plot([line.natural.value for line in found], [height(line) for line in found], color=PALETTE[0], linewidth=1.9,
              label=f"{parts.name}, theta from 0 to 1")  # fmt: skip
    room = 0.04 * max(max(height(line) for line in found), 1e-9)  # names of points closer than this would overlap
    named: list[float] = []
    for line in found[:: max(1, len(found) // 10)]:
        point = (line.natural.value, height(line))
        axes.plot(*point, "o", color=PALETTE[0], markersize=4)
        if all(abs(point[1] - other) > room for other in named):
            axes.annotate(
                f"{line.theta:.1f}", point, xytext=(4, 3), textcoords="offset points", fontsize=7.5, color=INK
            )
            named.append(point[1])
    for number, one in enumerate(singles):
        right = one.verdicts.label == one.labels
        value = (
            (one.verdicts.radius * right).mean() if radius is None else (right & (one.verdicts.radius >= radius)).mean()
        )
        natural = (one.verdicts.natural == one.labels).mean()
        axes.plot(natural, value, MARKERS[number % len(MARKERS)], color=PALETTE[1 + number % (len(PALETTE) - 1)],
                  markersize=7, label=one.name)  # fmt: skip
    if radius is None:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}".replace("%", " %"))
    axes.set_ylim(bottom=0.0)
    axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    return figure


def entropy_figure(parts: Parts, combined: Combined, radius: float) -> Figure:
    """How many inputs the certified network is right about within a radius, over their median doubt."""
    if parts.doubt is None:
        raise ValueError("the doubts of these components are not known")
    right = (combined.certified.label == parts.labels) & (combined.certified.radius >= radius)
    figure, axes = canvas((6.4, 3.4), "median doubt of the noisy copies of an input", "inputs")
    edges = np.linspace(0.0, 1.0, 21)
    shares = [parts.doubt[right], parts.doubt[~right]]
    words = [f"certified and right at {radius_name(radius)}", "not"]
    axes.hist(shares, bins=edges.tolist(), stacked=True, color=[PALETTE[0], PALETTE[1]], label=words)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    return figure


def selection_figure(combined: Combined, parts: Parts) -> Figure:
    """Radii of the selection, sorted: above 0 the certified network is selected, below 0 the core, at 0 neither."""
    norm = NORMS.get(str(parts.settings.get("norm")), "")
    figure, axes = canvas((6.4, 3.6), "share of inputs", f"certified {norm} radius of the selection")
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
