"""What is said beside an answer, on stderr, by commands and in Python: remarks, and progress that goes when it is over.

Names come from anywhere, and a terminal obeys the control characters in them: all that is shown passes `spelled`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

SOON = 2.0  # seconds in which nobody needs to be told anything
QUIET = 60.0  # seconds between lines where there is no terminal to draw a bar on
SELDOM = 10.0  # the same in a notebook, where lines are cheap
WINDOW = 600.0  # seconds that a rate is taken over: a pause, or a slower part, is soon forgotten

SHORTEST, LONGEST_BAR = 10, 40  # characters of a bar
LONGEST = 600  # characters of a line about what is wrong; a name may have any number
# Control characters but line breaks and tabs, marks that turn the direction of text, and bytes that are not UTF-8.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def spelled(text: str) -> str:
    """The text with what a terminal would obey in JSON's spelling."""
    return OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def in_one_line(text: str) -> str:
    """The text as one line of bearable length."""
    line = spelled(" ".join(text.split()))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 200]} … {line[-150:]}"


def remark(line: str) -> None:
    """A line beside the answer, on stderr; nothing where there is nothing to say."""
    if line:
        print(f"smoothcert: {in_one_line(line)}", file=sys.stderr)


@dataclass(frozen=True)
class Watcher:
    """Told how a run goes."""

    started: Callable[[int, int, int], None] = lambda inputs, done, cap: (
        None
    )  # inputs in all, already done, most draws each
    rows: Callable[[int], None] = lambda rows: None
    finished: Callable[[int], None] = lambda draws: None
    choosing: Callable[[int], None] = lambda copies: None  # copies that a search for noise levels has looked at
    remembering: Callable[[int, int], None] = lambda done, inputs: None


@contextlib.contextmanager
def slowly(doing: str, say: Callable[[str], None]) -> Iterator[None]:
    """Say what is being done, where it takes longer than a moment and shows nothing."""
    timer = threading.Timer(SOON, say, [doing])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def bar(title: str, unit: str) -> Iterator[Callable[..., None]]:
    """A bar; the value given updates it: update(done, total, text), where text defaults to number and rate.

    It comes after a moment. In a log file, and in a notebook without ipywidgets, it is a line now and then.
    """
    from rich.console import Console

    console, pace, begun = Console(stderr=True), _Pace(unit), time.monotonic()
    if not console.is_terminal and not (console.is_jupyter and importlib.util.find_spec("ipywidgets")):
        yield _lines(title, unit, SELDOM if console.is_jupyter else QUIET)
        return
    progress = fitted_progress(console)
    task = progress.add_task(title, total=None, text=unit)

    def update(done: float, total: float, text: str = "") -> None:
        if total != progress.tasks[0].total:
            progress.reset(task)
        progress.update(task, completed=done, total=total, text=text or pace.told(done, total))
        if not progress.live.is_started and time.monotonic() - begun >= SOON:
            progress.start()

    try:
        yield update
    finally:
        progress.stop()


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


def _lines(title: str, unit: str, apart: float = QUIET) -> Callable[..., None]:
    """The same as plain lines, so many seconds apart."""
    pace, last = _Pace(unit), time.monotonic()

    def update(done: float, total: float, text: str = "") -> None:
        nonlocal last
        now, rate = time.monotonic(), pace.rate(done, total)
        if now - last >= apart and rate > 0.0:
            last, told = now, text or pace.told(done, total)
            left = (total - done) / rate
            print(f"{title}: {done / total:.0%} {told}, {left:.0f} s left", file=sys.stderr, flush=True)

    return update


@contextlib.contextmanager
def run_bar(title: str) -> Iterator[Watcher]:
    """A bar for a run: a finished input counts for the most draws it could have taken, so the bar never goes back."""
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
