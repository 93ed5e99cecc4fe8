"""Runs side by side: as text, Markdown, LaTeX. A row is a run, a column a figure or a radius.

Shares are percentages. Rounding happens here and downwards. ACR stands only beside the radii it averages over. What a
reader must know of a run's question stands below the table; figures of different questions are not ranked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from certus.report import question
from certus.report.metrics import Figures, Share, radius_name
from certus.runs.exchange import rounded_down

if TYPE_CHECKING:
    from rich.console import RenderableType

UNKNOWN = "–"
MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~&])")
ESCAPED = r"\\\1"
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}


@dataclass(frozen=True)
class Column:
    """One column: its head, its cells, and which of them are best."""

    head: str
    cells: tuple[str, ...]
    best: tuple[bool, ...]
    radius: float | None = None  # None: not certified accuracy at a radius


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


def text(runs: Sequence[Figures], width: int = 100) -> RenderableType:
    """Tables for a terminal: the figures, then certified accuracy in as many blocks of radii as the width needs."""
    from rich.console import Group
    from rich.text import Text

    plain = [column for column in columns(runs) if column.radius is None]
    curve = [column for column in columns(runs) if column.radius is not None]
    names = [run.name for run in runs]
    room = max(4, (width - max(len(name) for name in [*names, "run"]) - 2) // 8)
    parts: list[RenderableType] = [_grid(names, plain)]
    for first in range(0, len(curve), room):
        parts += [Text(_curve_title(runs), style="italic"), _grid(names, curve[first : first + room])]
    if any(any(column.best) for column in [*plain, *curve]):
        parts.append(Text("* best of its column", style="dim"))
    return Group(*parts, *(Text(line) for line in notes(runs)))


def notes(runs: Sequence[Figures]) -> list[str]:
    """What was asked of each run that was not asked the usual question, and whether they compare."""
    said = [f"{_one_line(run.name)}: {line}" for run in runs for line in run.question.words]
    warned = _warning(runs)
    return [*said, *([warned] if warned else [])]


def text_table(runs: Sequence[Figures], width: int = 100) -> str:
    """The same as plain text."""
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        console.print(text(runs, width))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def markdown(runs: Sequence[Figures]) -> str:
    """A GitHub-flavoured table; the best of each column in bold."""
    shown = columns(runs)
    lines = [["run", *(column.head for column in shown)], [":--", *("--:" for _ in shown)]]
    for i, run in enumerate(runs):
        cells = [f"**{column.cells[i]}**" if column.best[i] else column.cells[i] for column in shown]
        lines.append([MARKDOWN.sub(ESCAPED, _one_line(run.name)), *cells])
    note = [_curve_title(runs), ""] if any(run.certified_accuracy for run in runs) else []
    below = ["", *(f"- {MARKDOWN.sub(ESCAPED, line)}" for line in notes(runs))] if notes(runs) else []
    return "\n".join([*note, *("| " + " | ".join(line) + " |" for line in lines), *below]) + "\n"


def latex(runs: Sequence[Figures]) -> str:
    """A booktabs tabular; the best of each column in bold."""
    shown = columns(runs)
    radii = sum(column.radius is not None for column in shown)
    lines = [f"% {_one_line(_curve_title(runs))}" if radii else "% runs side by side"]
    lines += [f"\\begin{{tabular}}{{l{'r' * len(shown)}}}", "\\toprule"]
    if radii:
        first = len(shown) - radii + 2
        lines.append(f"{'& ' * (first - 1)}\\multicolumn{{{radii}}}{{c}}{{{tex(_curve_title(runs))}}} \\\\")
        lines.append(f"\\cmidrule(lr){{{first}-{len(shown) + 1}}}")
    lines += [" & ".join(["run", *(tex(column.head) for column in shown)]) + " \\\\", "\\midrule"]
    for i, run in enumerate(runs):
        cells = [f"\\textbf{{{tex(c.cells[i])}}}" if c.best[i] else tex(c.cells[i]) for c in shown]
        lines.append(" & ".join([tex(run.name), *cells]) + " \\\\")
    lines.append("\\bottomrule")
    for line in notes(runs):
        wide = f"\\multicolumn{{{len(shown) + 1}}}{{p{{0.95\\linewidth}}}}"
        lines.append(f"{wide}{{\\footnotesize {tex(line)}}} \\\\")
    return "\n".join([*lines, "\\end{tabular}"]) + "\n"


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


def tex(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return "".join(LATEX.get(mark, mark) for mark in _one_line(text))


def _column(
    head: str,
    runs: Sequence[Figures],
    cell: Callable[[Figures], str],
    merit: Callable[[Figures], Share | float | None] | None = None,
    radius: float | None = None,
) -> Column:
    """A column; with a merit that several runs have, the highest ones above zero are marked."""
    merits = [merit(run) if merit else None for run in runs]
    values = [value.value if isinstance(value, Share) else value for value in merits]
    known = [value for value in values if value is not None]
    best = tuple(len(known) > 1 and value == max(known) > 0.0 for value in values)
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


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _grid(names: Sequence[str], shown: Sequence[Column]) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    marked = any(any(column.best) for column in shown)
    grid = Table(box=SIMPLE_HEAD, pad_edge=False)
    grid.add_column("run", overflow="fold")
    for column in shown:
        # The star hangs to the right of the digits, so that figures stay under each other.
        grid.add_column(column.head + (" " if marked else ""), justify="right", no_wrap=True)
    for i, name in enumerate(names):
        cells = [Text(c.cells[i] + ("*" if c.best[i] else " " if marked else "")) for c in shown]
        for cell, column in zip(cells, shown, strict=True):
            cell.stylize("bold" if column.best[i] else "")
        grid.add_row(Text(_one_line(name)), *cells)
    return grid
