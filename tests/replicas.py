"""Replicas that share a memory, clients that ask them, and a replay of every answer that a client was given.

A replica is a process with a Memory, asked over a socket; a client is a thread that asks one, and asks again, wherever
it is answered, until it has an answer. Replicas are killed and the database restarted as the answers come in.
The replay rests on `smoothcert.runs.verify_memory`, which has the rule a second time, and on exact arithmetic.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from fractions import Fraction
from multiprocessing.connection import Client, Listener
from typing import NamedTuple

import numpy as np
from scan_memory import closer
from victims import context

from smoothcert.errors import RunError
from smoothcert.memory import Admission, Memory, Region, regions
from smoothcert.memory.address import Address
from smoothcert.runs import verify_memory
from smoothcert.runs.run import BeforeMemory, MemoryRef, Row

AUTHORITY = b"replicas of a test"


class Load(NamedTuple):
    """What is asked, and what is done to those who answer."""

    dim: int
    answers: int
    kills: int
    restarts: tuple[str, ...]  # of the database, by mode
    replicas: int = 2
    clients: int = 4
    labels: int = 3
    largest: float = 0.2  # radius


class Told(NamedTuple):
    """An answer that a client was given."""

    begun: float
    ended: float
    x: np.ndarray
    offer: tuple[int, float] | None  # None: it was a query
    answer: Admission | Region | None


def replica(url: str, address: str) -> None:
    """The victim: one Memory behind a lock, a thread for each client."""
    regions.FIRST, regions.AGAIN = 8, 2  # new directions, which rewrite many rows, are chosen often
    memory, lock = opened(url), threading.Lock()

    def serve(link) -> None:
        while True:
            try:
                x, offer = link.recv()
            except (EOFError, OSError):
                return
            with lock:
                try:
                    found = memory.query(x) if offer is None else memory.admit(x, *offer)
                except Exception as error:
                    found = repr(error)
            link.send(found)

    with Listener(address, authkey=AUTHORITY) as listener:
        while True:
            threading.Thread(target=serve, args=(listener.accept(),), daemon=True).start()


def opened(url: str) -> Memory:
    """A replica may be started while the database is not; who starts replicas starts them again."""
    until = time.monotonic() + 60
    while True:
        try:
            return Memory.open(url)
        except RunError:
            assert time.monotonic() < until
            time.sleep(0.1)


class Fleet:
    """The replicas; whoever is killed is replaced."""

    def __init__(self, url: str, folder, count: int) -> None:
        self.url, self._folder, self._numbers = url, folder, itertools.count()
        self.running = [self._start() for _ in range(count)]

    def _start(self):
        address = str(self._folder / f"r{next(self._numbers)}")
        victim = context.Process(target=replica, args=(self.url, address), daemon=True)
        victim.start()
        return victim, address

    def address(self, place: int) -> str:
        return self.running[place % len(self.running)][1]

    def kill(self, place: int) -> None:
        victim, _ = self.running[place]
        assert victim.is_alive(), "a replica stopped by itself"
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        self.running[place] = self._start()

    def end(self) -> None:
        for place in range(len(self.running)):
            victim, _ = self.running[place]
            os.kill(victim.pid, signal.SIGKILL)
            victim.join()


class Asker:
    """A client: asks the replicas in turn, as a proxy would, and asks on until it is told."""

    def __init__(self, fleet: Fleet, number: int, until: float) -> None:
        self._fleet, self._turn, self._until, self._links = fleet, number, until, {}
        self.again = 0  # times that a question was repeated
        self.heard: dict[str, int] = {}  # answers by replica

    def ask(self, x, offer):
        while True:
            assert time.monotonic() < self._until, "nobody answers"
            self._turn += 1
            address = self._fleet.address(self._turn)
            try:
                link = self._links.get(address) or Client(address, authkey=AUTHORITY)
                self._links[address] = link
                link.send((x, offer))
                found = link.recv()
            except (OSError, EOFError):
                self._links.pop(address, None)
                self.again += 1
                time.sleep(0.02)
                continue
            assert not isinstance(found, str), found
            self.heard[address] = self.heard.get(address, 0) + 1
            return found


def stream(load: Load, number: int, told: list[Told]):
    """A client's questions: a query, then an offer for the same point, as a service would.

    Every second point is close to one that somebody was just told of, so that the replicas meet there.
    """
    rng = np.random.default_rng(number)
    while True:
        x = rng.random(load.dim, dtype=np.float32)
        if told and rng.random() < 0.5:
            x = told[-1 - int(rng.integers(min(4, len(told))))].x + rng.normal(0, 0.03, load.dim).astype(np.float32)
        yield x, None
        yield x, (int(rng.integers(load.labels)), float(rng.uniform(0, load.largest)))


def ask_all(load: Load, postgres, url: str, folder, seconds: float) -> tuple[list[Told], int]:
    """Every answer that was given while replicas were killed and the database was restarted; and questions repeated."""
    Memory.create(url, "abc", "l2", (load.dim,)).close()
    told, failed, until = [], [], time.monotonic() + seconds
    fleet = Fleet(url, folder, load.replicas)
    askers = [Asker(fleet, number, until) for number in range(load.clients)]

    def ask(number: int) -> None:
        try:
            for x, offer in itertools.islice(stream(load, number, told), load.answers // load.clients):
                begun = time.monotonic()
                answer = askers[number].ask(x, offer)
                told.append(Told(begun, time.monotonic(), x, offer, answer))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(load.clients)]
    for thread in threads:
        thread.start()
    try:
        for done, act in events(load, fleet, postgres):
            while len(told) < done and not failed:
                time.sleep(0.005)
            if not failed:
                act()
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
    finally:
        fleet.end()
    assert not failed, failed
    assert len(told) == load.clients * (load.answers // load.clients)
    assert all(len(asker.heard) >= load.replicas for asker in askers), "each client is to hear several replicas"
    return told, sum(asker.again for asker in askers)


def events(load: Load, fleet: Fleet, postgres):
    """What is done after how many answers: kills and restarts in turn, evenly spread."""
    kills = [lambda place=number % load.replicas: fleet.kill(place) for number in range(load.kills)]
    restarts = [lambda mode=mode: postgres.restart(mode) for mode in load.restarts]
    acts = [act for pair in itertools.zip_longest(kills, restarts) for act in pair if act]
    return [(load.answers * (number + 1) // (len(acts) + 1), act) for number, act in enumerate(acts)]


def replay(url: str, told: list[Told]) -> dict[str, int]:
    """No promise broken, none lost, no region twice; counts of what was told."""
    offered = [one for one in told if one.offer is not None]
    rows = [_row(number, one) for number, one in enumerate(offered)]
    centres, stored = replay_rows(url, rows, np.array([one.x for one in offered], dtype=np.float64))
    assert_told_truly(told, centres, stored)
    assert_in_time(told)
    kinds = [one.answer.conflict or ("stored" if one.answer.stored else "answered") for one in offered]
    return {
        "regions": len(stored),
        "queries": len(told) - len(offered),
        **{k: kinds.count(k) for k in sorted(set(kinds))},
    }


def replay_rows(url: str, rows: list[Row], x: np.ndarray) -> tuple[np.ndarray, list[tuple[int, int, float, float]]]:
    """What was offered at x [rows, dim], by the independent checker, and the invariant; the regions that are there."""
    with Memory.open(url, frozen=True) as memory:
        assert memory.check() == []
        reference = MemoryRef(memory.identity, url, "index", None)
    base = Address.parse(url).connect(read_only=True)
    stored = [ball for balls, _ in verify_memory._regions(base) for ball in balls]
    centres = np.concatenate([centres for _, centres in verify_memory._regions(base)]).astype(np.float32)
    assert [ball[0] for ball in stored] == list(range(1, len(stored) + 1))
    for row, near in zip(rows, verify_memory._near(base, rows, x, "l2"), strict=True):
        assert verify_memory._check(row, near, reference) == [], row
    base.close()
    own = [row.settled.seen + 1 for row in rows if row.settled.stored]
    assert len(own) == len(set(own)), "a region was given to two offers"
    assert len({(x.tobytes(), ball[3]) for x, ball in zip(centres, stored, strict=True)}) == len(stored), "stored twice"
    assert_regions_disjoint(centres, stored)
    return centres, stored


def _row(number: int, one: Told) -> Row:
    (label, radius), answer = one.offer, one.answer
    settled = BeforeMemory(label, radius, answer.conflict, answer.by, answer.stored, answer.seen)
    return Row(number, 0, answer.label, answer.radius, draws=0, settled=settled)


def assert_regions_disjoint(centres, stored) -> None:
    """The invariant: every pair of different labels, exactly where floating point does not tell."""
    labels, radii = np.array([ball[1] for ball in stored]), np.array([ball[2] for ball in stored])
    for i, x in enumerate(centres):
        apart = np.linalg.norm(centres[:i].astype(np.float64) - x, axis=1)
        doubtful = (labels[:i] != labels[i]) & (apart < (radii[:i] + radii[i]) * (1 + 1e-9))
        for j in np.flatnonzero(doubtful):
            assert not closer(x, centres[j], Fraction(radii[i]) + Fraction(radii[j]), "l2"), (i + 1, j + 1)


def assert_told_truly(told, centres, stored) -> None:
    """A query's answer is a region that is there, with that label, and holds the ball."""
    for one in told:
        if one.offer is None and one.answer is not None:
            number, label, radius, _ = stored[one.answer.number - 1]
            away = np.linalg.norm(centres[number - 1].astype(np.float64) - one.x)
            assert one.answer.label == label and away + one.answer.radius <= radius, one


def assert_in_time(told) -> None:
    """Whoever asks after an answer was given, and closer than it reaches, is told its label, by whichever replica."""
    given = sorted((one for one in told if one.answer is not None and one.answer.radius > 0), key=lambda one: one.ended)
    ended, x = np.array([one.ended for one in given]), np.array([one.x for one in given], dtype=np.float64)
    radii, labels = (np.array([getattr(one.answer, name) for one in given]) for name in ("radius", "label"))
    held = 0
    for one in told:
        before = int(np.searchsorted(ended, one.begun))
        near = np.linalg.norm(x[:before] - one.x, axis=1) < radii[:before] * (1 + 1e-9)
        label = None if one.answer is None else one.answer.label
        held += int(near.sum())
        for place in np.flatnonzero(near & (labels[:before] != label)):
            assert not closer(one.x, given[place].x, radii[place], "l2"), ("a promise was broken", given[place], one)
    assert held > 0
