"""Progress on the terminal: rate, time left and what is being done, on stderr, gone when it is over."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from certus.runs.certify import Watcher


@contextlib.contextmanager
def bar(title: str, unit: str) -> Iterator[Callable[..., None]]:
    """A bar; the value given updates it: update(done, total, text)."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}% {task.fields[text]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None, text=unit)

        def update(done: float, total: float, text: str = "") -> None:
            progress.update(task, completed=done, total=total, text=text or unit)

        yield update


@contextlib.contextmanager
def run_bar(title: str) -> Iterator[Watcher]:
    """A bar for a run: finished inputs count for the most draws they could have taken, so the bar never runs backwards."""
    import time

    from certus.runs.certify import Watcher

    inputs = finished = cap = drawn = settled = before = 0
    start = time.monotonic()

    with bar(title, "inputs") as update:

        def show() -> None:
            # `settled` draws belong to finished inputs; the rest to the inputs under way.
            progress = (finished - before) * cap + min(drawn - settled, cap * (inputs - finished))
            rate = drawn / max(time.monotonic() - start, 1e-9)
            update(progress, max(1, (inputs - before) * cap), f"{finished}/{inputs} inputs, {rate:,.0f} draws/s")

        def started(all_inputs: int, done: int, most: int) -> None:
            nonlocal inputs, finished, before, cap
            inputs, finished, before, cap = all_inputs, done, done, most
            show()

        def rows(number: int) -> None:
            nonlocal drawn
            drawn += number
            show()

        def one_more(draws: int) -> None:
            nonlocal finished, settled
            finished += 1
            settled += draws
            show()

        yield Watcher(started, rows, one_more)
