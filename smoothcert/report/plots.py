"""Certified-accuracy curves, drawn exactly: a step at every certified radius, none in between.

Where radii lie closer than a screen can show, some steps are left out, so that a drawn curve is nowhere above the true
one; what is printed in figures always comes from all rows.

Figures are made by matplotlib's objects, without pyplot and its global state; the same runs give the same bytes.
Colours are those of Okabe and Ito, told apart by colour-blind readers; when they run out, dashes begin.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from xml.sax.saxutils import quoteattr

from smoothcert.errors import OptionError, RunError
from smoothcert.files import write_whole
from smoothcert.foreign import harmless, one_line
from smoothcert.report.columns import columns
from smoothcert.report.metrics import LEVEL, Share, certified_accuracy, lows
from smoothcert.report.tables import NORMS, units
from smoothcert.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from smoothcert.bounds import Floats
    from smoothcert.report.columns import Marks

INK = "#2e3440"  # axes and words; a page turns it into its own colour
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)))
MARKERS = ("o", "s", "D", "^", "v", "P")  # of radii that were asked for
BANDS = 3  # more runs than this would hide each other's bands
CORNERS = 1000  # distinct radii that a curve has a step for; among more, steps narrower than 1/1000 of the axis merge
STYLE: Any = {
    "svg.hashsalt": "smoothcert",  # ids of SVG elements are random without it
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same picture everywhere
    "text.parse_math": False,  # a run's name may hold a $
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def curve_figure(runs: Sequence[Run], size: tuple[float, float] = (6.4, 4.0)) -> Figure:
    """Certified accuracy against radius for every certify run, with its pointwise exact band where there is room."""
    runs = [run for run in runs if run.kind == "certify"]
    if not runs:
        raise RunError("a curve must be drawn from at least one certify run; got predict runs only")
    norms = " or ".join(sorted({NORMS[run.claim.norm] for run in runs}))
    reached = [columns(run).right_radii[-1:].tolist() for run in runs]
    top = max((radius for run, own in zip(runs, reached, strict=True) for radius in (*own, *(run.claim.radii or ()))),
              default=0.0) or 1.0  # fmt: skip
    figure, axes = canvas(size, f"{norms} radius ({units(runs, spaced=True)})", "certified accuracy")
    for i, run in enumerate(runs):
        _curve(axes, run, i, band=len(runs) <= BANDS, end=top * 1.04)
    axes.set_xlim(0.0, top * 1.04)
    axes.set_ylim(0.0, 1.0)
    if len(runs) > 1 or any(map(_marks, runs)):
        _legend(axes, "upper right")
    return figure


def low_figure(runs: Sequence[Run], size: tuple[float, float] = (6.4, 3.0)) -> Figure:
    """Share of inputs whose bound on P(top class) is at most p, for every run that keeps its bounds."""
    kept = [(i, run, bounds) for i, run in enumerate(runs) if (bounds := lows(run)) is not None]
    figure, axes = canvas(size, "lower bound p on the probability of the top class", "share of inputs ≤ p")
    for i, run, bounds in kept:
        x, y = _distribution(bounds)
        axes.step([0.0, *x, 1.0], [0.0, *y, 1.0], where="post", label=_label(run), **_line(i))
    axes.axvline(0.5, color=INK, alpha=0.45, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.0)
    if len(kept) > 1:
        _legend(axes, "upper left")
    return figure


def steps(run: Run) -> tuple[list[float], list[Share]]:
    """The curve's corners: the share that holds up to and including each radius, from 0 to the largest, then none.

    Where radii were asked for, the curve has its corners there and ends with the last: larger ones were not tried.
    Certified accuracy at r counts radii ≥ r, so each value holds on the interval that *ends* at its radius.
    """
    wanted = run.claim.radii
    if wanted is not None:
        shares = [certified_accuracy(run, radius) for radius in wanted]
        return [0.0, *wanted], [shares[0], *shares]
    known, n = columns(run), len(run.rows)
    x = corners([known.right_radii])
    shares = [Share(hits, n) for hits in known.hits(x).tolist()]
    return [*x.tolist(), float(x[-1])], [*shares, Share(0, n)]


def corners(radii: Sequence[Floats]) -> Floats:
    """0 and all of these radii, ascending; of more than CORNERS, the first and last in each 1/CORNERS of the axis.

    Certified accuracy falls as the radius grows, and a value holds on the interval that ends at its corner. So a curve
    with fewer corners is nowhere above the true one, and no further left of it than such a stretch is wide.
    """
    import numpy as np

    found = _distinct(radii)
    if len(found) <= CORNERS:
        return found
    return found[np.logical_or(*_ends(found / found[-1]))]


def crowded(runs: Sequence[Run]) -> bool:
    """Whether steps are left out of the curve of any of these runs."""
    return any(run.claim.radii is None and len(_distinct([columns(run).right_radii])) > CORNERS for run in runs)


def _distinct(radii: Sequence[Floats]) -> Floats:
    """0 and all of these radii, ascending."""
    import numpy as np

    return np.unique(np.concatenate([[0.0], *radii]))


def _distribution(values: Floats) -> tuple[list[float], list[float]]:
    """Values in [0, 1], and the share of all that is not above each: where some are left out, nowhere below it."""
    import numpy as np

    x = np.unique(values)
    y = np.searchsorted(values, x, side="right") / len(values)
    if len(x) > CORNERS:
        first, last = _ends(x)
        x, y = x[first], y[last]
    return x.tolist(), y.tolist()


def _ends(shares: Floats) -> tuple[Marks, Marks]:
    """Of ascending numbers in [0, 1], which are the first, and which the last, of their stretch of 1/CORNERS."""
    import numpy as np

    turns = np.diff(np.floor(shares * CORNERS)) > 0
    return np.append(True, turns), np.append(turns, True)


def draw_steps(axes: Axes, run: Run, label: str, colour: str, width: float, **style: Any) -> None:
    """A run's curve as one line."""
    x, shares = steps(run)
    y = [share.value for share in shares]
    axes.step(x, y, where="pre", color=colour, linewidth=width, label=label or None, **style)


def envelope_steps(runs: Sequence[Run]) -> tuple[list[float], list[float]]:
    """The best certified accuracy at every radius that some run reaches, and nothing beyond."""
    import numpy as np

    x = corners([columns(run).right_radii for run in runs])
    y = np.max([columns(run).hits(x) / len(run.rows) for run in runs], axis=0)
    return [*x.tolist(), float(x[-1])], [*y.tolist(), 0.0]


def legend_above(figure: Figure, size: float = 9.0) -> None:
    """Names above the axes: curves may lie in any corner of them."""
    figure.legend(loc="outside upper center", ncols=2, frameon=False, labelcolor=INK, fontsize=size, handlelength=2.2)


def plain_numbers(axes: Axes) -> None:
    """Upward, numbers in place of percent."""
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def save(figure: Figure, path: Path) -> tuple[Path, Path]:
    """Write the figure as SVG and as PNG, whichever of them the path names; gives both paths."""
    if path.suffix.lower() not in ("", ".svg", ".png"):
        raise OptionError(f"plot file must end in .svg or .png (both are written); got '{path.name}'")
    vector, pixels = path.with_suffix(".svg"), path.with_suffix(".png")
    write_whole(vector, svg(figure).encode())
    write_whole(pixels, png(figure))
    return vector, pixels


def svg(figure: Figure, words: bool = False) -> str:
    """The figure as SVG; letters as shapes that look the same everywhere, or as words in the reader's font."""
    import matplotlib

    sink = io.StringIO()
    _as_words(figure)
    with matplotlib.rc_context({**STYLE, "svg.fonttype": "none" if words else "path"}):
        figure.savefig(sink, format="svg", transparent=words, metadata={"Date": None, "Creator": "smoothcert"})
    return sink.getvalue()


def png(figure: Figure) -> bytes:
    """The figure as PNG at 200 dots an inch."""
    import matplotlib

    sink = io.BytesIO()
    _as_words(figure)
    with matplotlib.rc_context(STYLE):
        figure.savefig(sink, format="png", dpi=200, metadata={"Software": "smoothcert"})
    return sink.getvalue()


def _as_words(figure: Figure) -> None:
    """Names are words: no formula between two $, and no mark that XML cannot hold."""
    from matplotlib.text import Text

    for words in figure.findobj(Text):
        if isinstance(words, Text):
            words.set_parse_math(False)
            words.set_text(harmless(words.get_text()))


def inline_svg(figure: Figure, label: str, prefix: str) -> str:
    """The figure for a page of any theme: ink is the page's colour, curves are its variables --c0, --c1, …

    Ids get the prefix, because a page may hold several figures.
    """
    text = svg(figure, words=True)
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", text.replace(INK, "currentColor"))
    for i, colour in enumerate(PALETTE):
        text = text.replace(colour, f"var(--c{i})")
    return text.replace("<svg ", f'<svg role="img" aria-label={quoteattr(harmless(label))} ', 1)


def canvas(size: tuple[float, float], across: str, up: str) -> tuple[Figure, Axes]:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        styled(axes, across, up)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}".replace("%", " %"))
    return figure, axes


def styled(axes: Axes, across: str = "", up: str = "") -> None:
    """Labels, a faint grid, and no more ink than needed."""
    axes.set_xlabel(across, labelpad=8)
    axes.set_ylabel(up, labelpad=8)
    axes.grid(color=INK, alpha=0.12, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_alpha(0.5)
    axes.tick_params(length=0, pad=6)


def _curve(axes: Axes, run: Run, number: int, band: bool, end: float) -> None:
    x, shares = steps(run)
    y = [share.value for share in shares]
    axes.step(x, y, where="pre", label=_label(run), **_line(number))
    wanted = run.claim.radii
    if wanted is not None:
        # Hollow and of several shapes, so that runs that prove the same do not hide each other.
        shape = MARKERS[number % len(MARKERS)]
        axes.plot(wanted, y[1:], shape, markersize=7, fillstyle="none", color=_line(number)["color"], clip_on=False)
    if band:
        _band(axes, run, x, shares, _line(number)["color"], end)
        if number == 0:
            axes.annotate(
                f"band: exact {LEVEL:.0%} interval, radius by radius".replace("%", " %"),
                xy=(1.0, 1.0), xycoords="axes fraction", xytext=(0, 4), textcoords="offset points",
                ha="right", va="bottom", fontsize=8, alpha=0.75, color=INK,
            )  # fmt: skip


def _band(axes: Axes, run: Run, x: Sequence[float], shares: Sequence[Share], colour: str, end: float) -> None:
    """The exact interval at every radius; where steps are left out, as wide as the widest of what was there."""
    highest = list(shares)
    if run.claim.radii is None:
        known, n = columns(run), len(run.rows)
        beyond = (known.hits(math.nextafter(left, math.inf)) for left in x[:-2])
        highest = [shares[0], *(Share(hits, n) for hits in beyond), shares[-1], shares[-1]]
        x, shares = [*x, end], [*shares, shares[-1]]
    around = {share: share.interval for share in {*shares, *highest}}
    low, high = [around[share].low for share in shares], [around[share].high for share in highest]
    axes.fill_between(x, low, high, step="pre", alpha=0.14, linewidth=0, color=colour)


def _line(number: int) -> dict[str, Any]:
    dash = DASHES[number // len(PALETTE) % len(DASHES)]
    return {"color": PALETTE[number % len(PALETTE)], "linewidth": 1.9, "linestyle": dash, "solid_joinstyle": "miter"}


def _label(run: Run) -> str:
    # matplotlib hides labels that begin with an underscore.
    name = one_line(run.name) + "".join(f" ({mark})" for mark in _marks(run))
    return f" {name}" if name.startswith("_") else name


def _marks(run: Run) -> list[str]:
    """What a curve must not be seen without."""
    labels = ["true label tested"] if run.claim.test_class == "labels" else []
    promise = {"none": "NOT CERTIFIED", "memory": "promised by a memory"}.get(run.claim.guarantee, "")
    missing = [f"unfinished: {len(run.rows):,} of {run.inputs or 0:,} inputs"] if run.unfinished else []
    return [*labels, *filter(None, [promise]), *missing]


def _legend(axes: Axes, place: Literal["upper right", "upper left"]) -> None:
    axes.legend(loc=place, frameon=False, labelcolor=INK, fontsize=9.5, handlelength=2.6)
