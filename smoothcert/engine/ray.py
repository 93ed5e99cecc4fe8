"""The engine on many processes and machines: inputs go out in small units to the workers of a Ray cluster.

The driver hands a unit to whoever is free and collects what comes back; a worker builds what it needs once, answers
unit after unit, and reports several times a minute, so that finished inputs are kept even when their unit is not.
What a dead worker had not reported is handed out again. Noise is keyed by input and draw, so who answers an input, and
how often it was begun, changes nothing. What a unit is made of, and what answers it, is told by the caller.
"""

from __future__ import annotations

import functools
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from smoothcert.contracts import Outcome
from smoothcert.engine.cluster import Cluster, import_ray
from smoothcert.errors import SmoothcertError

MOST = 16  # inputs of a unit: enough to pack batches across inputs, few enough to lose and to balance
TRIES = 5  # workers that may die over one input before it is taken for the cause
PAUSE = 0.5  # seconds between two reports of a worker; longer where there are many
REPORTS = 200  # reports a second that the driver should have to read at most


class Answering(Protocol):
    """What a worker builds once and then asks, unit after unit."""

    notes: list[str]

    def run(self, items: Sequence[tuple[int, Any]], advance: Callable[[int], None]) -> Iterator[Outcome]:
        """Outcomes of (index, payload) items, as they are ready; `advance` is told of every batch."""


class Report(NamedTuple):
    """What a worker has to tell since its last report."""

    rows: int
    outcomes: list[Outcome]
    notes: tuple[str, ...]


@dataclass(eq=False)
class Hired:
    """A worker, and what it was given and has not answered."""

    actor: Any
    left: set[int]
    prepared: bool


@dataclass(eq=False)
class Ray:
    """Hands out inputs on a connected cluster; `advance` is told of every batch, `notes` is for the record."""

    cluster: Cluster
    advance: Callable[[int], None]
    notes: list[str] = field(default_factory=list)
    _waiting: deque[int] = field(default_factory=deque)
    _free: list[Any] = field(default_factory=list)
    _busy: dict[Any, Hired] = field(default_factory=dict)  # by the stream of reports
    _deaths: Counter[int] = field(default_factory=Counter)  # by input; −1: while preparing

    def run(
        self, make: Callable[[], Answering], indices: Sequence[int], payload: Callable[[int], Any]
    ) -> Iterator[Outcome]:
        """Outcomes as they arrive; `make` is carried to each worker and called there, payloads are made here."""
        ray = import_ray(self.cluster.address)
        workers = min(self.cluster.size(ray), len(indices))
        # Ray's own retries are off: it would repeat a whole unit, and with it the inputs that were already reported.
        kind = ray.remote(num_cpus=self.cluster.threads, max_restarts=0, max_task_retries=0)(Worker)
        new = functools.partial(kind.remote, ray.put(make), max(PAUSE, workers / REPORTS))
        self._waiting = deque(indices)
        if indices:
            self.notes.append(f"drawn by {workers} Ray workers with {self.cluster.threads} threads each")
        try:
            for _ in range(workers):
                self._hire(new())
            while self._waiting or any(hired.left for hired in self._busy.values()):
                self._hand_out(workers, payload)
                yield from self._next(ray, new)
        finally:
            for gone in [*self._free, *(hired.actor for hired in self._busy.values())]:
                if ray.is_initialized():  # a generator may be closed after its cluster
                    ray.kill(gone)

    def _next(self, ray: Any, new: Callable[[], Any]) -> Iterator[Outcome]:
        """Wait until somebody has something to tell, or is found dead."""
        if not self._busy:
            raise SmoothcertError("Ray must have workers that live; the last one died while it was preparing")
        stream = ray.wait(list(self._busy), num_returns=1)[0][0]
        if (report := self._hear(ray, stream)) is not None:
            yield from self._take(self._busy[stream], report)
        elif stream in self._busy:
            lost = self._busy.pop(stream)
            ray.kill(lost.actor)  # it may only have been out of reach
            self._bury(lost, new)

    def _hire(self, actor: Any) -> None:
        """An empty unit makes a worker prepare itself; only one that has done so is given inputs."""
        self._busy[actor.answer.remote([])] = Hired(actor, set(), prepared=False)

    def _hand_out(self, workers: int, payload: Callable[[int], Any]) -> None:
        """A unit for everyone who is free, the smaller the fewer are left, so that all finish together."""
        while self._free and self._waiting:
            size = max(1, min(MOST, len(self._waiting) // (2 * workers)))
            unit = [self._waiting.popleft() for _ in range(size)]
            actor = self._free.pop()
            self._busy[actor.answer.remote([(index, payload(index)) for index in unit])] = Hired(actor, set(unit), True)

    def _hear(self, ray: Any, stream: Any) -> Report | None:
        """The next report; None where a unit is finished (its worker is free) or its worker has died (still busy)."""
        try:
            report: Report = ray.get(next(stream))
            return report
        except StopIteration:
            if not self._busy[stream].left:
                self._free.append(self._busy.pop(stream).actor)
        except ray.exceptions.RayTaskError as error:
            # The work itself failed, and would fail again: its own error is the message, not Ray's account of it.
            raise error.cause if isinstance(error.cause, SmoothcertError) else error from None
        except ray.exceptions.RayError:
            pass
        return None

    def _take(self, hired: Hired, report: Report) -> Iterator[Outcome]:
        self.advance(report.rows)
        self.notes += [note for note in report.notes if note not in self.notes]
        for outcome in report.outcomes:
            hired.left.discard(outcome.index)
            yield outcome

    def _bury(self, hired: Hired, another: Callable[[], Any]) -> None:
        """Put back what a dead worker had, first in the queue, and hire another one."""
        for index in sorted(hired.left, reverse=True) if hired.prepared else [-1]:
            self._deaths[index] += 1
            if index >= 0:
                self._waiting.appendleft(index)
            if index >= 0 and self._deaths[index] >= TRIES:
                raise SmoothcertError(
                    f"input {index}: {TRIES} Ray workers died while they had it; each must have enough memory, "
                    "and the classifier must not end its process"
                )
        if hired.prepared or self._deaths[-1] < TRIES:
            self._hire(another())


class Worker:
    """The far end. One thread builds and asks the classifier, for ever the same; the actor's own thread reports."""

    def __init__(self, make: Callable[[], Answering], pause: float) -> None:
        self.make = make
        self.pause = pause
        self.hand = ThreadPoolExecutor(1, "smoothcert")
        self.answering: Answering | None = None

    def answer(self, items: list[tuple[int, Any]]) -> Iterator[Report]:
        """Reports on a unit, one at the end and one a pause before; what went wrong is raised after the last."""
        rows, outcomes = deque[int](), deque[Outcome]()
        work = self.hand.submit(self._work, items, rows, outcomes)
        finished = False
        while not finished:
            finished = bool(wait([work], timeout=self.pause).done)
            notes = tuple(self.answering.notes) if self.answering is not None else ()
            yield Report(sum(_emptied(rows)), list(_emptied(outcomes)), notes)
        work.result()

    def _work(self, items: list[tuple[int, Any]], rows: deque[int], outcomes: deque[Outcome]) -> None:
        if self.answering is None:
            self.answering = self.make()
        if items:
            for outcome in self.answering.run(items, rows.append):
                outcomes.append(outcome)


def _emptied(queue: deque[Any]) -> Iterator[Any]:
    """What is in the queue now; the other thread may go on adding."""
    for _ in range(len(queue)):
        yield queue.popleft()
