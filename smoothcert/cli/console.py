"""What a command answers, on stdout: lines and tables that fit the terminal, or JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer.core import TyperGroup

from smoothcert.cli import panels
from smoothcert.progress import in_one_line, remark, spelled

if TYPE_CHECKING:
    from rich.console import Console


NARROWEST = 20  # columns; in fewer nothing can be read

Json = Annotated[bool, panels.means("--json", help="Print JSON.")]


class DefaultCommandGroup(TyperGroup):
    """Commands of which one is meant where none is named: `ensemble A B` is short for `ensemble make A B`."""

    default: ClassVar[str]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """With the command that is meant."""
        known = {*self.commands, *ctx.help_option_names}
        return super().parse_args(ctx, [self.default, *args] if args and args[0] not in known else args)


def columns() -> int | None:
    """The width of the terminal, or what COLUMNS says; None where there is neither, as in a file or a pipe."""
    told = os.environ.get("COLUMNS", "")
    if sys.stdout.isatty() or (told.isdecimal() and int(told[:6]) > 0):
        return max(NARROWEST, shutil.get_terminal_size().columns)
    return None


def put(text: str, end: str = "\n") -> None:
    """To stdout as it stands: for programs, and what is laid out already."""
    typer.echo(spelled(text) + end, nl=False)


def say(text: str) -> None:
    """Words to stdout, broken between words where a terminal would break within them; a path stays whole."""
    width = columns()
    put(text if width is None else "\n".join(broken(line, width) for line in text.split("\n")))


def broken(line: str, width: int) -> str:
    """One line as several of that width; those after the first stand two further in."""
    inner = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.fill(
        line, width, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )


def print_json(answer: Any) -> None:
    """To stdout; a number that JSON does not know is a bug and not a word."""
    put(json.dumps(answer, indent=2, ensure_ascii=False, allow_nan=False))


def wrote(*paths: object) -> None:
    for path in paths:
        remark(f"wrote {path}")


def problems(lines: Sequence[str], mark: str) -> None:
    """The first of what is wrong, each with a mark, and how many more there are."""
    for line in lines[:20]:
        say(f"{mark}  {in_one_line(line)}")
    if len(lines) > 20:
        say(f"… and {len(lines) - 20} more")


def console(width: int) -> Console:
    """Standard output, as wide as the terminal; so wide where there is none, as in a file or a pipe."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class HarmlessConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for part in super().render(renderable, options):
                yield part if part.control else Segment(spelled(part.text), part.style)

    return HarmlessConsole(highlight=False, width=columns() or width)


def print_grid(width: int, heads: Sequence[str], lines: Iterable[Sequence[str]], words: Sequence[str] = ()) -> None:
    """A plain table: the first column and those of words to the left, numbers to the right."""
    from smoothcert.report import render, section

    found = section.table_of(heads[0], heads[1:], [(line[0], line[1:]) for line in lines], words=words)
    page = console(width)
    page.print(render.text(found, page.width))
