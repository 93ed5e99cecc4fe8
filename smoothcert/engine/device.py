"""Carries out batches on one device of torch: noise made, network run and votes counted there; only counts come back.

On CUDA there are two queues of work, so that the noise of a batch is made beside the network of the one before, and
nothing waits for the device before its counts are collected. This code has been run on the CPU, and under torch's fake
tensors on `cuda`, which show where every tensor is; it has not been run on a GPU.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from smoothcert.bounds import check_draws
from smoothcert.contracts import PROBE, Classifier, Done, Executor, Job, Segment, Source, Stream, Tensor, batch_rows
from smoothcert.engine.batch_check import FixedShape, check_batches, not_numbers
from smoothcert.engine.device_batch import (
    OWNER,
    BatchPlan,
    Tally,
    ask,
    make_noise,
    make_noise_here,
    planned,
)
from smoothcert.engine.queues import Queues, out_of_memory
from smoothcert.engine.segments import in_batches, inputs_of
from smoothcert.errors import ModelError, OptionError, SmoothcertError, reason, require_room
from smoothcert.philox import Compiled

SIZES = (64, 256, 1024, 4096, 16384)  # rows of a batch that are tried on an accelerator
CPU_SIZES = (64, 256)  # larger ones leave the caches
CPU_VALUES = 2**22  # of the inputs of one batch on the CPU
SLOW = 1.0  # seconds of a pass, after which no larger batch is tried
ENOUGH, MOST_PASSES = 0.2, 8  # seconds and batches that measuring one size takes, at least two batches
ALMOST = 0.95  # of the best speed: the smallest batch that has it is taken
SPARE = 0.8  # of an accelerator's free memory that a batch may be expected to need
KEPT = 2**28  # bytes of inputs that stay on the device
PROBED = 1024  # noisy rows on which a classifier is looked at, at the most
MOST_SEEN = 2**16  # inputs that are remembered as fit for their noise


@dataclass(eq=False)
class KnownClassifier:
    """How a classifier is called, and with how many rows."""

    classifier: Classifier
    call: Classifier
    rows: int

    @property
    def frozen(self) -> bool:
        """Whether its number of rows cannot be changed."""
        return getattr(self.classifier, "rows", None) is not None


@dataclass(eq=False)
class Buffer:
    """Noisy inputs of a batch [rows, ...], and when the network has read those of the last."""

    x: Tensor
    free: Any = None


@dataclass(eq=False)
class Flight:
    """A parcel under way: its counts, which are there when `done` has passed, and when its work began and ended."""

    parcel: int
    segments: Sequence[Segment]
    counts: Tensor
    no_number: Tensor
    done: Any
    spans: list[tuple[str, Any, Any]]
    rows: int  # of all its batches


@dataclass(eq=False)
class Device(Executor):
    """Batches of `batch` rows on a device; None: as many as measuring finds best. `shares`: seconds by kind of work.

    `compiled`: noise by torch, compiled, which takes up to half a minute once, or as it is. None: compiled on an
    accelerator; on the CPU by numpy, which needs no compiler and is as fast.
    """

    device: str
    batch: int | None = None
    compiled: bool | None = None
    notes: list[str] = field(default_factory=list)
    shares: Counter[str] = field(default_factory=Counter)
    _known: dict[int, KnownClassifier] = field(default_factory=dict)
    _buffers: dict[tuple[int, ...], deque[Buffer]] = field(default_factory=dict)
    _inputs: OrderedDict[int, Tensor] = field(default_factory=OrderedDict)
    _fit: set[tuple[int, Any]] = field(default_factory=set)  # inputs that a noise takes
    _flying: deque[Flight] = field(default_factory=deque)
    _measuring: bool = False  # in batches of many shapes, which are not worth compiling for
    _compiled: Compiled = field(default_factory=Compiled)
    _queues: Queues = field(init=False)

    def __post_init__(self) -> None:
        if self.batch is not None:
            check_draws(self.batch, "batch", "the engine")
        try:
            self._queues = Queues(self.device)
        except (RuntimeError, AssertionError) as error:
            raise OptionError(
                f"engine must name a device that torch has here; got 'torch:{self.device}' ({reason(error)})"
            ) from error

    def room(self, source: Source, job: Job, left: int | None = None) -> int:
        """One batch, while there are few under way: on CUDA one more than is being worked on."""
        if len(self._flying) >= (2 if self._queues.cuda else 1):
            return 0
        return self._look(source, job).rows

    def submit(self, parcel: int, segments: Sequence[Segment]) -> None:
        """Begin a parcel; where the memory does not suffice, in smaller batches."""
        known = self._look(segments[0].source, segments[0].job)
        self._refuse_unfit(segments)
        while (flight := self._begun(parcel, segments, known)) is None:
            self._halve(known)
        self._flying.append(flight)

    def collect(self) -> Sequence[Done]:
        """Counts of the oldest parcel, and of those behind it that are done as well."""
        found = list[Done]()
        while self._flying and (not found or not self._queues.cuda or self._flying[0].done.query()):
            found.append(self._landed(self._flying.popleft()))
        return found

    def close(self) -> None:
        """Let go of the device's memory."""
        self._flying.clear()
        self._buffers.clear()
        self._inputs.clear()

    def _landed(self, flight: Flight) -> Done:
        if self._queues.cuda:
            flight.done.synchronize()
        if bool(flight.no_number):
            raise ModelError(f"{inputs_of(flight.segments)}: {not_numbers()}")
        seconds: Counter[str] = Counter()
        for name, start, end in flight.spans:
            seconds[name] += self._queues.seconds(start, end)  # type: ignore[assignment]
        self.shares.update(seconds)
        for note in self._compiled.notes:
            self._note(note)
        return Done(flight.parcel, list(flight.counts.cpu().numpy()), dict(seconds), flight.rows)

    def _begun(self, parcel: int, segments: Sequence[Segment], known: KnownClassifier) -> Flight | None:
        """The parcel, batch after batch; None where the memory does not suffice."""
        spans, queues, rows = list[tuple[str, Any, Any]](), self._queues, 0
        try:
            with torch.inference_mode(), _one_line(inputs_of(segments)):
                with queues.on(queues.network):
                    tally = Tally(len(segments), self.device)
                for pieces in in_batches(segments, known.rows):
                    spans += self._batch(planned(pieces, known.rows), known, tally)
                    rows += known.rows
                with queues.on(queues.network):
                    counts = torch.zeros(()) if tally.counts is None else queues.fetched(tally.counts)
                    no_number = queues.fetched(tally.no_number)
                    done = queues.mark()
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            return None
        return Flight(parcel, segments, counts, no_number, done, spans, rows)

    def _batch(self, plan: BatchPlan, known: KnownClassifier, tally: Tally) -> list[tuple[str, Any, Any]]:
        """Noise, scores and counts of one batch, in their queues; when each began and ended."""
        queues, (source, job, *_) = self._queues, plan.pieces[0].segment
        with queues.on(queues.noise):
            buffer = self._buffer((known.rows, *job.x.shape))
            queues.after(buffer.free)
            start = queues.mark()
            numbers = queues.sent(torch.from_numpy(plan.numbers))
            if self.compiled is None and self._cpu:
                make_noise_here(buffer.x, plan.pieces)
            else:
                run = None if self.compiled is False or self._measuring else self._compiled
                make_noise(buffer.x, plan.groups, self._there(plan), numbers, run)
            noisy = queues.mark()
        with queues.on(queues.network):
            queues.after(noisy)
            begun = queues.mark()
            scores = ask(known.call, buffer.x)
            asked = queues.mark()
            tally.add(source.readout, scores, numbers.select(0, OWNER).narrow(0, 0, plan.rows))
            if queues.cuda:
                numbers.record_stream(queues.network)  # its memory is not given away before that
            buffer.free = queues.mark()
        return [("noise", start, noisy), ("forward", begun, asked), ("count", asked, buffer.free)]

    def _buffer(self, shape: tuple[int, ...]) -> Buffer:
        """The next of the buffers of this shape: two on CUDA, in turn."""
        if shape not in self._buffers:
            if not self._queues.cuda:
                require_room("the engine", math.prod(shape), batch=shape[0])
            number = 2 if self._queues.cuda else 1
            made = deque(Buffer(torch.zeros(shape, device=self.device)) for _ in range(number))
            self._buffers[shape] = made
        self._buffers[shape].rotate()
        return self._buffers[shape][0]

    def _there(self, plan: BatchPlan) -> Tensor:
        """The inputs of a batch [slots, ...] on the device, where the last ones used stay."""
        found = []
        given = {piece.segment.stream.input: piece.segment.job.x for piece in plan.pieces}
        for key in plan.keys:
            if key not in self._inputs:
                self._inputs[key] = self._queues.sent(given[key])
            self._inputs.move_to_end(key)
            found.append(self._inputs[key])
        most = max(1, KEPT // max(1, found[0].nbytes))
        while len(self._inputs) > most:
            self._inputs.popitem(last=False)
        return torch.stack(found)

    def _refuse_unfit(self, segments: Sequence[Segment]) -> None:
        """Inputs that a noise does not take, as those off its grid, are refused on the host, when first seen."""
        for source, job, stream, _, _ in segments:
            if (seen := (stream.input, source.noise)) not in self._fit:
                with _one_line(f"input {job.index}"):
                    source.noise.fill(torch.empty(1, *job.x.shape), job.x, stream, 0)
                if len(self._fit) >= MOST_SEEN:
                    self._fit.clear()
                self._fit.add(seen)

    def _look(self, source: Source, job: Job) -> KnownClassifier:
        """Look at each classifier once, on noisy copies of the first input that asks for it."""
        if id(source.classifier) in self._known:
            return self._known[id(source.classifier)]
        known = KnownClassifier(source.classifier, source.classifier, 1)
        known.rows = getattr(source.classifier, "rows", None) or self.batch or self._measured(known, source, job)
        while not self._checked(known, source, job):
            self._halve(known)
        self._known[id(source.classifier)] = known
        return known

    def _checked(self, known: KnownClassifier, source: Source, job: Job) -> bool:
        """Choose how it is called; False where the memory does not suffice."""
        plain = batch_rows(job.x.shape)
        rows = min(known.rows, PROBED) if self._short else max(plain, min(known.rows, PROBED))
        probe = torch.empty(rows, *job.x.shape)
        try:
            with torch.inference_mode(), _one_line(f"input {job.index}"):
                source.noise.fill(probe, job.x, Stream(0, job.key, PROBE), 0)
                found = check_batches(known.classifier, self._queues.sent(probe), known.rows, known.rows)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            return False
        known.call = found.call
        self._note(found.note)
        return True

    @property
    def _short(self) -> bool:
        """Whether the memory has not sufficed before."""
        return any(note.startswith("out of memory") for note in self.notes)

    def _halve(self, known: KnownClassifier) -> None:
        """Half as many rows from now on."""
        if known.rows == 1 or known.frozen:
            rows = "one row" if known.rows == 1 else f"the {known.rows} rows that it takes"
            raise ModelError(
                f"the network must fit into the memory of {self.device} with {rows} at a time; it ran out of memory "
                "(another device has more: --engine torch:DEVICE)"
            )
        self._buffers.clear()
        self._inputs.clear()
        if self._queues.cuda:
            torch.cuda.synchronize(self.device)
            torch.cuda.empty_cache()
        half, last = known.rows // 2, ""
        if isinstance(known.call, FixedShape):
            known.call, last = FixedShape(known.classifier, half), "; that number shows in the last bits of scores"
        self._note(f"out of memory on {self.device} with {known.rows} rows a batch: later ones have {half}{last}")
        known.rows = half

    @property
    def _cpu(self) -> bool:
        return torch.device(self.device).type == "cpu"

    def _note(self, note: str) -> None:
        if note and note not in self.notes:
            self.notes.append(note)

    def _measured(self, known: KnownClassifier, source: Source, job: Job) -> int:
        """The smallest batch that is about as fast as the fastest."""
        size = max(1, job.x.numel())
        sizes = [rows for rows in CPU_SIZES if rows * size <= CPU_VALUES] or [8] if self._cpu else SIZES
        speeds: dict[int, float] = {}
        self._measuring = True
        for rows in sizes:
            if speeds and not self._fits(rows):
                break
            known.rows = rows
            if (seconds := self._timed(known, source, job)) is None:
                break
            speeds[rows] = rows / max(seconds, 1e-9)
            if seconds > SLOW:
                break
        self._buffers.clear()
        self._measuring = False
        if not speeds:
            return sizes[0]
        best = max(speeds.values())
        rows = next(rows for rows, speed in speeds.items() if speed >= ALMOST * best)
        tried = ", ".join(f"{speed:,.0f} with {rows}" for rows, speed in speeds.items())
        self._note(f"batches of {rows} rows, by measuring (rows a second: {tried})")
        return rows

    def _timed(self, known: KnownClassifier, source: Source, job: Job) -> float | None:
        """Seconds of the fastest of a few batches of so many rows; None where the memory does not suffice."""
        segment = Segment(source, job, Stream(0, job.key, PROBE), 0, known.rows)
        passes = list[float]()
        while len(passes) < 2 or (sum(passes) < ENOUGH and len(passes) < MOST_PASSES):
            if self._queues.cuda:
                torch.cuda.synchronize(self.device)
            start = time.perf_counter()
            if (flight := self._begun(0, [segment], known)) is None:
                return None
            self._landed(flight)
            passes.append(time.perf_counter() - start)
        self.shares.clear()
        return min(passes[1:])  # the first one warms up

    def _fits(self, rows: int) -> bool:
        """Whether four times what the last batch needed is free on the device, as far as is known."""
        if not self._queues.cuda:
            return True
        free, _ = torch.cuda.mem_get_info(self.device)
        held = torch.cuda.memory_reserved(self.device)  # most of it is what the last batch needed
        return 4 * held <= SPARE * (free + held)


@contextlib.contextmanager
def _one_line(whose: str) -> Iterator[None]:
    """What is refused inside, with the inputs that it was about."""
    try:
        yield
    except SmoothcertError as error:
        raise type(error)(f"{whose}: {error}") from error
