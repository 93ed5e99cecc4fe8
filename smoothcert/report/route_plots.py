"""Pictures of a route: its curve beside its branches, and which of two radii bound each input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.report import plots
from smoothcert.report.route import names_of
from smoothcert.runs.run import Run
from smoothcert.runs.verify import Replayed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (4.8, 4.2)  # two stand side by side


def curve_figure(route: Run, branches: Sequence[Run], others: Sequence[Run]) -> Figure:
    """Certified accuracy against radius: the route, its branches alone and their upper envelope, and other runs."""
    norm = plots.NORMS.get(route.norm, route.norm)
    figure, axes = plots.canvas(SIZE, f"{norm} radius (inputs in [0, 1])", "certified accuracy")
    for number, record in enumerate(branches):
        x, shares = plots.steps(record)
        label = "branches alone" if number == 0 else None
        axes.step(
            x, [share.value for share in shares], where="pre", color=plots.INK, alpha=0.4, linewidth=1.0, label=label
        )
    if len(branches) > 1:
        x, y = _envelope(branches)
        axes.step(x, y, where="pre", color=plots.PALETTE[2], linewidth=1.7, label="their upper envelope")
    for number, record in enumerate(others):
        x, shares = plots.steps(record)
        colour = plots.PALETTE[(3, 4, 5, 1)[number % 4]]
        axes.step(
            x, [share.value for share in shares], where="pre", color=colour, linewidth=1.7, label=f" {record.name}"
        )
    x, shares = plots.steps(route)
    axes.step(x, [s.value for s in shares], where="pre", color=plots.PALETTE[0], linewidth=2.3, label=f" {route.name}")
    axes.set_xlim(left=0.0)
    axes.set_ylim(0.0, 1.0)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, labelcolor=plots.INK, fontsize=9)
    return figure


def binding_figure(run: Replayed) -> Figure:
    """The selector's radius against that of the branch, one dot an input: the smaller is the route's."""
    figure, axes = plots.canvas(SIZE, "radius of the selection", "radius of the selected branch")
    sure = [found.parts for _, found in run.rows if len(found.parts) == 2]
    top = max((part.radius for parts in sure for part in parts), default=0.0) * 1.04 or 1.0
    axes.plot([0.0, top], [0.0, top], color=plots.INK, alpha=0.6, linewidth=1.0, linestyle=(0, (4, 3)))
    for number, name in enumerate(names_of(run)):
        radii = [(parts[0].radius, parts[1].radius) for parts in sure if parts[0].label == number]
        if radii:
            axes.plot(*zip(*radii, strict=True), plots.MARKERS[number % len(plots.MARKERS)], linestyle="none",
                      markersize=4, alpha=0.55, color=plots.PALETTE[number % len(plots.PALETTE)], markeredgewidth=0,
                      clip_on=False, label=f"branch {name}")  # fmt: skip
    axes.set_xlim(0.0, top)
    axes.set_ylim(0.0, top)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    figure.legend(loc="outside upper center", ncols=2, frameon=False, labelcolor=plots.INK, fontsize=9)
    return figure


def _envelope(records: Sequence[Run]) -> tuple[list[float], list[float]]:
    """The best certified accuracy at every radius that some record reaches, and nothing beyond."""
    reached = [np.sort([row.radius for row in record.rows if row.correct]) for record in records]
    x = np.unique(np.concatenate([[0.0], *reached]))
    sizes = [len(record.rows) for record in records]
    y = np.max([(len(r) - np.searchsorted(r, x)) / n for r, n in zip(reached, sizes, strict=True)], axis=0)
    return [*x.tolist(), float(x[-1])], [*y.tolist(), 0.0]
