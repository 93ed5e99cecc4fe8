"""The engine on many processes and machines: inputs go out in small units to the workers of a Ray cluster.

The driver hands a unit to whoever is free and collects what comes back; a worker builds what it needs once, answers
unit after unit, and reports several times a minute, so that finished inputs are kept even when their unit is not.
What a dead worker had not reported is handed out again. Noise is keyed by input and draw, so who answers an input, and
how often it was begun, changes nothing. The cluster is started here or joined, made quiet, and left again.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
import signal
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from smoothcert.bounds import check_draws
from smoothcert.contracts import Engine, Job, Outcome
from smoothcert.errors import THREADS, OptionError, SmoothcertError, reason

LOCAL = "local"
PATIENCE = 5.0  # seconds in which a cluster must accept a connection
OBJECTS = 2**28  # bytes of shared memory of a local cluster: units and reports are small
WORKERS = 10_000  # more than any cluster starts
MOST = 16  # inputs of a unit: enough to pack batches across inputs, few enough to lose and to balance
TRIES = 5  # workers that may die over one input before it is taken for the cause
PAUSE = 0.5  # seconds between two reports of a worker; longer where there are many
REPORTS = 200  # reports a second that the driver should have to read at most

Item: TypeAlias = tuple[int, Any, int | None]  # a job on its way: index, input as an array [*shape], true label


class Workbench(NamedTuple):
    """What a worker builds once and then works with: an engine of its own, and what makes jobs of items."""

    engine: Engine
    jobs: Callable[[Sequence[Item]], Iterable[Job]]


class Progress(NamedTuple):
    """What a worker has to tell since it last did."""

    rows: int
    outcomes: list[Outcome]
    notes: tuple[str, ...]


@dataclass(eq=False)
class Assignment:
    """A worker, and what it was given and has not answered."""

    actor: Any
    left: dict[int, Job]
    prepared: bool


@dataclass(eq=False)
class Ray(Engine):
    """Hands out jobs on a connected cluster; `advance` is told of every batch, `notes` is for the record.

    `make` is carried to each worker and called there. Only index, input and label of a job are sent: its steps stay
    here, and the worker makes its own from the classifier that it has.
    """

    cluster: Cluster
    make: Callable[[Callable[[int], None]], Workbench]  # given what is told of every batch
    inputs: int  # how many jobs there will be
    advance: Callable[[int], None]
    notes: list[str] = field(default_factory=list)
    _again: deque[Job] = field(default_factory=deque)  # what dead workers had
    _free: list[Any] = field(default_factory=list)
    _busy: dict[Any, Assignment] = field(default_factory=dict)  # by the stream of reports
    _deaths: Counter[int] = field(default_factory=Counter)  # by input; −1: while preparing

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Outcomes as they arrive."""
        ray = import_ray(self.cluster.address)
        workers = min(self.cluster.size(ray), self.inputs)
        # Ray's own retries are off: it would repeat a whole unit, and with it the inputs that were already reported.
        kind = ray.remote(num_cpus=self.cluster.threads, max_restarts=0, max_task_retries=0)(Worker)
        new = functools.partial(kind.remote, ray.put(self.make), max(PAUSE, workers / REPORTS))
        queue, unfinished = iter(jobs), self.inputs
        if unfinished:
            self.notes.append(f"drawn by {workers} Ray workers with {self.cluster.threads} threads each")
        try:
            for _ in range(workers):
                self._hire(new())
            while unfinished:
                self._hand_out(queue, workers, unfinished)
                for outcome in self._next(ray, new):
                    unfinished -= 1
                    yield outcome
        finally:
            for gone in [*self._free, *(hired.actor for hired in self._busy.values())]:
                if ray.is_initialized():  # a generator may be closed after its cluster
                    ray.kill(gone)

    def _next(self, ray: Any, new: Callable[[], Any]) -> Iterator[Outcome]:
        """Wait until somebody has something to tell, or is found dead."""
        if not self._busy:
            raise SmoothcertError("Ray must have workers that live; the last one died while it was preparing")
        stream = ray.wait(list(self._busy), num_returns=1)[0][0]
        if (told := self._hear(ray, stream)) is not None:
            yield from self._take(self._busy[stream], told)
        elif stream in self._busy:
            lost = self._busy.pop(stream)
            ray.kill(lost.actor)  # it may only have been out of reach
            self._bury(lost, new)

    def _hire(self, actor: Any) -> None:
        """An empty unit makes a worker prepare itself; only one that has done so is given inputs."""
        self._busy[actor.answer.remote([])] = Assignment(actor, {}, prepared=False)

    def _hand_out(self, queue: Iterator[Job], workers: int, unfinished: int) -> None:
        """A unit for everyone who is free, the smaller the fewer are left, so that all finish together."""
        while self._free:
            waiting = unfinished - sum(len(hired.left) for hired in self._busy.values())
            size = max(1, min(MOST, waiting // (2 * workers)))
            unit = [self._again.popleft() for _ in range(min(size, len(self._again)))]
            unit += islice(queue, size - len(unit))
            if not unit:
                return
            actor, items = self._free.pop(), [(job.index, job.x.numpy(), job.truth) for job in unit]
            self._busy[actor.answer.remote(items)] = Assignment(actor, {job.index: job for job in unit}, True)

    def _hear(self, ray: Any, stream: Any) -> Progress | None:
        """The next report; None where a unit is finished (its worker is free) or its worker has died (still busy)."""
        try:
            told: Progress = ray.get(next(stream))
            return told
        except StopIteration:
            if not self._busy[stream].left:
                self._free.append(self._busy.pop(stream).actor)
        except ray.exceptions.RayTaskError as error:
            # The work itself failed, and would fail again: its own error is the message, not Ray's account of it.
            raise error.cause if isinstance(error.cause, SmoothcertError) else error from None
        except ray.exceptions.RayError:
            pass
        return None

    def _take(self, hired: Assignment, told: Progress) -> Iterator[Outcome]:
        self.advance(told.rows)
        self.notes += [note for note in told.notes if note not in self.notes]
        for outcome in told.outcomes:
            hired.left.pop(outcome.index, None)
            yield outcome

    def _bury(self, hired: Assignment, another: Callable[[], Any]) -> None:
        """Put back what a dead worker had, first in the queue, and hire another one."""
        self._again.extendleft(hired.left[index] for index in sorted(hired.left, reverse=True))
        for index in hired.left if hired.prepared else [-1]:
            self._deaths[index] += 1
            if index >= 0 and self._deaths[index] >= TRIES:
                raise SmoothcertError(
                    f"input {index}: {TRIES} Ray workers died while they had it; each must have enough memory, "
                    "and the classifier must not end its process"
                )
        if hired.prepared or self._deaths[-1] < TRIES:
            self._hire(another())


class Worker:
    """The far end. One thread builds and asks the classifier, for ever the same; the actor's own thread reports."""

    def __init__(self, make: Callable[[Callable[[int], None]], Workbench], pause: float) -> None:
        self.make, self.pause = make, pause
        self.hand = ThreadPoolExecutor(1, "smoothcert")
        self.bench: Workbench | None = None
        self.rows, self.outcomes = deque[int](), deque[Outcome]()

    def answer(self, items: list[Item]) -> Iterator[Progress]:
        """Reports on a unit, one at the end and one a pause before; what went wrong is raised after the last."""
        work = self.hand.submit(self._work, items)
        finished = False
        while not finished:
            finished = bool(wait([work], timeout=self.pause).done)
            notes = tuple(self.bench.engine.notes) if self.bench is not None else ()
            yield Progress(sum(_emptied(self.rows)), list(_emptied(self.outcomes)), notes)
        work.result()

    def _work(self, items: list[Item]) -> None:
        if self.bench is None:
            self.bench = self.make(self.rows.append)
        if items:
            for outcome in self.bench.engine.run(self.bench.jobs(items)):
                self.outcomes.append(outcome)


def _emptied(queue: deque[Any]) -> Iterator[Any]:
    """What is in the queue now; the other thread may go on adding."""
    for _ in range(len(queue)):
        yield queue.popleft()


@dataclass(frozen=True)
class Cluster:
    """Where the workers are: `local`, or HOST:PORT of a running cluster; as many workers as it has room for."""

    address: str = LOCAL
    workers: int | None = None
    threads: int = 1  # of one worker

    def __post_init__(self) -> None:
        check_draws(self.threads, "threads", "a worker", THREADS)
        if self.workers is not None:
            check_draws(self.workers, "workers", "Ray", WORKERS)
        host, _, port = self.address.rpartition(":")
        if self.address != LOCAL and not (host and port.isdigit() and "/" not in host):
            raise OptionError(f"ray must be local or the HOST:PORT of a running cluster; got '{self.address}'")

    @contextlib.contextmanager
    def connected(self) -> Iterator[None]:
        """Start or join the cluster, and leave it again; one that this process already uses is left as it is."""
        ray = import_ray(self.address)
        if self.address != LOCAL:
            _refuse_unreachable(self.address)
        if ray.is_initialized():
            yield
            return
        try:
            self._join(ray)
            yield
        finally:
            ray.shutdown()

    def _join(self, ray: Any) -> None:
        options: dict[str, Any] = {"address": self.address}
        if self.address == LOCAL:
            room = self.workers * self.threads if self.workers else None
            options |= {"include_dashboard": False, "num_cpus": room, "object_store_memory": OBJECTS}
        with _own_signals(), _quiet():
            try:
                ray.init(**options, log_to_driver=False, configure_logging=False)
            except Exception as error:
                # Ray raises anything from ValueError to its own kinds here; the first line says what is the matter.
                hint = "" if self.address == LOCAL else "; a cluster with a token needs RAY_AUTH_MODE=token here too"
                raise OptionError(f"ray must be a cluster that can be used: {reason(error)}{hint}") from error

    def size(self, ray: Any) -> int:
        """How many workers there will be."""
        if self.workers is not None:
            return self.workers
        return max(1, int(ray.cluster_resources().get("CPU", 0)) // self.threads)


def import_ray(address: str) -> Any:
    """Ray, told to be quiet: by its environment, which it reads when it is imported, and by its logger after that."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address != LOCAL:
        # By default Ray asks an address that is not Ray's for a quarter of an hour.
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise OptionError("ray must be installed for --ray; pip install 'smoothcert[ray]'") from error
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    return ray


def _refuse_unreachable(address: str) -> None:
    """Ask the address ourselves, because Ray would try for many minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise OptionError(f"ray must be the address of a running cluster; nothing answers at {address}") from error


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself; here it goes on meaning what it meant."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Ray's compiled part writes its troubles straight to file descriptor 2; what matters of them is raised as well."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
