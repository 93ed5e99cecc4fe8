"""Pictures about draws: how they are spread over inputs, and what a scheme does with them at every p."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.bounds import Floats
from smoothcert.report.plots import INK, PALETTE, STYLE
from smoothcert.report.schemes import RadiusTest, Scheme, logit
from smoothcert.report.spending import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 5  # a decade
WINDOW, EVEN = 3.2, 33  # either side of p0, in logits, and points that are not denser towards p0
TICKS = (0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999, 0.9999, 0.99999)
FILLS = (("certified", PALETTE[2], 0.8), ("undecided", INK, 0.16), ("given up", PALETTE[1], 0.8))


def histogram(runs: Sequence[tuple[int, str, Spread]]) -> Figure:
    """Draws an input on a logarithmic axis, a panel for each run (colour number, name, spread), all on one scale."""
    low = min(bin_of(max(1, spread.draws[0])) for _, _, spread in runs)
    high = max(bin_of(max(1, spread.draws[-1])) for _, _, spread in runs) + 1
    counted = [shares(spread, low, high) for _, _, spread in runs]
    top = max(float(part.max()) for pair in counted for part in pair)
    edges = [10 ** (k / BINS) for k in range(low, high + 1)]
    figure, rows = _panels(len(runs), 1, (6.4, 0.9 + 1.15 * len(runs)))
    for axes, (colour, name, _), (inputs, draws) in zip(rows, runs, counted, strict=True):
        axes.stairs(inputs, edges, fill=True, color=PALETTE[colour % len(PALETTE)], alpha=0.85, label="of inputs")
        axes.stairs(draws, edges, color=INK, linewidth=1.3, label="of all draws")
        axes.set_xscale("log")
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(0.0, top * 1.08)
        axes.locator_params(axis="y", nbins=3)
        axes.set_xticks(_round_numbers(edges[0], edges[-1]))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_title(name, loc="left", fontsize=9.5, color=INK, pad=4)
    rows[0].legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, frameon=False, labelcolor=INK, fontsize=8.5,
        borderaxespad=0.1, handlelength=1.6,
    )  # fmt: skip
    rows[-1].set_xlabel("draws an input", labelpad=6)
    return figure


def bin_of(draws: int) -> int:
    """The bin of a number: BINS a decade, each with its lower end; 1 000 begins the bin it belongs to."""
    return math.floor(math.log10(draws) * BINS + 1e-9)


def _round_numbers(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, … between two numbers; only powers of ten where those would crowd."""
    heads = (1, 2, 5) if high / low < 2000 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [head * 10.0**k for k in decades for head in heads if low <= head * 10.0**k <= high * 1.001]


def shares(spread: Spread, low: int, high: int) -> tuple[Floats, Floats]:
    """The share of inputs in each bin, and of all draws."""
    where = [bin_of(max(1, draws)) - low for draws in spread.draws]
    inputs = np.bincount(where, minlength=high - low) / len(where)
    return inputs, np.bincount(where, weights=spread.draws, minlength=high - low) / max(1, spread.total)


def operating(scheme: Scheme, test: RadiusTest) -> Figure:
    """P(certified), P(undecided) and P(given up) against p, one panel for each moment of the scheme."""
    middle = float(logit(np.array([test.p0]))[0])
    dense = [float(odds) for odds in logit(np.array(test.grid)) if abs(odds - middle) < WINDOW]
    across = np.unique([*dense, *np.linspace(middle - WINDOW, middle + WINDOW, EVEN)])
    profiles = [test.profile(float(p)) for p in 1 / (1 + np.exp(-across))]
    moments = scheme.moments
    columns = 1 if len(moments) == 1 else 2
    rows = math.ceil(len(moments) / columns)
    figure, panels = _panels(rows, columns, (4.8, 0.8 + 1.45 * rows))
    for axes, (name, look) in zip(panels, moments, strict=False):
        certified = np.array([found.certify[: look + 1].sum() for found in profiles])
        given_up = np.array([found.give_up[: look + 1].sum() for found in profiles])
        floors = (np.zeros(len(across)), certified, 1 - given_up, np.ones(len(across)))
        for (label, colour, alpha), (below, above) in zip(FILLS, pairwise(floors), strict=True):
            axes.fill_between(across, below, above, color=colour, alpha=alpha, linewidth=0, label=label)
        axes.axvline(middle, color=INK, linewidth=1.1, linestyle=(0, (4, 3)))
        axes.set_title(name, loc="left", fontsize=9.5, color=INK, pad=5)
        _probability_axes(axes, float(across[0]), float(across[-1]))
    for axes in panels[len(moments) :]:
        axes.set_visible(False)
    panels[0].annotate(
        "p₀", (middle, 0.5), xytext=(4, 0), textcoords="offset points", va="center", fontsize=9, color=INK
    )
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, labelcolor=INK, fontsize=9)
    figure.supxlabel("p, the probability of the class under noise", fontsize=9.5, color=INK)
    return figure


def _probability_axes(axes: Axes, low: float, high: float) -> None:
    """Log-odds across, labelled with p; probability up."""
    ticks = [p for p in TICKS if low <= float(logit(np.array([p]))[0]) <= high]
    axes.set_xticks(logit(np.array(ticks)).tolist(), [f"{p:g}" for p in ticks])
    axes.set_xlim(low, high)
    axes.set_ylim(0.0, 1.0)
    axes.set_yticks([0.0, 0.5, 1.0])


def _panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        panels = list(figure.subplots(rows, columns, squeeze=False, sharex=True).ravel())
        for axes in panels:
            axes.spines[["top", "right"]].set_visible(False)
            axes.spines[["left", "bottom"]].set_alpha(0.5)
            axes.tick_params(length=0, pad=5, labelsize=8.5)
            axes.tick_params(which="minor", length=0)
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}".replace("%", " %"))
    return figure, panels
