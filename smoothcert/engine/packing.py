"""Which draws go into the next batch.

Procedures ask for draws at their own pace; the network wants full batches. A `Waiting` job is one whose procedure has
asked and not been answered. A batch is filled from the oldest jobs first, so results come steadily and little is lost
in a crash; new inputs are begun only when those alive cannot fill a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from smoothcert.contracts import Answer, Counts, Draw, Job, Outcome

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
