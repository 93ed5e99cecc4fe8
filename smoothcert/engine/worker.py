"""The far end of a cluster: builds a model once, keeps the inputs that it was sent, and answers parcels with counts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from smoothcert.contracts import Classifier, Counts, Executor, Job, Noise, Readout, Segment, Source, Stream, Tensor
from smoothcert.engine.segments import BatchPart, in_batches
from smoothcert.errors import SmoothcertError

Inputs: TypeAlias = tuple[list[int], Any]  # their keys, and all of them in one array
Ordered: TypeAlias = tuple[int, Noise, Readout, Stream, int, int, int]  # a segment: part …, index, first draw, rows


class Workbench(NamedTuple):
    """What a worker builds once and then works with."""

    executor: Executor
    parts: Sequence[Classifier]  # what segments name by number
    choose: Callable[[Sequence[tuple[Tensor, Stream]]], list[Noise]] | None = (
        None  # each input's noise, where it is own
    )


class Report(NamedTuple):
    """A parcel carried out."""

    counts: list[Counts]
    seconds: dict[str, float]
    notes: tuple[str, ...]
    elapsed: float


class Worker:
    """The far end: an actor. It writes nothing, and knows no procedure."""

    def __init__(self, make: Callable[[], Workbench]) -> None:
        self.make = make
        self.bench: Workbench | None = None
        self.inputs: dict[int, Tensor] = {}  # that it was sent, by their keys

    def prepare(self) -> Report:
        """Build the model, before the first parcel."""
        return Report([], {}, tuple(self._bench().executor.notes), 0.0)

    def carry_out(
        self, inputs: tuple[list[int], Any] | None, forgotten: Sequence[int], ordered: Sequence[Ordered]
    ) -> Report:
        """The counts of each segment of a parcel."""
        import torch

        start, bench = time.perf_counter(), self._bench()
        for key in forgotten:
            self.inputs.pop(key, None)
        if inputs is not None:
            keys, stacked = inputs
            self.inputs.update(
                zip(keys, torch.tensor(stacked), strict=True)
            )  # a copy: what Ray hands over is read-only
        segments = []
        for part, noise, readout, stream, index, first, rows in ordered:
            job = Job(index, self.inputs[stream.input], _no_steps())
            segments.append(Segment(Source(bench.parts[part], noise, readout), job, stream, first, rows))
        counts, seconds = through(bench.executor, segments)
        return Report(counts, seconds, tuple(bench.executor.notes), time.perf_counter() - start)

    def choose(self, items: Sequence[tuple[Any, Stream]]) -> list[Noise]:
        """Each input's own noise."""
        import torch

        choose = self._bench().choose
        if choose is None:
            raise SmoothcertError("a worker must have a search for noise levels to choose one; it has none")
        return choose([(torch.tensor(x), stream) for x, stream in items])

    def _bench(self) -> Workbench:
        if self.bench is None:
            self.bench = self.make()
        return self.bench


def _no_steps() -> Any:
    """The steps of a job whose procedure is elsewhere."""
    return iter(())


def through(executor: Executor, segments: Sequence[Segment]) -> tuple[list[Counts], dict[str, float]]:
    """A parcel of any size through an executor that takes smaller ones: counts of each segment, and the seconds."""
    counts: list[Any] = [0] * len(segments)
    seconds: Counter[str] = Counter()
    flying: dict[int, list[BatchPart]] = {}
    left = enumerate(in_batches(segments, executor.room(segments[0].source, segments[0].job)))
    more = True
    while more or flying:
        while more and executor.room(segments[0].source, segments[0].job):
            number, batch = next(left, (0, []))
            if not (more := bool(batch)):
                break
            flying[number] = batch
            executor.submit(number, [part.segment for part in batch])
        for done in executor.collect() if flying else ():
            seconds.update(done.seconds)
            for part, votes in zip(flying.pop(done.parcel), done.counts, strict=True):
                counts[part.owner] = counts[part.owner] + votes
    return counts, dict(seconds)
