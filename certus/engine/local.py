"""The engine on this machine: runs many procedures at once and carries out their draws in full batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from certus.bounds import check_draws
from certus.contracts import Counts, Job, Outcome, Stream
from certus.engine.packing import Segment, Waiting, full_kind, pack
from certus.engine.settle import ROWS, FixedShape, Settled, check_scores, settle
from certus.errors import CertusError
from certus.streams import check_seed

if TYPE_CHECKING:
    from torch import Tensor

MOST_ALIVE = 1024  # jobs begun and not finished, when none of the kinds of draw fills a batch


def _ignore(rows: int) -> None:
    return None


@dataclass(eq=False)
class Local:
    """Batches of `batch` rows in one process; `advance` is told of each, `notes` is for the record."""

    batch: int = ROWS
    seed: int = 0
    advance: Callable[[int], None] = _ignore
    notes: list[str] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=lambda: {"noise": 0.0, "forward": 0.0, "count": 0.0})
    _settled: dict[int, Settled] = field(default_factory=dict)
    _buffer: Tensor | None = None

    def __post_init__(self) -> None:
        check_draws(self.batch, "batch", "the engine")
        check_seed(self.seed)

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Outcomes as they are ready; jobs are begun in order, only as many as full batches need."""
        import torch

        waiting_jobs = iter(jobs)
        alive: list[Waiting] = []
        more = True
        with torch.inference_mode():
            while True:
                while more and len(alive) < MOST_ALIVE and full_kind(alive, self._rows(alive)) is None:
                    job = next(waiting_jobs, None)
                    if more := job is not None:
                        alive.append(Waiting(job, next(job.steps)))
                if not alive:
                    return
                rows = self._rows(alive)
                kind = full_kind(alive, rows) or alive[0].kind
                self._execute(pack(alive, kind, rows), rows)
                finished = [waiting for waiting in alive if waiting.rows == 0]
                for waiting in finished:
                    if (outcome := waiting.answer()) is not None:
                        alive.remove(waiting)
                        yield outcome

    def _rows(self, alive: list[Waiting]) -> int:
        """Rows of a batch: the asked number, or the one a fixed shape dictates."""
        settled = self._settled.get(id(alive[0].draw.source.classifier)) if alive else None
        return settled.call.rows if settled and isinstance(settled.call, FixedShape) else self.batch

    def _execute(self, segments: list[Segment], batch: int) -> None:
        """Noise → scores → counts for one batch."""
        start = time.perf_counter()
        source = segments[0].waiting.draw.source
        try:
            settled = self._settle(segments[0])
            buffer = self._fill(segments, batch)
            noise_done = time.perf_counter()
            # Always the whole buffer: a last, partial batch then has the shape of every other.
            scores = check_scores(settled.call(buffer), len(buffer))
        except CertusError as error:
            raise type(error)(f"{_inputs(segments)}: {error}") from error
        forward_done = time.perf_counter()
        votes = source.ballot(scores).numpy()
        at = 0
        for waiting, _, rows in segments:
            waiting.receive(_count(votes[at : at + rows], source.ballot.outcomes(scores.shape[1])))
            at += rows
        end = time.perf_counter()
        for waiting, _, rows in segments:
            waiting.seconds += (end - start) * rows / at
        self.shares["noise"] += noise_done - start
        self.shares["forward"] += forward_done - noise_done
        self.shares["count"] += end - forward_done
        self.advance(at)

    def _fill(self, segments: list[Segment], batch: int) -> Tensor:
        """Write every segment's noisy copies into the one reused buffer."""
        import torch

        shape = (batch, *segments[0].waiting.job.x.shape)
        if self._buffer is None or self._buffer.shape != shape:
            self._buffer = torch.zeros(shape)
        at = 0
        for waiting, first, rows in segments:
            draw, job = waiting.draw, waiting.job
            stream = Stream(self.seed, job.index, draw.purpose)
            draw.source.noise.fill(self._buffer[at : at + rows], job.x, stream, first)
            at += rows
        return self._buffer

    def _settle(self, segment: Segment) -> Settled:
        """Look at each classifier once, on noisy copies of the first input that asks for it."""
        import torch

        source, job = segment.waiting.draw.source, segment.waiting.job
        if id(source.classifier) not in self._settled:
            probe = torch.empty(max(ROWS, min(self.batch, 1024)), *job.x.shape)
            source.noise.fill(probe, job.x, Stream(self.seed, job.index, "probe"), 0)
            settled = settle(source.classifier, probe, self.batch)
            self._settled[id(source.classifier)] = settled
            if settled.note and settled.note not in self.notes:
                self.notes.append(settled.note)
        return self._settled[id(source.classifier)]


def _inputs(segments: list[Segment]) -> str:
    """The inputs of a batch, in words."""
    indices = sorted({segment.waiting.job.index for segment in segments})
    return f"input {indices[0]}" if len(indices) == 1 else f"among inputs {indices[0]} to {indices[-1]}"


def _count(votes: np.ndarray[Any, np.dtype[np.int64]], outcomes: int) -> Counts:
    """Outcome numbers [rows, columns] → how often each occurred [columns, outcomes]."""
    return np.stack([np.bincount(column, minlength=outcomes) for column in votes.T]).astype(np.int64, copy=False)
