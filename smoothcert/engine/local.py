"""The engine on this machine: runs many procedures at once and carries out their draws in full batches.

The main thread packs batches and answers procedures; `workers` threads make noise, ask the network and count, each with
its own buffer. Which thread carries out a batch changes nothing: noise is keyed by the draw, and counts only add up.

Procedures ask for draws at their own pace; the network wants full batches. A `Waiting` job is one whose procedure has
asked and not been answered. A batch is filled from the oldest jobs first, so results come steadily and little is lost
in a crash; new inputs are begun only when those alive cannot fill a batch.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from smoothcert.bounds import check_draws
from smoothcert.contracts import PROBE, Answer, Counts, Draw, Engine, Job, Outcome, Stream, Tensor, batch_rows
from smoothcert.engine.batch_check import BatchChecked, FixedShape, check_batches, check_scores
from smoothcert.errors import SmoothcertError, require_room
from smoothcert.streams import check_seed

MOST_ALIVE = 1024  # jobs begun and not finished, when none of the kinds of draw fills a batch

KINDS: dict[Hashable, int] = {}  # numbers of the kinds of draw there have been: compared in every batch, hashed once


@dataclass(eq=False)
class Waiting:
    """A job, the draw it waits for, and what it has been given so far."""

    job: Job
    draw: Draw
    handed: int = 0  # rows of the draw already put into batches
    counted: int = 0  # rows of the draw whose votes have come back
    counts: Counts | None = None
    used: dict[str, int] = field(default_factory=dict)  # purpose → draws taken from that stream
    answers: list[Answer] = field(default_factory=list)
    seconds: float = 0.0
    kind: int = field(init=False)

    def __post_init__(self) -> None:
        self.kind = self._kind()

    @property
    def rows(self) -> int:
        return self.draw.draws - self.handed

    def _kind(self) -> int:
        """Jobs of one kind can share a batch: same network, same readout; noise may differ from row to row."""
        source = self.draw.source
        return KINDS.setdefault((id(source.classifier), source.readout, self.job.x.shape), len(KINDS))

    def take(self, rows: int) -> Segment:
        """Hand out the next rows of the pending draw, with the number of the first in its stream."""
        first = self.used.get(self.draw.purpose, 0)
        self.used[self.draw.purpose] = first + rows
        self.handed += rows
        return Segment(self, first, rows)

    @property
    def answered(self) -> bool:
        return self.counted == self.draw.draws

    def receive(self, counts: Counts, rows: int, seconds: float) -> None:
        """Votes of some rows of the pending draw, and the time they took."""
        self.counts = counts if self.counts is None else self.counts + counts
        self.counted += rows
        self.seconds += seconds

    def answer(self) -> Outcome | None:
        """Send the finished counts to the procedure; its result if that was the last draw."""
        counts = self.counts if self.counts is not None else np.zeros((1, 1), dtype=np.int64)
        kept = tuple(tuple(int(vote) for vote in column) for column in counts)
        self.answers.append(Answer(self.draw.purpose, self.draw.draws, kept))
        try:
            self.draw = self.job.steps.send(counts)
            self.handed, self.counted, self.counts, self.kind = 0, 0, None, self._kind()
        except StopIteration as end:
            return Outcome(self.job.index, end.value, tuple(self.answers), self.seconds)
        return None


class Segment(NamedTuple):
    """Consecutive draws of one job, side by side in a batch."""

    waiting: Waiting
    first: int
    rows: int


def full_kind(alive: Sequence[Waiting], batch: Callable[[Waiting], int]) -> Waiting | None:
    """A job of the oldest kind that can fill a batch of its rows; None if there is none."""
    missing: dict[int, int] = {}
    for waiting in alive:
        left = missing.get(waiting.kind)
        missing[waiting.kind] = left = (batch(waiting) if left is None else left) - waiting.rows
        if left <= 0:
            return waiting
    return None


def pack(alive: Sequence[Waiting], kind: int, batch: int) -> list[Segment]:
    """Fill one batch with draws of a kind, oldest job first."""
    segments: list[Segment] = []
    room = batch
    for waiting in alive:
        if waiting.kind == kind and (rows := min(waiting.rows, room)) > 0:
            segments.append(waiting.take(rows))
            room -= rows
        if room == 0:
            break
    return segments


class Done(NamedTuple):
    """A batch carried out: the counts of each segment, and the seconds that its noise, network and counting took."""

    segments: list[Segment]
    counts: list[Counts]
    seconds: dict[str, float]


@dataclass(eq=False)
class Local(Engine):
    """Batches of `batch` rows in one process; `advance` is told of each, `notes` is for the record."""

    batch: int | None = None  # None: by the size of an input
    seed: int = 0
    advance: Callable[[int], None] = lambda rows: None
    workers: int = 1
    notes: list[str] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=lambda: {"noise": 0.0, "forward": 0.0, "count": 0.0})
    _checked: dict[int, BatchChecked] = field(default_factory=dict)
    _own: threading.local = field(default_factory=threading.local)

    def __post_init__(self) -> None:
        if self.batch is not None:
            check_draws(self.batch, "batch", "the engine")
        check_draws(self.workers, "workers", "the engine")
        check_seed(self.seed)

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Outcomes as they are ready; jobs are begun in order, only as many as full batches need."""
        queue, alive = iter(jobs), list[Waiting]()
        if self.workers == 1:  # in this thread: a stranger's callable may not like another
            while segments := self._next_batch(alive, queue):
                yield from self._answer(self._execute(segments), alive)
            return
        flying: set[Future[Done]] = set()
        with ThreadPoolExecutor(self.workers, "smoothcert") as pool:
            while True:
                # One batch more than there are workers, so that none of them waits for the packing.
                while len(flying) <= self.workers and (segments := self._next_batch(alive, queue)):
                    flying.add(pool.submit(self._execute, segments))
                if not flying:
                    return
                landed, flying = wait(flying, return_when=FIRST_COMPLETED)
                for future in landed:
                    yield from self._answer(future.result(), alive)

    def _next_batch(self, alive: list[Waiting], queue: Iterator[Job]) -> list[Segment]:
        """The next full batch, beginning new jobs where those alive cannot fill one; empty when all is handed out."""
        while (first := full_kind(alive, self._rows)) is None and len(alive) < MOST_ALIVE:
            if (job := next(queue, None)) is None:
                break
            alive.append(Waiting(job, next(job.steps)))
            self._check(alive[-1])
        first = first or next((waiting for waiting in alive if waiting.rows), None)
        return pack(alive, first.kind, self._rows(first)) if first is not None else []

    def _answer(self, done: Done, alive: list[Waiting]) -> Iterator[Outcome]:
        """Bring a batch's counts to their procedures; outcomes of those that are finished."""
        total = sum(segment.rows for segment in done.segments)
        seconds = sum(done.seconds.values())
        for name, share in done.seconds.items():
            self.shares[name] += share
        self.advance(total)
        for (waiting, _, rows), counts in zip(done.segments, done.counts, strict=True):
            waiting.receive(counts, rows, seconds * rows / total)
            if waiting.answered:
                if (outcome := waiting.answer()) is None:
                    self._check(waiting)
                else:
                    alive.remove(waiting)
                    yield outcome

    def _rows(self, waiting: Waiting) -> int:
        """Rows of a batch of such jobs: the asked number, or the one that a fixed shape of the network dictates."""
        checked = self._checked.get(id(waiting.draw.source.classifier))
        if checked and isinstance(checked.call, FixedShape):
            return checked.call.rows
        return self.batch or batch_rows(waiting.job.x.shape)

    def _execute(self, segments: list[Segment]) -> Done:
        """Noise → scores → counts for one batch."""
        source = segments[0].waiting.draw.source
        checked = self._checked[id(source.classifier)]
        with torch.inference_mode():
            start = time.perf_counter()
            try:
                buffer = self._fill(segments, self._rows(segments[0].waiting))
                noise_done = time.perf_counter()
                # Always the whole buffer: a last, partial batch then has the shape of every other.
                scores = check_scores(checked.call(buffer), len(buffer))
            except SmoothcertError as error:
                raise type(error)(f"{_inputs(segments)}: {error}") from error
            forward_done = time.perf_counter()
            votes = source.readout(scores).numpy()
            counts, at, outcomes = [], 0, source.readout.outcomes(scores.shape[1])
            for _, _, rows in segments:
                counts.append(_count(votes[at : at + rows], outcomes))
                at += rows
        end = time.perf_counter()
        seconds = {"noise": noise_done - start, "forward": forward_done - noise_done, "count": end - forward_done}
        return Done(segments, counts, seconds)

    def _fill(self, segments: list[Segment], batch: int) -> Tensor:
        """Write every segment's noisy copies into this thread's one reused buffer."""
        shape = (batch, *segments[0].waiting.job.x.shape)
        buffer: Tensor | None = getattr(self._own, "buffer", None)
        if buffer is None or buffer.shape != shape:
            require_room("the engine", math.prod(shape), batch=batch)
            buffer = self._own.buffer = torch.zeros(shape)
        at = 0
        for waiting, first, rows in segments:
            draw, job = waiting.draw, waiting.job
            stream = Stream(self.seed, job.key, draw.purpose)
            draw.source.noise.fill(buffer[at : at + rows], job.x, stream, first)
            at += rows
        return buffer

    def _check(self, waiting: Waiting) -> None:
        """Look at each classifier once, on noisy copies of the first input that asks for it."""
        source, job = waiting.draw.source, waiting.job
        if id(source.classifier) in self._checked:
            return
        with torch.inference_mode():
            plain = batch_rows(job.x.shape)
            probe = torch.empty(max(plain, min(self.batch or plain, 1024)), *job.x.shape)
            source.noise.fill(probe, job.x, Stream(self.seed, job.key, PROBE), 0)
            try:
                checked = check_batches(source.classifier, probe, self.batch or plain)
            except SmoothcertError as error:
                raise type(error)(f"input {job.index}: {error}") from error
        self._checked[id(source.classifier)] = checked
        if checked.note and checked.note not in self.notes:
            self.notes.append(checked.note)


def _inputs(segments: list[Segment]) -> str:
    """The inputs of a batch, in words."""
    indices = sorted({segment.waiting.job.index for segment in segments})
    return f"input {indices[0]}" if len(indices) == 1 else f"among inputs {indices[0]} to {indices[-1]}"


def _count(votes: np.ndarray[Any, np.dtype[np.int64]], outcomes: int) -> Counts:
    """Outcome numbers [rows, columns] → how often each occurred [columns, outcomes]."""
    return np.stack([np.bincount(column, minlength=outcomes) for column in votes.T]).astype(np.int64, copy=False)
