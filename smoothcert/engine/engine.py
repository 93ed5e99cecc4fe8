"""The engine: runs many procedures at once, and has their draws carried out in full parcels by an executor.

Procedures ask for draws at their own pace; an executor wants full batches. A parcel is filled from the oldest jobs
first, so results come steadily and little is lost in a crash; new inputs are begun only when those alive cannot fill
one. Who carries out a parcel, and in what order, changes nothing: noise is keyed by the draw, and counts only add up.

**Ahead of a look.** A scheme that looks often says what it will ask for next, unless this look decides. Where nobody
waits and no input is left to be begun, idle workers draw that: at most as many draws as the input has had, so that at
most half of its draws are for nothing. Those beyond the look that decided are thrown away, never counted.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from smoothcert.contracts import (
    Answer,
    Counts,
    Done,
    Draw,
    Executor,
    Job,
    Outcome,
    Segment,
    Source,
    Stream,
)
from smoothcert.engine.threads import Threads
from smoothcert.streams import check_seed

MOST_WAITING = 1024  # jobs that wait to be handed out, when none of the kinds of draw fills a parcel
SOME = 64  # jobs that are looked at to tell how much could be drawn ahead
AHEAD = 256  # draws that may be made ahead of a look, however few the input has had: a partial batch is filled for free


@dataclass(eq=False, slots=True)
class Look:
    """Draws that a procedure has asked for, or will ask for unless it decides before."""

    draws: int
    first: int  # the number of its first draw in the stream
    handed: int = 0  # draws put into parcels
    counted: int = 0  # draws whose votes have come back
    counts: Counts | None = None
    dropped: bool = False

    @property
    def left(self) -> int:
        return self.draws - self.handed

    def receive(self, counts: Counts, rows: int) -> None:
        self.counts = counts if self.counts is None else self.counts + counts
        self.counted += rows


class Piece(NamedTuple):
    """Consecutive draws of one look, on their way in a parcel."""

    waiting: Waiting
    look: Look
    first: int
    rows: int


@dataclass(eq=False)
class Waiting:
    """A job, the draw it waits for, and what it has been given so far."""

    job: Job
    age: int
    draw: Draw
    look: Look
    kind: Kind
    seed: int
    ahead: deque[Look] = field(default_factory=deque)  # in the order in which they would be asked for
    used: dict[str, int] = field(default_factory=dict)  # purpose → draws taken from that stream
    answers: list[Answer] = field(default_factory=list)
    seconds: float = 0.0
    finished: bool = False

    def take(self, look: Look, most: int) -> Piece:
        """Hand out the next rows of a look."""
        rows, first = min(look.left, most), look.first + look.handed
        look.handed += rows
        return Piece(self, look, first, rows)

    @property
    def allowance(self) -> int:
        """Draws that may yet be made ahead: as many as it has had, for they may be for nothing."""
        return max(AHEAD, self.look.first) - sum(look.handed for look in self.ahead) if len(self.draw.ahead) else 0

    def foresee(self, room: int) -> Iterator[Piece]:
        """Rows of the looks to come."""
        room = min(room, self.allowance)
        for number, draws in enumerate(self.draw.ahead):
            if room <= 0:
                return
            if number == len(self.ahead):
                last = self.ahead[-1] if self.ahead else self.look
                self.ahead.append(Look(int(draws), last.first + last.draws))
            if self.ahead[number].left:
                piece = self.take(self.ahead[number], room)
                room -= piece.rows
                yield piece

    def answer(self) -> Outcome | None:
        """Send finished counts to the procedure, which asks again; its result if that was the last draw."""
        counts = self.look.counts
        if counts is None:
            raise RuntimeError("a look was answered that had no draws")
        self.used[self.draw.purpose] = self.look.first + self.look.draws
        self.answers.append(Answer(self.draw.purpose, self.draw.draws, tuple(map(tuple, counts.tolist()))))
        try:
            draw = self.job.steps.send(counts)
        except StopIteration as end:
            return Outcome(self.job.index, end.value, tuple(self.answers), self.seconds)
        same = draw.source is self.draw.source and draw.purpose == self.draw.purpose
        if same and self.ahead and self.ahead[0].draws == draw.draws:
            self.look = self.ahead.popleft()
        else:
            self.look = Look(draw.draws, self.used.get(draw.purpose, 0))
        self.draw = draw
        return None

    @property
    def unfinished(self) -> list[Answer]:
        """What has been counted of the look that it waits for."""
        if self.look.counts is None:
            return []
        return [Answer(self.draw.purpose, self.look.counted, tuple(map(tuple, self.look.counts.tolist())))]

    def forget(self) -> int:
        """Throw away what was drawn ahead: how many draws."""
        lost = 0
        for look in self.ahead:
            look.dropped = True
            lost += look.handed
        self.ahead.clear()
        return lost


@dataclass(eq=False)
class Kind:
    """Jobs whose draws can share a batch: same network, readout and shape; noise may differ from row to row."""

    source: Source
    job: Job
    rows: int = 0  # that are asked for and not handed out
    queue: list[tuple[int, Waiting]] = field(default_factory=list)  # a heap of those that wait, oldest job first
    spare: list[tuple[int, Waiting]] = field(default_factory=list)  # the same of those that have said what comes next

    def push(self, waiting: Waiting) -> None:
        """A job that has asked: it waits, or all it asked for is under way."""
        if waiting.look.left:
            self.rows += waiting.look.left
            heapq.heappush(self.queue, (waiting.age, waiting))
        elif len(waiting.draw.ahead):
            heapq.heappush(self.spare, (waiting.age, waiting))

    def take(self, room: int) -> list[Piece]:
        """Rows of the oldest jobs, as many as there is room for."""
        pieces: list[Piece] = []
        while room and self.queue:
            waiting = self.queue[0][1]
            if waiting.finished:
                heapq.heappop(self.queue)  # it was cancelled
                continue
            pieces.append(waiting.take(waiting.look, room))
            room -= pieces[-1].rows
            self.rows -= pieces[-1].rows
            if not waiting.look.left:
                heapq.heappop(self.queue)
                self.push(waiting)
        return pieces

    def take_ahead(self, room: int) -> list[Piece]:
        """Rows that the oldest jobs will ask for, unless they decide before."""
        pieces: list[Piece] = []
        while room and self.spare:
            waiting = self.spare[0][1]
            if waiting.kind is not self or waiting.look.left or waiting.finished or waiting.allowance <= 0:
                heapq.heappop(self.spare)  # it comes back with its next answer
                continue
            more = list(waiting.foresee(room))
            if not more:
                heapq.heappop(self.spare)
            pieces += more
            room -= sum(piece.rows for piece in more)
        return pieces


@dataclass(eq=False)
class Engine:
    """`advance` is told of every parcel's rows; `notes` is for the record, `wasted` counts draws thrown away.

    `passed` counts rows that went through a network, those included that only fill up a batch.
    """

    executor: Executor = field(default_factory=Threads)
    seed: int = 0
    advance: Callable[[int], None] = lambda rows: None
    wasted: int = 0
    passed: int = 0
    _kinds: dict[Hashable, Kind] = field(default_factory=dict)
    _parcels: dict[int, list[Piece]] = field(default_factory=dict)  # that are under way
    _alive: dict[int, Waiting] = field(default_factory=dict)  # by the index of the job
    _begun: int = 0
    _sent: int = 0

    def __post_init__(self) -> None:
        check_seed(self.seed)

    @property
    def notes(self) -> list[str]:
        return self.executor.notes

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Outcomes as they are ready; jobs are begun in order, only as many as full parcels need."""
        try:
            yield from self.run_open(iter(jobs))
        finally:
            self.close()

    def run_open(self, jobs: Iterator[Job]) -> Iterator[Outcome]:
        """The same, until nothing is left to do now; more jobs may come later, and the executor is kept for them.

        `jobs` is asked again after it had none, so that new ones join those that are under way.
        """
        while True:
            while pieces := self._next_parcel(jobs):
                self._send(pieces)
            if not self._parcels:
                return
            for done in self.executor.collect():
                yield from self._receive(done)

    def cancel(self, index: int) -> Outcome | None:
        """Draw no more for a job: what was counted so far, without a result; None where it is not under way."""
        waiting = self._alive.pop(index, None)
        if waiting is None:
            return None
        waiting.kind.rows -= waiting.look.left
        waiting.look.dropped = True
        self.wasted += waiting.look.handed - waiting.look.counted + waiting.forget()
        waiting.finished = True
        waiting.job.steps.close()
        return Outcome(index, None, (*waiting.answers, *waiting.unfinished), waiting.seconds)

    def close(self) -> None:
        """Forget what is under way."""
        self._kinds.clear()
        self._alive.clear()
        self._parcels.clear()
        self.executor.close()

    def _next_parcel(self, queue: Iterator[Job]) -> list[Piece]:
        """The next one; empty where the executor has enough to do, or everything is handed out."""
        while True:
            waiting = sorted((kind for kind in self._kinds.values() if kind.queue), key=lambda kind: kind.queue[0][0])
            for kind in waiting or list(self._kinds.values())[:1]:
                room = self.executor.room(kind.source, kind.job)
                if not room:
                    return []
                if kind.rows >= room:
                    return kind.take(room)
            if sum(len(kind.queue) for kind in waiting) >= MOST_WAITING:
                return self._last_parcel(ahead=False)
            if (job := next(queue, None)) is None:
                return self._last_parcel(ahead=True)
            self._begin(job)

    def _last_parcel(self, ahead: bool) -> list[Piece]:
        """What is left of a kind, then draws ahead of looks."""
        kinds = sorted(self._kinds.values(), key=lambda kind: kind.queue[0][0] if kind.queue else math.inf)
        left = sum(kind.rows for kind in kinds)
        if ahead:  # of some, for where there are many each has enough to do
            left += sum(waiting.allowance for kind in kinds for _, waiting in kind.spare[:SOME])
        for kind in kinds:
            room = self.executor.room(kind.source, kind.job, left)
            pieces = kind.take(room)
            if ahead:
                pieces += kind.take_ahead(room - sum(piece.rows for piece in pieces))
            if pieces:
                return pieces
        return []

    def _begin(self, job: Job) -> None:
        draw = next(job.steps)
        self._begun += 1
        seed = self.seed if job.seed is None else check_seed(job.seed)
        waiting = Waiting(job, self._begun, draw, Look(draw.draws, 0), self._kind(draw.source, job), seed)
        self._alive[job.index] = waiting
        waiting.kind.push(waiting)

    def _kind(self, source: Source, job: Job) -> Kind:
        key = (id(source.classifier), source.readout, job.x.shape)
        if key not in self._kinds:
            self._kinds[key] = Kind(source, job)
        return self._kinds[key]

    def _send(self, pieces: list[Piece]) -> None:
        self._sent += 1
        self._parcels[self._sent] = pieces
        segments = [
            Segment(
                piece.waiting.draw.source,
                piece.waiting.job,
                Stream(piece.waiting.seed, piece.waiting.job.key, piece.waiting.draw.purpose),
                piece.first,
                piece.rows,
            )
            for piece in pieces
        ]
        self.executor.submit(self._sent, segments)

    def _receive(self, done: Done) -> Iterator[Outcome]:
        """Bring a parcel's counts to their procedures; outcomes of those that are finished."""
        pieces = self._parcels.pop(done.parcel)
        rows_in_all = sum(piece.rows for piece in pieces)
        seconds = sum(done.seconds.values()) / rows_in_all
        self.passed += done.rows or rows_in_all
        self.advance(sum(piece.rows for piece in pieces if not piece.look.dropped))
        for (waiting, look, _, rows), counts in zip(pieces, done.counts, strict=True):
            if look.dropped:
                continue
            look.receive(counts, rows)
            waiting.seconds += seconds * rows
            if look is waiting.look and look.counted == look.draws and (outcome := self._answer(waiting)) is not None:
                yield outcome

    def _answer(self, waiting: Waiting) -> Outcome | None:
        """Answer as many looks as have been counted; the outcome, if the job is finished by that."""
        while waiting.look.counted == waiting.look.draws:
            source = waiting.draw.source
            outcome, answered = waiting.answer(), waiting.look
            if outcome is not None:
                self.wasted += waiting.forget()
                waiting.finished = True
                self._alive.pop(waiting.job.index, None)
                return outcome
            if answered.handed == 0:  # it was not foreseen, and nothing else that was will be asked for
                self.wasted += waiting.forget()
            if waiting.draw.source is not source:
                waiting.kind = self._kind(waiting.draw.source, waiting.job)
        waiting.kind.push(waiting)
        return None
