"""Sections and tables as text for a terminal, Markdown, LaTeX, HTML and JSON: each written once, for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.foreign import harmless, one_line
from smoothcert.report.section import Column, Section, Table, full_heads

if TYPE_CHECKING:
    import jinja2
    from rich.console import RenderableType
    from rich.text import Text

HERE = Path(__file__).parent
MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$])")
CELL = re.compile(r"([\\`*_{}\[\]<>#!|~&$])")  # figures keep their signs and brackets
LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    "–": "--", "−": "$-$", "±": r"$\pm$", "×": r"$\times$", "≠": r"$\neq$", "≤": r"$\leq$", "≥": r"$\geq$",
    "∞": r"$\infty$", "ℓ": r"$\ell$", "₀": "$_0$", "₁": "$_1$", "₂": "$_2$", "…": r"\ldots{}", "·": r"$\cdot$",
    "α": r"$\alpha$", "β": r"$\beta$", "σ": r"$\sigma$", "θ": r"$\theta$",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}  # fmt: skip
GAP = 4  # characters between columns of a terminal, with room for the mark of the best
LEAST = 16  # characters of a row's name that a terminal shows in a line, if that is no more than a third of it


def text(shown: Section | Table, width: int = 100) -> RenderableType:
    """For a terminal: the columns under each title together, in as many blocks as the width needs."""
    from rich.console import Group

    if isinstance(shown, Table):
        return Group(*_table_text(shown, width))
    if shown.brief is not None or shown.empty:
        return Group(*map(_words, shown.brief or ()))
    own = shown.tables or shown.notes
    parts: list[RenderableType] = [_words(shown.title, "italic")] if shown.title and own else []
    for table in shown.tables:
        parts += _table_text(table, width)
    return Group(*parts, *map(_words, shown.notes), *(text(part, width) for part in shown.parts))


def plain_text(shown: Section | Table, width: int = 100) -> str:
    """The same without colours and weights."""
    return _plain(text(shown, width), width)


def laid_out(parts: Sequence[str | Table], width: int) -> str:
    """Lines and tables below each other, in no more than the width; '' is an empty line."""
    return "".join(_plain(_words(part) if isinstance(part, str) else text(part, width), width) for part in parts)


def _plain(shown: RenderableType, width: int) -> str:
    import io

    from rich.console import Console

    page = io.StringIO()
    Console(file=page, width=width, color_system=None).print(shown)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines()) + "\n"


def markdown(shown: Section | Table) -> str:
    """GitHub-flavoured tables; the best of each column in bold."""
    if isinstance(shown, Section):
        title = [f"### {_md(shown.title)}\n"] if shown.title else []
        notes = ["\n".join(f"- {_md(line)}" for line in shown.notes) + "\n"] if shown.notes else []
        return "\n".join([*title, *map(markdown, shown.tables), *notes, *map(markdown, shown.parts)])
    lines = [[_md(shown.corner), *map(_md, full_heads(shown))], [":--", *("--:" for _ in shown.columns)]]
    for i, name in enumerate(shown.names):
        cells = [(CELL.sub(r"\\\1", one_line(column.cells[i])), column.best[i]) for column in shown.columns]
        lines.append([_md(name), *(f"**{cell}**" if best else cell for cell, best in cells)])
    above = [f"{_md(shown.titles[0])}\n"] if len(shown.titles) == 1 else []
    below = ["", *(f"- {_md(line)}" for line in shown.notes)] if shown.notes else []
    return "\n".join([*above, *("| " + " | ".join(line) + " |" for line in lines), *below]) + "\n"


def latex(shown: Section | Table) -> str:
    """Booktabs tabulars; the best of each column in bold."""
    if isinstance(shown, Section):
        return "\n".join([*map(latex, shown.tables), *map(latex, shown.parts)])
    lines = [f"% {one_line('; '.join(shown.titles) or shown.corner)}"]
    lines += [f"\\begin{{tabular}}{{l{'r' * len(shown.columns)}}}", "\\toprule", *_over(shown)]
    lines += [" & ".join([_first(shown.corner), *(tex(c.head) for c in shown.columns)]) + " \\\\", "\\midrule"]
    for i, name in enumerate(shown.names):
        cells = [f"\\textbf{{{tex(c.cells[i])}}}" if c.best[i] else tex(c.cells[i]) for c in shown.columns]
        lines.append(" & ".join([_first(name), *cells]) + " \\\\")
    lines.append("\\bottomrule")
    for line in shown.notes:
        wide = f"\\multicolumn{{{len(shown.columns) + 1}}}{{p{{0.95\\linewidth}}}}"
        lines.append(f"{wide}{{\\footnotesize {tex(line)}}} \\\\")
    return "\n".join([*lines, "\\end{tabular}"]) + "\n"


def html(section: Section) -> str:
    """A whole <section> for a page; nothing where there is nothing to show."""
    return "" if section.empty else fill("section.html.jinja", section=section)


def json(sections: Sequence[Section], number: int) -> dict[str, Any]:
    """What sections add to the object of one run, by its number."""
    return {name: value for section in sections for name, value in section.data.get(number, {}).items()}


def fill(template: str, **values: Any) -> str:
    """A template beside this file as text: values are escaped, a name that is not given is an error."""
    return _templates().get_template(template).render(**values)


def beside(name: str) -> str:
    """A file beside this one as it stands: a page's style, its script."""
    return (HERE / name).read_text(encoding="utf-8")


def tex(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return "".join(LATEX.get(mark, mark) for mark in one_line(text))


def _first(text: str) -> str:
    """The first cell of a row: after a rule or a row's end, LaTeX takes a [ or * for an option of these."""
    found = tex(text)
    return f"{{}}{found}" if found.startswith(("[", "*")) else found


def _harmless_value(value: Any) -> Any:
    """Of whatever a template puts in; what is marked as safe is ours."""
    return harmless(value) if type(value) is str else value


def remark(text: str, layout: str) -> str:
    """A line above or below tables: text, md or latex, where it is a comment."""
    line = one_line(text)
    return {"text": line, "md": _md(line), "latex": f"% {line}"}[layout]


def sentence(text: str) -> str:
    """A note as a sentence of its own."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


@lru_cache(maxsize=1)
def _templates() -> jinja2.Environment:
    import jinja2

    from smoothcert.report.plots import inline_svg

    world = jinja2.Environment(
        loader=jinja2.FileSystemLoader([HERE, HERE / "sections"]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_harmless_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    world.filters["sentence"] = sentence
    world.globals |= {"svg": inline_svg, "spans": spans}
    return world


def _md(text: str) -> str:
    return MARKDOWN.sub(r"\\\1", one_line(text))


def _over(table: Table) -> list[str]:
    """The line of titles over columns, and the rules below them."""
    if not table.titles:
        return []
    cells, rules, at = [""], [], 2
    for title, columns in spans(table):
        wide = len(columns)
        cells += [f"\\multicolumn{{{wide}}}{{c}}{{{tex(title)}}}"] if title else [""] * wide
        rules += [f"\\cmidrule(lr){{{at}-{at + wide - 1}}}"] if title else []
        at += wide
    return [" & ".join(cells) + " \\\\", "".join(rules)]


def spans(table: Table) -> list[tuple[str, list[Column]]]:
    """Titles over neighbouring columns, and these columns."""
    return [(title, list(columns)) for title, columns in groupby(table.columns, key=lambda column: column.over)]


def _words(text: str, style: str = "") -> Text:
    """For a terminal; what stands there is neither markup nor a command to it."""
    from rich.text import Text

    return Text(harmless(text.replace("\n", " ")), style=style)


def _table_text(table: Table, width: int) -> Iterator[RenderableType]:
    for title in dict.fromkeys(column.over for column in table.columns):
        for block in _blocks(table, [column for column in table.columns if column.over == title], width):
            if title:
                yield _words(title, "italic")
            yield _grid(table, block, width)
    if any(any(column.best) for column in table.columns):
        yield _words(f"* best of its {table.ranked}", "dim")
    yield from map(_words, table.notes)


def _blocks(table: Table, columns: Sequence[Column], width: int) -> list[list[Column]]:
    """Neighbouring columns that fit beside the names; one at least."""
    blocks: list[list[Column]] = []
    room = 0
    for column in columns:
        wide = _wide(column) + GAP
        if not blocks or wide > room:
            blocks.append([])
            room = _room(table, width)
        blocks[-1].append(column)
        room -= wide
    return blocks


def _room(table: Table, width: int) -> int:
    """Characters beside the names."""
    return width - min(max(map(len, [*table.names, table.corner])), width // 3) - 2


def _wide(column: Column) -> int:
    return max(len(line) for cell in [column.head, *column.cells] for line in cell.split("\n"))


def _grid(table: Table, shown: Sequence[Column], width: int) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Grid
    from rich.text import Text

    marked = any(any(column.best) for column in shown)
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False)
    least = min(LEAST, width // 3, max(map(len, table.names), default=0))
    grid.add_column(_words(table.corner), overflow="fold", min_width=least)
    for column in shown:
        # The star hangs to the right of the digits, so that figures stay under each other. Only what is too wide for
        # a line by itself is broken, between words.
        side, whole = "left" if column.words else "right", _wide(column) + GAP <= _room(table, width)
        head = Text("\n").join(map(_words, (column.head + (" " if marked else "")).split("\n")))
        grid.add_column(head, justify=side, no_wrap=whole, overflow="fold")  # type: ignore[arg-type]
    for i, name in enumerate(table.names):
        cells = [Text(harmless(c.cells[i]) + ("*" if c.best[i] else " " if marked else "")) for c in shown]
        for cell, column in zip(cells, shown, strict=True):
            cell.stylize("bold" if column.best[i] else "")
        grid.add_row(Text(one_line(name)), *cells)
    return grid
