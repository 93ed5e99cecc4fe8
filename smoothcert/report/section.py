"""What a report is made of: sections, which hold tables, figures and notes. `render` turns them into text, Markdown,
LaTeX, HTML and JSON; a section says nothing about how it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True)
class Column:
    """One column: its head, its cells, and which of them are best. What follows a line break in a cell is small."""

    head: str
    cells: tuple[str, ...]
    best: tuple[bool, ...]
    radius: float | None = None  # None: not a figure at a radius
    over: str = ""  # what stands over neighbouring columns together
    words: bool = False  # not numbers: a terminal shows them to the left


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


@dataclass(frozen=True)
class Figure:
    """A picture: drawn only where it is shown, with words for who cannot see it."""

    draw: Callable[[], Drawing]
    alt: str
    caption: str = ""
    title: str = ""


@dataclass(frozen=True)
class Section:
    """One part of a report, shown in this order: title, lead, notes, tables, figures, then smaller sections."""

    name: str  # its id on a page; smaller sections are numbered
    title: str = ""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    lead: str = ""  # what the tables and figures are, for a page
    parts: tuple[Section, ...] = ()  # smaller sections, of one run each for example
    data: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)  # number of a run → fields of its JSON object
    brief: tuple[str, ...] | None = None  # what a terminal shows instead; (): nothing
    html: str = ""  # what only a page can show, after the figures: pictures, controls

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show; data alone are for JSON."""
        return not (
            self.tables or self.figures or self.notes or self.html or any(not part.empty for part in self.parts)
        )


def plain(head: str, cells: Sequence[str], over: str = "") -> Column:
    """A column in which nothing is best."""
    return Column(head, tuple(cells), (False,) * len(cells), over=over)


def table_of(
    corner: str,
    heads: Sequence[str],
    rows: Sequence[tuple[str, Sequence[str]]],
    *notes: str,
    words: Sequence[str] = (),
) -> Table:
    """A table from its rows, each a name and cells, in which nothing is best; `words`: heads of columns of words."""
    columns = [
        replace(plain(head, [cells[i] for _, cells in rows]), words=head in words) for i, head in enumerate(heads)
    ]
    return Table(corner, tuple(name for name, _ in rows), tuple(columns), notes)


def transposed(table: Table) -> Table:
    """Rows become columns; what stood over columns goes into the names of rows."""
    columns = [
        Column(name, tuple(c.cells[i] for c in table.columns), tuple(c.best[i] for c in table.columns))
        for i, name in enumerate(table.names)
    ]
    said = () if len(table.titles) > 1 else tuple(f"numbers in the first column: {title}" for title in table.titles)
    names, notes = tuple(full_heads(table)), (*said, *table.notes)
    return replace(table, names=names, columns=tuple(columns), notes=notes, ranked="row")


def full_heads(table: Table) -> list[str]:
    """Heads by themselves; with what stands over them, where there is more than one such title."""
    if len(table.titles) < 2:
        return [column.head for column in table.columns]
    return [": ".join(filter(None, (column.over, column.head))) for column in table.columns]
