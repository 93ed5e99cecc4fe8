"""Pictures of levels and memories: curves beside fixed levels, and the histogram of levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothcert.report._paired import Floats
from smoothcert.report.plots import DASHES, INK, NORMS, PALETTE, canvas, steps
from smoothcert.report.sections.memory_figures import Beside, level
from smoothcert.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (4.8, 4.3)  # two stand side by side
BINS = 24  # of levels that are not those of a grid


def curve_figure(found: Beside) -> Figure:
    """Certified accuracy against radius: fixed levels, the best of them, own levels without and with the memory."""
    norm = NORMS.get(found.run.norm, found.run.norm)
    figure, axes = canvas(SIZE, f"{norm} radius (inputs in [0, 1])", "certified accuracy")
    records = [found.run, found.alone, *found.fixed]
    top = max((row.radius for record in records for row in record.rows if row.correct), default=0.0) or 1.0
    for number, record in enumerate(found.fixed, start=1):
        _curve(axes, record, f"fixed σ = {level(record):g}", PALETTE[number % len(PALETTE)], 1.3)
    if len(found.fixed) > 1:
        x = np.linspace(0.0, top, 400)
        best = np.max([_at(record, x) for record in found.fixed], axis=0)
        axes.plot(x, best, color=INK, linewidth=1.6, linestyle=(0, (1, 1.2)), label="best fixed σ at each r")
    if found.settled and found.levels:
        _curve(axes, found.alone, "own σ, no certificate", PALETTE[0], 1.2, dash=1)
    own = "own σ" if found.levels else "with the memory"
    name = f"{own}, with the memory" if found.settled and found.levels else own
    _curve(axes, found.run, name, PALETTE[0], 2.3, dash=0 if found.settled else 1)
    axes.set_xlim(0.0, top * 1.04)
    axes.set_ylim(0.0, 1.0)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, labelcolor=INK, fontsize=8.5, handlelength=2.2)
    return figure


def level_figure(found: Beside) -> Figure:
    """How many inputs have which level, on a scale of even ratios; dashed: where the search began."""
    figure, axes = canvas(SIZE, "σ of an input", "inputs")
    levels = np.array(found.levels)
    edges = _edges(np.unique(levels))
    right = {row.index for row in found.run.rows if row.correct}
    shares = [
        [row.sigma for row in found.run.rows if row.sigma is not None and (row.index in right) == wanted]
        for wanted in (True, False)
    ]
    axes.hist(
        shares, bins=edges.tolist(), stacked=True, color=[PALETTE[0], PALETTE[1]], label=["right", "wrong or none"]
    )
    axes.axvline(found.start or 0.0, color=INK, alpha=0.6, linewidth=1.1, linestyle=(0, (4, 3)))
    axes.set_xscale("log")
    axes.set_xticks(_ticks(edges[0], edges[-1]))
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.2g}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    return figure


def _edges(levels: Floats) -> Floats:
    """Bins in even ratio; where levels are few, as of a grid, one around each."""
    if len(levels) > 2 * BINS or len(levels) == 1:
        return np.geomspace(levels[0] * 0.99, levels[-1] * 1.01, BINS + 1)
    between = np.sqrt(levels[1:] * levels[:-1])
    return np.array([levels[0] ** 2 / between[0], *between, levels[-1] ** 2 / between[-1]])


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between, at most a handful."""
    found = [m * 10.0**e for e in range(-6, 4) for m in (1, 2, 3, 5, 7) if low <= m * 10.0**e <= high]
    return found if len(found) > 1 else [low, high]


def _curve(axes: Axes, record: Run, name: str, colour: str, width: float, dash: int = 0) -> None:
    x, shares = steps(record)
    style = DASHES[dash]
    axes.step(
        x, [share.value for share in shares], where="pre", color=colour, linewidth=width, linestyle=style, label=name
    )


def _at(record: Run, radii: Floats) -> Floats:
    """Certified accuracy at each of these radii."""
    reached = np.sort([row.radius for row in record.rows if row.correct])
    return (len(reached) - np.searchsorted(reached, radii, side="left")) / len(record.rows)
