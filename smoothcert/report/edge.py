"""A radius drawn as how much change it is: inputs beside the weakest points that an audit's attack found in their
certified balls, most of them at the edge, and the change between the two, magnified.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smoothcert.contracts import WHOLE
from smoothcert.errors import RunError
from smoothcert.report.inputs import no_pictures
from smoothcert.report.metrics import radius_name
from smoothcert.report.plots import INK, STYLE
from smoothcert.report.tables import NAME, NORMS, class_name, decimal
from smoothcert.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from smoothcert.audit.certificates import Attacked
    from smoothcert.report.inputs import Array

STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)  # by which a change is magnified
LOST = "#b04206"
STOOD = (
    "The attack looked for a point inside each certified ball where the label changes, and found none. Shown is the "
    "weakest point it found. The proof is the certificate, not the picture."
)
CHANGED = "At {} of these points the label was lost inside the certified ball: see what the audit says about them."


def edge_figure(run: Run, attacked: Sequence[Attacked]) -> Figure:
    """One row an input: as it is, at the weakest point of its ball, and the change between the two."""
    import matplotlib
    from matplotlib.figure import Figure

    if not attacked:
        raise RunError(f"a picture of attacked inputs must have one to show; run {run.name} has none that was attacked")
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 2.35 * len(attacked) + 0.75), layout="constrained")
        grid = figure.subplots(len(attacked), 3, squeeze=False)
        for row, one in zip(grid, attacked, strict=True):
            _row(run, row, one)
        for axes, title in zip(grid[0], ("input", "weakest point in its ball", "the change"), strict=True):
            axes.set_title(title, fontsize=10, fontweight="bold", pad=8)
        figure.supxlabel(caption(attacked), fontsize=8.5)
    return figure


def caption(attacked: Sequence[Attacked]) -> str:
    """What the attack came to, in lines; and that a screen cannot show values outside [0, 1]."""
    lost = sum(one.lost is not None for one in attacked)
    words = CHANGED.format(lost) if lost else STOOD
    if any(float(one.point.min()) < 0 or float(one.point.max()) > 1 for one in attacked):
        words += " Values beyond black and white are drawn as these."
    return "\n".join(textwrap.wrap(words, 88))


def magnified(change: Array) -> tuple[Array, int]:
    """The change around grey, and by how much it is magnified: as far as [0, 1] allows, in round steps."""
    top = float(abs(change).max())
    times = max((step for step in STEPS if step * top <= 0.5), default=1)
    return 0.5 + times * change, times


def _row(run: Run, row: Sequence[Axes], one: Attacked) -> None:
    certified, name = one.certified, class_name(run, one.certified.label, NAME)
    true = next((row.label for row in run.rows if row.index == certified.index), certified.label)
    called = name if true == certified.label else f"{name}, wrongly ({class_name(run, true, NAME)})"
    (before, draws), (after, _) = one.support(certified.x), one.support(one.point)
    whole = run.claim.norm in WHOLE
    distance, radius = (radius_name(r) if whole else decimal(r) for r in (one.distance, certified.radius))
    change, times = magnified((one.point - certified.x).numpy())
    _draw(row[0], certified.x.numpy(), f"{certified.index}: {called}\n{before} of {draws} copies say so")
    stood = f"still {name}" if one.lost is None else f"no longer {name}"
    _draw(row[1], one.point.numpy(), f"{stood}\n{after} of {draws} copies say so", one.lost is not None)
    _draw(row[2], change, f"{NORMS[run.claim.norm]} norm {distance}, certified {radius}\nshown {times} times as large")


def _draw(axes: Axes, values: Array, below: str, lost: bool = False) -> None:
    shown: Any = values.clip(0, 1)
    colours = {"cmap": "gray", "vmin": 0, "vmax": 1} if len(shown) == 1 else {}
    axes.imshow(shown[0] if len(shown) == 1 else shown.transpose(1, 2, 0), interpolation="nearest", **colours)
    axes.set(xticks=[], yticks=[])
    axes.set_xlabel(below, fontsize=8.5, labelpad=5, color=LOST if lost else INK)
    axes.spines[:].set_visible(False)


def check_pictures(run: Run) -> None:
    """Refuse a run whose inputs are no pictures."""
    reason = no_pictures(run.asked)
    if reason is not None:
        raise RunError(f"a picture must be asked of a run on images; of {run.name}, {reason}")
