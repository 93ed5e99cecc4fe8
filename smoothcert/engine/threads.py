"""Carries out batches on threads of this process: noise by numpy, any classifier, each thread with its own buffer.

The engine's own thread packs batches and answers procedures meanwhile. With one worker everything is done in that
thread: a stranger's callable may not like another.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from smoothcert.bounds import check_draws
from smoothcert.contracts import PROBE, Counts, Done, Executor, Job, Segment, Source, Stream, Tensor, batch_rows
from smoothcert.engine.batch_check import BatchChecked, FixedShape, check_batches, check_scores
from smoothcert.engine.segments import BatchPart, in_batches, inputs_of
from smoothcert.errors import SmoothcertError, require_room

SMALL = 2**10  # numbers of an input, up to which handing out a batch takes a part of its time worth saving
TOGETHER = 4  # so many batches of such inputs are handed out together


@dataclass(eq=False)
class Threads(Executor):
    """Batches of `batch` rows on `workers` threads; `shares` are the seconds that each kind of work took."""

    batch: int | None = None  # None: by the size of an input
    workers: int = 1
    notes: list[str] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=lambda: {"noise": 0.0, "forward": 0.0, "count": 0.0})
    _checked: dict[int, BatchChecked] = field(default_factory=dict)
    _own: threading.local = field(default_factory=threading.local)
    _pool: ThreadPoolExecutor | None = None
    _flying: set[Future[Done]] = field(default_factory=set)
    _next: list[tuple[int, Sequence[Segment]]] = field(default_factory=list)  # of one worker

    def __post_init__(self) -> None:
        if self.batch is not None:
            check_draws(self.batch, "batch", "the engine")
        check_draws(self.workers, "workers", "the engine")

    def room(self, source: Source, job: Job, left: int | None = None) -> int:
        """A batch, or several small ones; there is a parcel more than workers, so that none waits for the packing."""
        if self._next or len(self._flying) > self.workers:
            return 0
        if id(source.classifier) not in self._checked:
            self._check(source, job)
        small = job.x.numel() <= SMALL and left is None
        return self._rows(source, job) * (TOGETHER if small else 1)

    def submit(self, parcel: int, segments: Sequence[Segment]) -> None:
        if self.workers == 1:
            self._next.append((parcel, segments))
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.workers, "smoothcert")
        self._flying.add(self._pool.submit(self._execute, parcel, segments))

    def collect(self) -> Sequence[Done]:
        if self.workers == 1:
            found = [self._execute(*given) for given in self._next]
            self._next.clear()
        else:
            landed, self._flying = wait(self._flying, return_when=FIRST_COMPLETED)
            found = [future.result() for future in landed]
        for done in found:
            for name, seconds in done.seconds.items():
                self.shares[name] += seconds
        return found

    def close(self) -> None:
        self._next.clear()
        self._flying.clear()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _rows(self, source: Source, job: Job) -> int:
        """Rows of such a batch: the asked number, or the one that a fixed shape of the network dictates."""
        call = self._checked[id(source.classifier)].call
        return call.rows if isinstance(call, FixedShape) else self.batch or batch_rows(job.x.shape)

    def _execute(self, parcel: int, segments: Sequence[Segment]) -> Done:
        """Noise → scores → outcomes, batch by batch, then counts."""
        source, job, *_ = segments[0]
        call, rows = self._checked[id(source.classifier)].call, self._rows(source, job)
        seconds, votes, outcomes = {"noise": 0.0, "forward": 0.0, "count": 0.0}, [], 0
        with torch.inference_mode():
            end = time.perf_counter()
            for parts in in_batches(segments, rows):
                start = end
                try:
                    buffer, used = self._fill(parts, rows)
                    noise_done = time.perf_counter()
                    # Always the whole buffer: a last, partial batch then has the shape of every other.
                    scores = check_scores(call(buffer), rows)
                except SmoothcertError as error:
                    raise type(error)(f"{inputs_of([part.segment for part in parts])}: {error}") from error
                forward_done = time.perf_counter()
                votes.append(source.readout(scores).numpy()[:used])
                outcomes = source.readout.outcomes(scores.shape[1])
                end = time.perf_counter()
                seconds["noise"] += noise_done - start
                seconds["forward"] += forward_done - noise_done
                seconds["count"] += end - forward_done
            counts = _counted(votes[0] if len(votes) == 1 else np.concatenate(votes), segments, outcomes)
        seconds["count"] += time.perf_counter() - end
        return Done(parcel, counts, seconds, rows * len(votes))

    def _fill(self, parts: Sequence[BatchPart], batch: int) -> tuple[Tensor, int]:
        """Write noisy copies into this thread's one reused buffer: it, and how many rows of it are new."""
        shape = (batch, *parts[0].segment.job.x.shape)
        buffer: Tensor | None = getattr(self._own, "buffer", None)
        if buffer is None or buffer.shape != shape:
            require_room("the engine", math.prod(shape), batch=batch)
            buffer = self._own.buffer = torch.zeros(shape)
        at = 0
        for _, (source, job, stream, first, rows) in parts:
            source.noise.fill(buffer[at : at + rows], job.x, stream, first)
            at += rows
        return buffer, at

    def _check(self, source: Source, job: Job) -> None:
        """Look at each classifier once, on noisy copies of the first input that asks for it."""
        with torch.inference_mode():
            plain = batch_rows(job.x.shape)
            probe = torch.empty(max(plain, min(self.batch or plain, 1024)), *job.x.shape)
            source.noise.fill(probe, job.x, Stream(0, job.key, PROBE), 0)
            try:
                checked = check_batches(source.classifier, probe, self.batch or plain)
            except SmoothcertError as error:
                raise type(error)(f"input {job.index}: {error}") from error
        self._checked[id(source.classifier)] = checked
        if checked.note and checked.note not in self.notes:
            self.notes.append(checked.note)


def _counted(votes: np.ndarray[Any, np.dtype[np.int64]], segments: Sequence[Segment], outcomes: int) -> list[Counts]:
    """Outcome numbers [rows, columns] → for each segment, how often each occurred [columns, outcomes]."""
    if len(segments) == 1:
        return [np.array([np.bincount(column, minlength=outcomes) for column in votes.T])]
    columns, number = votes.shape[1], np.repeat(np.arange(len(segments)), [segment.rows for segment in segments])
    cell = (number[:, None] * columns + np.arange(columns)) * outcomes + votes
    counts = np.bincount(cell.ravel(), minlength=len(segments) * columns * outcomes)
    return list(counts.reshape(len(segments), columns, outcomes))
