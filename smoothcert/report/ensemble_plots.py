"""Pictures of an ensemble beside its members: curves, radii input by input, and ACR over the number of members."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.bounds import Floats
from smoothcert.report import plots
from smoothcert.report._ensemble_words import sides, title
from smoothcert.report._family import difference
from smoothcert.report.ensemble import Comparison
from smoothcert.report.question import asked
from smoothcert.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENSEMBLE, AVERAGE, ENVELOPE = plots.PALETTE[0], plots.PALETTE[1], plots.PALETTE[2]
SIZE = (4.8, 4.0)  # two stand side by side
MOST_DOTS = 2000  # inputs in the picture of radii
BAND = 200  # points of a band


@dataclass(frozen=True)
class Panel:
    """One ensemble as a page shows it."""

    found: Comparison
    curve: str
    scatter: str


def panels(comparisons: Sequence[Comparison]) -> list[Panel]:
    """The pictures of each ensemble as SVG, with words for who cannot see them."""
    return [
        Panel(
            found,
            plots.inline_svg(curve_figure(found), f"Certified accuracy against radius of {title(found)}.", f"kin-{i}"),
            plots.inline_svg(scatter_figure(found), f"{found.ensemble.name}, {sides(found)}.", f"each-{i}"),
        )
        for i, found in enumerate(comparisons)
    ]


def sizes(comparisons: Sequence[Comparison]) -> list[str]:
    """ACR over size, a picture for each question that ensembles of several sizes were asked."""
    groups: list[list[Comparison]] = []
    for found in comparisons:
        mine = (g for g in groups if difference(g[0].family.ensemble, found.family.ensemble) is None)
        group = next(mine, None)
        groups.append([found]) if group is None else group.append(found)
    shown = [group for group in groups if len({found.family.size for found in group}) > 1]
    return [
        plots.inline_svg(
            size_figure(group),
            "ACR over members. "
            + ", ".join(f"{f.family.size}: {f.ensemble.acr:.3f} ({f.ensemble.name})" for f in group),
            f"size-{i}",
        )
        for i, group in enumerate(shown)
    ]


def curve_figure(found: Comparison) -> Figure:
    """Certified accuracy against radius: the ensemble, its members, their average with its deviation, the envelope."""
    family = found.family
    norm = plots.NORMS.get(family.ensemble.norm, family.ensemble.norm)
    figure, axes = plots.canvas(SIZE, f"{norm} radius (inputs in [0, 1])", "certified accuracy")
    corners = np.unique(np.concatenate([_corners(record) for record in (family.ensemble, *family.members)]))
    top = float(corners[-1]) or 1.0
    for i, member in enumerate(family.members):
        x, shares = plots.steps(member)
        label = "members" if i == 0 else None
        axes.step(x, [s.value for s in shares], where="pre", color=plots.INK, alpha=0.3, linewidth=0.9, label=label)
    even = np.linspace(0.0, top, BAND)
    band = np.stack([_curve(member, even) for member in family.members])
    middle, spread = band.mean(axis=0), band.std(axis=0, ddof=1)
    axes.fill_between(even, middle - spread, middle + spread, color=AVERAGE, alpha=0.18, linewidth=0)
    curves = np.stack([_curve(member, corners) for member in family.members])
    _step(axes, corners, curves.mean(axis=0), found, AVERAGE, "their average, ± its deviation", 1.7)
    _step(axes, corners, curves.max(axis=0), found, ENVELOPE, "upper envelope", 1.7)
    _step(axes, corners, _curve(family.ensemble, corners), found, ENSEMBLE, "the ensemble", 2.3)
    axes.set_xlim(0.0, top * 1.04)
    axes.set_ylim(0.0, 1.0)
    figure.legend(
        loc="outside upper center", ncols=2, frameon=False, labelcolor=plots.INK, fontsize=9, handlelength=2.0
    )
    return figure


def scatter_figure(found: Comparison) -> Figure:
    """The ensemble's radius against that of the best member, one dot an input."""
    shown = found.pairs[:: -(-len(found.pairs) // MOST_DOTS)]
    figure, axes = plots.canvas(SIZE, "radius of the best member for this input", "radius of the ensemble")
    top = float(found.pairs.max()) * 1.04 or 1.0
    axes.plot([0.0, top], [0.0, top], color=plots.INK, alpha=0.6, linewidth=1.0, linestyle=(0, (4, 3)))
    axes.plot(
        *shown.T, "o", markersize=4, alpha=0.45, color=ENSEMBLE, markeredgewidth=0, clip_on=False, linestyle="none"
    )
    axes.set_xlim(0.0, top)
    axes.set_ylim(0.0, top)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    return figure


def size_figure(group: Sequence[Comparison]) -> Figure:
    """ACR of members, and of ensembles by their size; those that do not always ask all members are hollow."""
    figure, axes = plots.canvas((6.4, 3.6), "members", "ACR")
    single = {id(record): record for found in group for record in found.family.members}
    each = [_acr(record) for record in single.values()]
    means = {1: statistics.fmean(each)}
    whole = [found for found in group if found.family.whole is not False]
    for size in sorted({found.family.size for found in whole}):
        means[size] = statistics.fmean(found.ensemble.acr for found in whole if found.family.size == size)
    axes.plot(list(means), list(means.values()), color=ENSEMBLE, linewidth=1.9)
    axes.plot([1] * len(each), each, "o", color=plots.INK, alpha=0.45, markersize=5, markeredgewidth=0, label="members")
    _dots(axes, whole, "full", "ensembles")
    _dots(axes, [found for found in group if found.family.whole is False], "none", "ensembles that may ask fewer")
    axes.set_xticks(sorted({1, *(found.family.size for found in group)}))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.3f}")
    axes.legend(loc="lower right", frameon=False, labelcolor=plots.INK, fontsize=9)
    return figure


def _dots(axes: Axes, group: Sequence[Comparison], fill: str, label: str) -> None:
    if group:
        x, y = [found.family.size for found in group], [found.ensemble.acr for found in group]
        axes.plot(x, y, "o", fillstyle="full" if fill == "full" else "none", markersize=7, color=ENSEMBLE, label=label)


def _step(axes: Axes, x: Floats, y: Floats, found: Comparison, colour: str, label: str, width: float) -> None:
    """A curve with a corner at every radius; it ends with the last that was asked for, or else falls to nothing."""
    ends = asked(found.family.ensemble).radii is None
    x, y = (np.append(x, x[-1]), np.append(y, 0.0)) if ends else (x, y)
    axes.step(x, y, where="pre", color=colour, linewidth=width, label=label)


def _corners(record: Run) -> Floats:
    """Where the curve of a run has its steps."""
    return np.array([0.0, *(asked(record).radii or ()), *(row.radius for row in record.rows if row.correct)])


def _curve(record: Run, radii: Floats) -> Floats:
    """Certified accuracy at each of these radii."""
    reached = np.sort([row.radius for row in record.rows if row.correct])
    return (len(reached) - np.searchsorted(reached, radii, side="left")) / len(record.rows)


def _acr(record: Run) -> float:
    return sum(row.radius for row in record.rows if row.correct) / len(record.rows)
