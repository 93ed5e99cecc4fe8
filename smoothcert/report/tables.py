"""Runs side by side: as text, Markdown, LaTeX. A row is a run, a column a figure or a radius, or the other way round.

Shares are percentages. Rounding happens here and downwards. ACR stands only beside the radii it averages over. What a
reader must know of a run's question stands below the table; figures of different questions are not ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from smoothcert.report import _layout, question
from smoothcert.report._layout import Column, Table, one_line
from smoothcert.report.metrics import Figures, Interval, Share, radius_name
from smoothcert.runs.exchange import rounded_down

if TYPE_CHECKING:
    from rich.console import RenderableType

UNKNOWN = "–"


def columns(runs: Sequence[Figures]) -> list[Column]:
    """The columns that say something about at least one of the runs, the radii last."""
    made = [_column("inputs", runs, _inputs)]
    if any(run.clean_accuracy for run in runs):
        made.append(_column("clean %", runs, lambda run: percent(run.clean_accuracy), lambda run: run.clean_accuracy))
    if any(run.kind == "predict" for run in runs):
        made.append(_column("accuracy %", runs, lambda run: percent(run.accuracy), lambda run: run.accuracy))
    made.append(_column("abstained %", runs, lambda run: percent(run.abstained)))
    if any(run.mean_draws is not None for run in runs):
        made.append(_column("draws", runs, lambda run: count(run.mean_draws)))
    if any(run.seconds is not None for run in runs):
        made.append(_column("time", runs, lambda run: duration(run.seconds)))
    if any(run.acr is not None for run in runs):
        merit = None if _warning(runs) else _acr
        made.append(_column("ACR", runs, lambda run: decimal(run.acr), merit))
    radii = sorted({radius for run in runs for radius in run.certified_accuracy})
    return made + [_at(radius, runs) for radius in radii]


def table(runs: Sequence[Figures]) -> Table:
    """All of the columns, with what a reader must know below them."""
    title = _curve_title(runs)
    shown = [column if column.radius is None else replace(column, over=title) for column in columns(runs)]
    return Table("run", tuple(run.name for run in runs), tuple(shown), tuple(notes(runs)))


def text(runs: Sequence[Figures], width: int = 100) -> RenderableType:
    """Tables for a terminal: the figures, then certified accuracy in as many blocks of radii as the width needs."""
    return _layout.text(table(runs), width)


def text_table(runs: Sequence[Figures], width: int = 100) -> str:
    """The same as plain text."""
    return _layout.text_of(table(runs), width)


def markdown(runs: Sequence[Figures]) -> str:
    """A GitHub-flavoured table; the best of each column in bold."""
    return _layout.markdown(table(runs))


def latex(runs: Sequence[Figures]) -> str:
    """A booktabs tabular; the best of each column in bold."""
    return _layout.latex(table(runs))


def notes(runs: Sequence[Figures]) -> list[str]:
    """What was asked of each run that was not asked the usual question, and whether they compare."""
    said = [f"{one_line(run.name)}: {line}" for run in runs for line in run.question.words]
    warned = _warning(runs)
    return [*said, *([warned] if warned else [])]


def percent(share: Share | None) -> str:
    """A share in percent, one decimal, rounded down in whole numbers so that no rounding of floats can lift it."""
    if share is None:
        return UNKNOWN
    tenths = share.hits * 1000 // share.of
    return f"{tenths // 10}.{tenths % 10}"


def decimal(value: float | None) -> str:
    """A radius, three decimals, rounded down."""
    return UNKNOWN if value is None else rounded_down(value, 3)


def count(value: float | None) -> str:
    """A number of draws, whole."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def duration(seconds: float | None) -> str:
    """Seconds as a person says them."""
    if seconds is None:
        return UNKNOWN
    if seconds < 60.0:
        return f"{seconds:.1f} s"
    minutes, hours = divmod(round(seconds), 60)[0] % 60, round(seconds) // 3600
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {round(seconds) % 60:02} s"


def signed(value: float, shift: int = 0) -> str:
    """A difference with its sign, three decimals rounded down, the point then moved to the right by `shift`."""
    found = rounded(value, shift=shift)
    return found if found.startswith("−") else f"+{found}"


def ends(interval: Interval, shift: int = 0) -> str:
    """An interval of a difference, rounded outwards."""
    return f"{rounded(interval.low, shift=shift)} to {rounded(interval.high, ROUND_CEILING, shift)}"


def rounded(value: float, way: str = ROUND_FLOOR, shift: int = 0, decimals: int = 3) -> str:
    """So many decimals, rounded down, the point then moved to the right by `shift`, with a proper minus."""
    # What a subtraction of doubles leaves behind the twelfth decimal must not move the third.
    found = Decimal(repr(round(float(value), 12))).quantize(Decimal(1).scaleb(-decimals), way).scaleb(shift)
    return str(found if found else abs(found)).replace("-", "−")


def _column(
    head: str,
    runs: Sequence[Figures],
    cell: Callable[[Figures], str],
    merit: Callable[[Figures], Share | float | None] | None = None,
    radius: float | None = None,
) -> Column:
    """A column; with a merit that several runs of one norm have, the highest ones above zero are marked."""
    merits = [merit(run) if merit else None for run in runs]
    values = [value.value if isinstance(value, Share) else value for value in merits]
    known = [value for value in values if value is not None]
    norms = {run.norm for run, value in zip(runs, values, strict=True) if value is not None}
    best = tuple(len(norms) == 1 < len(known) and value == max(known) > 0.0 for value in values)
    return Column(head, tuple(cell(run) for run in runs), best, radius)


def _at(radius: float, runs: Sequence[Figures]) -> Column:
    def share(run: Figures) -> Share | None:
        return run.certified_accuracy.get(radius)

    # A run that was asked for a larger radius only proves no more than that here; true labels are another question.
    certified = [run.question for run in runs if run.kind == "certify"]
    ranked = all(q.exact(radius) for q in certified) and len({q.against == "labels" for q in certified}) == 1
    return _column(radius_name(radius), runs, lambda run: percent(share(run)), share if ranked else None, radius)


def _acr(run: Figures) -> float | None:
    return run.acr


def _warning(runs: Sequence[Figures]) -> str | None:
    return question.warning([run.question for run in runs if run.kind == "certify"])


def _inputs(run: Figures) -> str:
    return f"{run.inputs} of {run.asked}" if run.inputs < run.asked else f"{run.inputs}"


def _curve_title(runs: Sequence[Figures]) -> str:
    norms = sorted({run.norm for run in runs if run.kind == "certify"})
    return f"certified accuracy (%) at radius, {' or '.join(norms)}, inputs in [0,1]"
