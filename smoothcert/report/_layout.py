"""A table as text for a terminal, Markdown or LaTeX: rows with names, columns with heads, the best cells marked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~&])")
ESCAPED = r"\\\1"
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "σ": r"$\sigma$",
    "θ": r"$\theta$",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}
GAP = 4  # characters between columns of a terminal, with room for the mark of the best
LEAST = 16  # characters of a row's name that a terminal shows, however wide the columns are


@dataclass(frozen=True)
class Column:
    """One column: its head, its cells, and which of them are best."""

    head: str
    cells: tuple[str, ...]
    best: tuple[bool, ...]
    radius: float | None = None  # None: not a figure at a radius
    over: str = ""  # what stands over neighbouring columns together


@dataclass(frozen=True)
class Table:
    """Columns beside the names of their rows."""

    corner: str  # what the rows are
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()  # below it
    ranked: str = "column"  # within which the best cells are marked

    @property
    def titles(self) -> list[str]:
        """What stands over columns, each once."""
        return list(dict.fromkeys(column.over for column in self.columns if column.over))


def plain(head: str, cells: Sequence[str]) -> Column:
    """A column in which nothing is best."""
    return Column(head, tuple(cells), (False,) * len(cells))


def transposed(table: Table) -> Table:
    """Rows become columns; what stood over columns goes into the names of rows."""
    several, names = len(table.titles) > 1, _full_heads(table)
    columns = [
        Column(name, tuple(c.cells[i] for c in table.columns), tuple(c.best[i] for c in table.columns))
        for i, name in enumerate(table.names)
    ]
    said = () if several else tuple(f"numbers in the first column: {title}" for title in table.titles)
    notes = (*said, *table.notes)
    return replace(table, names=tuple(names), columns=tuple(columns), notes=notes, ranked="row")


def text(table: Table, width: int = 100) -> RenderableType:
    """For a terminal: first the columns under no title, then each title's, in as many blocks as the width needs."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for title in ["", *table.titles]:
        for block in _blocks(table, [column for column in table.columns if column.over == title], width):
            parts += [*([Text(title, style="italic")] if title else []), _grid(table, block)]
    if any(any(column.best) for column in table.columns):
        parts.append(Text(f"* best of its {table.ranked}", style="dim"))
    return Group(*parts, *(Text(line) for line in table.notes))


def text_of(table: Table, width: int = 100) -> str:
    """The same as plain text."""
    import io

    from rich.console import Console

    page = io.StringIO()
    Console(file=page, width=width, color_system=None).print(text(table, width))
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines()) + "\n"


def markdown(table: Table) -> str:
    """A GitHub-flavoured table; the best of each column in bold."""
    lines = [[table.corner, *map(_md, _full_heads(table))], [":--", *("--:" for _ in table.columns)]]
    for i, name in enumerate(table.names):
        cells = [f"**{column.cells[i]}**" if column.best[i] else column.cells[i] for column in table.columns]
        lines.append([_md(name), *cells])
    above = [f"{table.titles[0]}\n"] if len(table.titles) == 1 else []
    below = ["", *(f"- {_md(line)}" for line in table.notes)] if table.notes else []
    return "\n".join([*above, *("| " + " | ".join(line) + " |" for line in lines), *below]) + "\n"


def latex(table: Table) -> str:
    """A booktabs tabular; the best of each column in bold."""
    lines = [f"% {one_line('; '.join(table.titles) or table.corner)}"]
    lines += [f"\\begin{{tabular}}{{l{'r' * len(table.columns)}}}", "\\toprule", *_over(table)]
    lines += [" & ".join(tex(head) for head in [table.corner, *(c.head for c in table.columns)]) + " \\\\", "\\midrule"]
    for i, name in enumerate(table.names):
        cells = [f"\\textbf{{{tex(c.cells[i])}}}" if c.best[i] else tex(c.cells[i]) for c in table.columns]
        lines.append(" & ".join([tex(name), *cells]) + " \\\\")
    lines.append("\\bottomrule")
    for line in table.notes:
        wide = f"\\multicolumn{{{len(table.columns) + 1}}}{{p{{0.95\\linewidth}}}}"
        lines.append(f"{wide}{{\\footnotesize {tex(line)}}} \\\\")
    return "\n".join([*lines, "\\end{tabular}"]) + "\n"


def tex(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return "".join(LATEX.get(mark, mark) for mark in one_line(text))


def one_line(text: str) -> str:
    """Text without line breaks."""
    return " ".join(text.split())


def _full_heads(table: Table) -> list[str]:
    """Heads by themselves; with what stands over them, where there is more than one such title."""
    if len(table.titles) < 2:
        return [column.head for column in table.columns]
    return [": ".join(filter(None, (column.over, column.head))) for column in table.columns]


def _md(text: str) -> str:
    return MARKDOWN.sub(ESCAPED, one_line(text))


def _over(table: Table) -> list[str]:
    """The line of titles over columns, and the rules below them."""
    if not table.titles:
        return []
    cells, rules, at = [""], [], 2
    for title, columns in _runs(table.columns):
        cells += [f"\\multicolumn{{{columns}}}{{c}}{{{tex(title)}}}"] if title else [""] * columns
        rules += [f"\\cmidrule(lr){{{at}-{at + columns - 1}}}"] if title else []
        at += columns
    return [" & ".join(cells) + " \\\\", "".join(rules)]


def _runs(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Titles over neighbouring columns, and how many they are."""
    found: list[tuple[str, int]] = []
    for column in columns:
        if found and found[-1][0] == column.over:
            found[-1] = column.over, found[-1][1] + 1
        else:
            found.append((column.over, 1))
    return found


def _blocks(table: Table, columns: Sequence[Column], width: int) -> list[list[Column]]:
    """Neighbouring columns that fit beside the names; one at least."""
    names = min(max(map(len, [*table.names, table.corner])), max(LEAST, width // 3))
    blocks: list[list[Column]] = []
    room = 0
    for column in columns:
        wide = max(map(len, [column.head, *column.cells])) + GAP
        if not blocks or wide > room:
            blocks.append([])
            room = width - names - 2
        blocks[-1].append(column)
        room -= wide
    return blocks


def _grid(table: Table, shown: Sequence[Column]) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Grid
    from rich.text import Text

    marked = any(any(column.best) for column in shown)
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False)
    grid.add_column(table.corner, overflow="fold", min_width=min(LEAST, max(map(len, table.names))))
    for column in shown:
        # The star hangs to the right of the digits, so that figures stay under each other.
        grid.add_column(Text(column.head + (" " if marked else "")), justify="right", no_wrap=True)
    for i, name in enumerate(table.names):
        cells = [Text(c.cells[i] + ("*" if c.best[i] else " " if marked else "")) for c in shown]
        for cell, column in zip(cells, shown, strict=True):
            cell.stylize("bold" if column.best[i] else "")
        grid.add_row(Text(one_line(name)), *cells)
    return grid
