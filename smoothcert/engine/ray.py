"""Carries out parcels on many processes and machines: the workers of a Ray cluster, each with an executor of its own.

The driver keeps the procedures and hands parcels to whoever is free; a worker builds the model once, keeps the inputs
that it was sent, and answers with counts. Parcels take about half a second, longer where there are many workers, so
that the driver is busy for less than half of its time; every worker has a second one waiting. What a dead worker had is
handed out again.
"""

from __future__ import annotations

import contextlib
import math
import queue
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smoothcert.contracts import Classifier, Done, Executor, Job, Noise, Segment, Source, Stream, Tensor, batch_rows
from smoothcert.engine.cluster import Cluster, import_ray
from smoothcert.engine.worker import Workbench, Worker
from smoothcert.errors import SmoothcertError

DEPTH = 2  # parcels that a worker has: one under way, one waiting
SPAN = 0.5  # seconds that a parcel should take
COST = 0.001  # seconds of the driver for a parcel (benchmarks/ray_scaling.py): it is to be busy for half of its time
FIRST = 4  # batches of a worker's first parcel
GROWTH = 8  # how much larger the next one may be
KEPT = 2**28  # bytes of inputs that a worker keeps
TRIES = 5  # workers that may die over one parcel before it is taken for the cause


@dataclass(eq=False)
class Hired:
    """A worker as the driver sees it."""

    actor: Any
    dead: bool = False
    parcels: dict[int, Sequence[Segment]] = field(default_factory=dict)  # in the order in which they are carried out
    kept: OrderedDict[int, None] = field(default_factory=OrderedDict)  # keys of inputs that it has


@dataclass(eq=False)
class Ray(Executor):
    """Parcels on a connected cluster. `make` is carried to each worker and called there.

    A classifier cannot be sent: `parts` are the driver's, and a worker has the same ones in the same order.
    """

    cluster: Cluster
    make: Callable[[], Workbench]
    parts: Sequence[Classifier]
    notes: list[str] = field(default_factory=list)
    _hired: list[Hired] = field(default_factory=list)
    # Those that can take a parcel, by how many they have: with a thousand of them nobody may look at each.
    _free: list[dict[Hired, None]] = field(default_factory=lambda: [{} for _ in range(DEPTH)])
    _under_way: int = 0  # parcels
    _again: deque[tuple[int, Sequence[Segment]]] = field(default_factory=deque)  # what dead workers had
    _events: queue.SimpleQueue[tuple[Hired, int, Future[Any]]] = field(default_factory=queue.SimpleQueue)
    _speeds: dict[int, float] = field(default_factory=dict)  # rows a second of one worker, by classifier
    _largest: dict[int, int] = field(default_factory=dict)  # rows of the largest parcel so far, by classifier
    _deaths: Counter[int] = field(default_factory=Counter)  # by parcel; 0: while preparing
    _new: Callable[[], Any] | None = None

    def room(self, source: Source, job: Job, left: int | None = None) -> int:
        """Rows for about SPAN seconds of a worker; near the end an equal share of what is left."""
        self._start()
        self._send_again()
        while not any(self._free):
            if self._under_way:
                return 0
            self._hear()
            self._send_again()
        batch = batch_rows(job.x.shape)
        part = id(source.classifier)
        largest, speed, workers = self._largest.get(part, 0), self._speeds.get(part, 0.0), len(self._hired)
        rows = speed * max(SPAN, 2 * COST * workers)
        rows = max(min(rows, GROWTH * largest), FIRST * batch if not largest else batch)
        if left is not None:
            if left < speed * COST * workers and self._under_way > workers / 2:
                return 0  # more is coming: the driver would hand out crumbs, and do nothing else
            rows = min(rows, left / workers)
        return max(1, math.ceil(rows / batch)) * batch

    def submit(self, parcel: int, segments: Sequence[Segment]) -> None:
        self._send(self._freest(), parcel, segments)

    def collect(self) -> Sequence[Done]:
        found = [self._hear()]
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._hear(wait=False))
        self._send_again()
        return [done for done in found if done is not None]

    def close(self) -> None:
        ray = import_ray(self.cluster.address)
        for hired in self._hired:
            if ray.is_initialized() and not hired.dead:  # a generator may be closed after its cluster
                ray.kill(hired.actor)
        self._hired.clear()
        self._again.clear()
        self._free = [{} for _ in range(DEPTH)]
        self._under_way = 0
        self._events = queue.SimpleQueue()  # what is still told is of nobody's interest

    def choose(self, chunks: Iterable[Sequence[tuple[Tensor, Stream]]]) -> Iterator[list[Noise]]:
        """Each input's own noise, chunk by chunk in order, found by the workers; some chunks are under way ahead."""
        self._start()
        under_way: deque[tuple[Sequence[tuple[Tensor, Stream]], Any]] = deque()
        for turn, chunk in enumerate(chunks):
            under_way.append((chunk, self._ask_to_choose(chunk, turn)))
            if len(under_way) > DEPTH * len(self._hired):
                yield self._chosen(*under_way.popleft())
        while under_way:
            yield self._chosen(*under_way.popleft())

    def _ask_to_choose(self, chunk: Sequence[tuple[Tensor, Stream]], turn: int) -> Any:
        living = [hired for hired in self._hired if not hired.dead]
        return living[turn % len(living)].actor.choose.remote([(x.numpy(), stream) for x, stream in chunk])

    def _chosen(self, chunk: Sequence[tuple[Tensor, Stream]], reference: Any) -> list[Noise]:
        ray = import_ray(self.cluster.address)
        for turn in range(TRIES):
            try:
                found: list[Noise] = ray.get(reference)
                return found
            except ray.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, SmoothcertError) else error from None
            except ray.exceptions.RayError:
                reference = self._ask_to_choose(chunk, turn)
        raise SmoothcertError(f"{TRIES} Ray workers died while they chose a noise level; each must have enough memory")

    def _start(self) -> None:
        if self._hired:
            return
        ray = import_ray(self.cluster.address)
        hands = self.cluster.hands(ray)
        # Ray's own retries are off: it would repeat parcels whose counts have already come.
        options = {"num_cpus": hands.threads, "num_gpus": int(hands.gpus), "max_restarts": 0, "max_task_retries": 0}
        kind, make = ray.remote(**options)(Worker), ray.put(self.make)
        self._new = lambda: kind.remote(make)
        self.notes.append(f"drawn by {hands.words}")
        for _ in range(hands.number):
            self._hire()

    def _hire(self) -> None:
        """A new worker prepares itself; only one that has done so is given parcels."""
        if self._new is not None:
            hired = Hired(self._new())
            self._hired.append(hired)
            self._listen(hired, 0, hired.actor.prepare.remote())

    def _listen(self, hired: Hired, parcel: int, reference: Any) -> None:
        events = self._events  # those of now: after `close` nobody listens to these
        reference.future().add_done_callback(lambda future: events.put((hired, parcel, future)))

    def _send(self, hired: Hired, parcel: int, segments: Sequence[Segment]) -> None:
        """A parcel with those of its inputs that the worker does not have; beyond KEPT it forgets the oldest."""
        new: dict[int, Tensor] = {}
        for segment in segments:
            if segment.stream.input not in hired.kept:
                new[segment.stream.input] = segment.job.x
            hired.kept[segment.stream.input] = None
            hired.kept.move_to_end(segment.stream.input)
        most = max(len(segments), KEPT // (4 * segments[0].job.x.numel()))
        forgotten = [hired.kept.popitem(last=False)[0] for _ in range(len(hired.kept) - most)]
        part = next(number for number, one in enumerate(self.parts) if one is segments[0].source.classifier)
        ordered = [
            (part, source.noise, source.readout, stream, job.index, first, rows)
            for source, job, stream, first, rows in segments
        ]
        # One array for all: Ray handles each separately.
        inputs = (list(new), np.stack([x.numpy() for x in new.values()])) if new else None
        hired.parcels[parcel] = segments
        self._under_way += 1
        self._place(hired, len(hired.parcels) - 1)
        self._listen(hired, parcel, hired.actor.carry_out.remote(inputs, forgotten, ordered))

    def _send_again(self) -> None:
        while self._again and any(self._free):
            self._send(self._freest(), *self._again.popleft())

    def _freest(self) -> Hired:
        """A worker with the fewest parcels."""
        return next(hired for free in self._free for hired in free)

    def _place(self, hired: Hired, before: int | None) -> None:
        """Keep the list of those who can take a parcel, after a change of one's parcels."""
        if before is not None and before < DEPTH:
            self._free[before].pop(hired, None)
        if not hired.dead and len(hired.parcels) < DEPTH:
            self._free[len(hired.parcels)][hired] = None

    def _hear(self, wait: bool = True) -> Done | None:
        """The next thing that somebody tells: counts, that it is prepared, or that it is dead."""
        hired, parcel, future = self._events.get() if wait else self._events.get_nowait()
        error = future.exception()
        if error is not None:
            self._failed(hired, error)
            return None
        told = future.result()
        self.notes += [note for note in told.notes if note not in self.notes]
        if parcel == 0:
            self._place(hired, None)
            return None
        if (segments := hired.parcels.pop(parcel, None)) is None:
            return None  # it was taken for dead, and another has the parcel
        self._under_way -= 1
        self._place(hired, len(hired.parcels) + 1)
        rows = sum(segment.rows for segment in segments)
        part = id(segments[0].source.classifier)
        self._largest[part] = max(rows, self._largest.get(part, 0))
        self._speeds[part] = rows / max(told.elapsed, 1e-6)
        return Done(parcel, told.counts, told.seconds)

    def _failed(self, hired: Hired, error: BaseException) -> None:
        """Work that failed would fail again: its own error is the message. What a dead worker had goes to another."""
        ray = import_ray(self.cluster.address)
        if isinstance(error, ray.exceptions.RayTaskError):
            cause = getattr(error, "cause", None)
            raise cause if isinstance(cause, SmoothcertError) else error
        if not isinstance(error, ray.exceptions.RayError):
            raise error
        if not hired.dead:
            self._bury(hired)

    def _bury(self, hired: Hired) -> None:
        hired.dead = True
        self._hired.remove(hired)
        self._place(hired, len(hired.parcels))
        self._under_way -= len(hired.parcels)
        import_ray(self.cluster.address).kill(hired.actor)  # it may only have been out of reach
        guilty = next(iter(hired.parcels), 0)  # the first is the one that was under way
        self._deaths[guilty] += 1
        if self._deaths[guilty] >= TRIES:
            if guilty == 0:
                raise SmoothcertError(f"Ray must have workers that live; {TRIES} died while they were preparing")
            indices = sorted({segment.job.index for segment in hired.parcels[guilty]})
            whose = f"input {indices[0]}" if len(indices) == 1 else f"inputs {indices[0]} to {indices[-1]}"
            raise SmoothcertError(
                f"{whose}: {TRIES} Ray workers died while they had it; each must have enough memory, and the "
                "classifier must not end its process"
            )
        self._again.extend(hired.parcels.items())
        hired.parcels = {}
        self._hire()
