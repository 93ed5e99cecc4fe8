"""What a command shows: answers on stdout; remarks on stderr, and progress that is gone when it is over.

Names come from anywhere, and a terminal obeys the control characters in them: all that is shown passes `spelled`.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import sys
import textwrap
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from smoothcert.runs.certify import Watcher

QUIET = 60.0  # seconds between lines where there is no terminal to draw a bar on
WINDOW = 600.0  # seconds that a rate is taken over: a pause, or a slower part, is soon forgotten

SHORTEST, LONGEST_BAR = 10, 40  # characters of a bar
NARROWEST = 20  # columns; in fewer nothing can be read

LONGEST = 600  # characters of a line about what is wrong; a name may have any number
# Control characters but line breaks and tabs, marks that turn the direction of text, and bytes that are not UTF-8.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def spelled(text: str) -> str:
    """The text with what a terminal would obey in JSON's spelling."""
    return OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def in_one_line(text: str) -> str:
    """The text as one line of bearable length."""
    line = spelled(" ".join(text.split()))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 200]} … {line[-150:]}"


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


def remark(line: str) -> None:
    """A line beside the answer, on stderr; nothing where there is nothing to say."""
    if line:
        print(f"smoothcert: {in_one_line(line)}", file=sys.stderr)


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


@contextlib.contextmanager
def bar(title: str, unit: str) -> Iterator[Callable[..., None]]:
    """A bar; the value given updates it: update(done, total, text), where text defaults to number and rate.

    In a log file it is a line a minute.
    """
    from rich.console import Console

    console, pace = Console(stderr=True), _Pace(unit)
    if not console.is_terminal:
        yield _lines(title, unit)
        return
    with fitted_progress(console) as progress:
        task = progress.add_task(title, total=None, text=unit)

        def update(done: float, total: float, text: str = "") -> None:
            if total != progress.tasks[0].total:
                progress.reset(task)
            progress.update(task, completed=done, total=total, text=text or pace.told(done, total))

        yield update


def fitted_progress(console: Console) -> Progress:
    """Progress in one line, as wide as the terminal is at that moment."""
    from rich.progress import Progress, Task, TimeRemainingColumn
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    left = TimeRemainingColumn(compact=True, elapsed_when_finished=True)

    class FittedProgress(Progress):
        def make_tasks_table(self, tasks: Iterable[Task]) -> Table:
            table = Table.grid(padding=(0, 1))
            for task in tasks:
                told = f"{task.percentage:>3.0f}% {task.fields['text']}", left.render(task).plain
                title, room, rest = fitted(console.width, task.description, *told)
                drawn = [ProgressBar(task.total, task.completed, width=room)] if room else []
                table.add_row(*([title] if title else []), *drawn, rest)
            return table

    return FittedProgress(console=console, transient=True)


def fitted(width: int, title: str, told: str, left: str) -> tuple[str, int, str]:
    """What one line of progress has room for: its title, the length of its bar, and its words.

    The bar goes first, then the end of what is told, such as a rate, then the title; percent and time left stay.
    """
    room = width - len(title) - len(told) - len(left) - 4
    if room >= SHORTEST:
        return title, min(room, LONGEST_BAR), f"{told} {left}"
    parts = told.split(", ")
    parts[:1] = parts[0].split("% ")
    parts[0] += "%"
    while len(parts) > 1 and len(title) + len(_told(parts)) + len(left) + 3 > width:
        parts.pop()
    rest = f"{_told(parts)} {left}"
    return title[: max(0, width - len(rest) - 2)], 0, rest[:width]


def _told(parts: Sequence[str]) -> str:
    return " ".join(filter(None, (parts[0], ", ".join(parts[1:]))))


@contextlib.contextmanager
def counting(title: str, unit: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar for a job of known length; the value given is told of each piece that is done."""
    done = 0
    with bar(title, unit) as update:

        def advance(more: int) -> None:
            nonlocal done
            done += more
            update(done, total)

        yield advance


class _Pace:
    """How fast a job goes, over the last WINDOW seconds of what this process did.

    Another total means another part, as of a run the memory's after the draws.
    """

    def __init__(self, unit: str) -> None:
        self.unit, self.total = unit, math.nan
        self.marks: deque[tuple[float, float]] = deque(maxlen=10)  # moments, and what was done by then

    def rate(self, done: float, total: float) -> float:
        now = time.monotonic()
        if total != self.total:
            self.total = total
            self.marks.clear()
        if not self.marks or now - self.marks[-1][0] >= WINDOW / 10:
            self.marks.append((now, done))
        then, before = self.marks[0]
        return (done - before) / max(now - then, 1e-9)

    def told(self, done: float, total: float) -> str:
        rate = self.rate(done, total)
        return f"{done:,.0f}/{total:,.0f} {self.unit}, {rate:{',.0f' if rate >= 10.0 else '.2g'}} {self.unit}/s"


def _lines(title: str, unit: str) -> Callable[..., None]:
    """The same as plain lines."""
    pace, last = _Pace(unit), time.monotonic()

    def update(done: float, total: float, text: str = "") -> None:
        nonlocal last
        now, rate = time.monotonic(), pace.rate(done, total)
        if now - last >= QUIET and rate > 0.0:
            last, told = now, text or pace.told(done, total)
            left = (total - done) / rate
            print(f"{title}: {done / total:.0%} {told}, {left:.0f} s left", file=sys.stderr, flush=True)

    return update


@contextlib.contextmanager
def run_bar(title: str) -> Iterator[Watcher]:
    """A bar for a run: a finished input counts for the most draws it could have taken, so the bar never goes back."""
    from smoothcert.runs.certify import Watcher

    with bar(title, "inputs") as update:
        state = _RunState(update)
        yield Watcher(state.started, state.rows, state.one_more, state.choosing, state.remembering)


class _RunState:
    """How far a run is."""

    def __init__(self, update: Callable[..., None]) -> None:
        self.update = update
        self.start = time.monotonic()
        self.inputs = self.before = self.finished = self.cap = 0
        self.drawn = self.settled = 0  # draws in all; draws of inputs that are finished

    def started(self, inputs: int, done: int, cap: int) -> None:
        self.inputs, self.before, self.finished, self.cap = inputs, done, done, cap
        self.show()

    def rows(self, number: int, doing: str = "") -> None:
        self.drawn += number
        self.show(doing)

    def choosing(self, copies: int) -> None:
        self.rows(copies, ", choosing noise levels")

    def remembering(self, done: int, inputs: int) -> None:
        self.update(done, inputs, f"memory: {done}/{inputs} inputs")

    def one_more(self, draws: int) -> None:
        self.finished += 1
        self.settled += draws
        self.show()

    def show(self, doing: str = "") -> None:
        under_way = min(self.drawn - self.settled, self.cap * (self.inputs - self.finished))
        done = (self.finished - self.before) * self.cap + max(0, under_way)
        rate = self.drawn / max(time.monotonic() - self.start, 1e-9)
        text = f"{self.finished}/{self.inputs} inputs, {rate:,.0f} draws/s{doing}"
        self.update(done, max(1, (self.inputs - self.before) * self.cap), text)
