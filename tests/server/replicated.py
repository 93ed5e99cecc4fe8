"""Replicas of the real service on one memory, clients that ask them over HTTP, and a replay of all that they were told.

A replica is a process of `smoothcert serve`; a client is a thread that asks whichever replica is next, until it is
answered. Replicas are killed, and the database is restarted, as answers come in. Nothing is taken from inside the
service: what was offered to the memory stands in the certificates, which are fetched as a client fetches them.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import islands
import numpy as np
from processes import ServeProcess
from replicas import assert_in_time, replay_rows
from test_app import outputs

from smoothcert.memory.address import Address
from smoothcert.report.certificate import with_words
from smoothcert.runs.certificate import ReadDocument, check, parse_document

FEW = ("--n", "300", "--n0", "50", "--alpha", "0.05")
AWAY = 4.0  # seconds of a database that is away while a replica starts
MEANWHILE = (500, 503)  # what a client may be told while replicas are killed and the database is away


class ServiceLoad(NamedTuple):
    """What is asked, and what is done to those who answer."""

    queries: int
    kills: int
    restarts: tuple[str, ...]  # of the database, by mode
    dim: int
    levels: str  # bounds of noise levels: small ones make small regions, and many
    replicas: int = 2
    clients: int = 4


class Given(NamedTuple):
    """What a client was told of its input; None in its place where the service abstained."""

    label: int
    radius: float
    draws: int
    guarantee: str
    certificate: str


class Heard(NamedTuple):
    """An answer with its times."""

    begun: float
    ended: float
    x: np.ndarray
    mode: str
    answer: Given | None


class ServiceFleet:
    """The replicas; whoever is killed is started again."""

    def __init__(self, url: str, folder: Path, load: ServiceLoad) -> None:
        self.services, self._starting = [], []
        for number in range(load.replicas):
            (own := folder / f"replica-{number}").mkdir()
            words = (
                "islands:score",
                "--name",
                "islands",
                "--shape",
                str(load.dim),
                *islands.LEVELS[:-1],
                load.levels,
                *FEW,
            )
            places = ("--memory", url, "--evidence", url.partition("?")[0], "--state", str(own / "state"))
            self.services.append(ServeProcess(own, *words, *places))

    def kill(self, place: int) -> None:
        self.settled()
        service = self.services[place]
        assert service.process.poll() is None, "a replica stopped by itself"
        service.kill()
        self._starting.append(threading.Thread(target=self._start, args=(service,)))
        self._starting[-1].start()

    def _start(self, service: ServeProcess) -> None:
        """It refuses to start while there is no database; who starts replicas starts them again."""
        while True:
            service.launch()
            try:
                return service.wait()
            except AssertionError:
                assert service.ended() in (1, 2) and "must be reachable" in service.log.read_text()[-2000:]

    def settled(self) -> None:
        while self._starting:
            self._starting.pop().join()

    def end(self) -> None:
        self.settled()
        for service in self.services:
            service.end()


class HttpAsker:
    """A client: asks the replicas in turn, and asks on until it is told."""

    def __init__(self, fleet: ServiceFleet, number: int, until: float) -> None:
        self._fleet, self._turn, self._until = fleet, number, until
        self._client = httpx.Client(timeout=90)
        self.met: Counter[str] = Counter()  # answers by replica, and what was met instead of answers

    def ask(self, xs: np.ndarray, mode: str) -> list[Given | None]:
        tensor = {"name": "x", "shape": list(xs.shape), "datatype": "FP32", "data": xs.flatten().tolist()}
        body = {"inputs": [tensor], "parameters": {"mode": mode}}
        while True:
            assert time.monotonic() < self._until, "nobody answers"
            self._turn += 1
            place = self._turn % len(self._fleet.services)
            try:
                found = self._client.post(f"{self._fleet.services[place].model}/infer", json=body)
            except httpx.TransportError as error:
                self.met[type(error).__name__] += 1
            else:
                if found.status_code not in MEANWHILE:
                    self.met[f"replica {place}"] += 1
                    return [given(one) for one in zip(*columns(outputs(found)), strict=True)]
                self.met[str(found.status_code)] += 1
            time.sleep(0.02)


def columns(found: dict[str, list[Any]]) -> list[list[Any]]:
    return [found[name] for name in (*Given._fields, "abstained", "reason")]


def given(told: tuple[Any, ...]) -> Given | None:
    *values, abstained, reason = told
    assert abstained == (values[0] == -1) == (reason != "") and "deadline" not in reason, told
    return None if abstained else Given(*values)


def stream(load: ServiceLoad, number: int, heard: list[Heard]):
    """A client's questions, some inputs each: around a place at which all clients ask at about the same time, so that
    the replicas meet there, mostly on the shore of an island; close to what somebody was just told of; and anywhere.
    """
    own, left = np.random.default_rng([number, 0]), load.queries // load.clients
    for turn in itertools.count():
        common, size = np.random.default_rng(turn), min(left, int(own.integers(1, 9)))
        x = common.random(load.dim)
        if turn % 3:
            way = common.normal(size=load.dim)
            centre = islands.APART * (0.5 + common.integers(0, 4, load.dim))
            x = centre + islands.RADIUS * way / np.linalg.norm(way)
        if (chance := own.random()) > 0.9:
            x = own.random(load.dim)
        elif chance > 0.7 and heard:
            x = heard[-1 - int(own.integers(min(4, len(heard))))].x
        xs = np.clip(x + own.normal(0, 0.03, (size, load.dim)), 0, 1)
        yield xs.astype(np.float32), "predict" if own.random() < 0.1 else "certify"
        left -= size
        if not left:
            return


def ask_services(load: ServiceLoad, postgres, url: str, fleet: ServiceFleet, seconds: float):
    """Every answer that was given, and what clients met."""
    heard: list[Heard] = []
    failed: list[BaseException] = []
    until = time.monotonic() + seconds
    askers = [HttpAsker(fleet, number, until) for number in range(load.clients)]

    def ask(number: int) -> None:
        try:
            for xs, mode in stream(load, number, heard):
                begun = time.monotonic()
                answers, ended = askers[number].ask(xs, mode), time.monotonic()
                heard.extend(Heard(begun, ended, x, mode, one) for x, one in zip(xs, answers, strict=True))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(load.clients)]
    for thread in threads:
        thread.start()
    for done, act in events(load, fleet, postgres):
        while len(heard) < done and not failed:
            time.sleep(0.005)
        if not failed:
            act()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    assert not failed, failed
    assert len(heard) == load.clients * (load.queries // load.clients)
    met = sum((asker.met for asker in askers), Counter())
    assert all(met[f"replica {number}"] for number in range(load.replicas)), met
    return heard, met


def events(load: ServiceLoad, fleet: ServiceFleet, postgres):
    """What is done after how many answers, evenly spread: a kill; a restart; a replica that starts while the database
    is away; and so on.
    """

    def both(kill, mode: str) -> None:
        fleet.settled()
        postgres.stop(mode)
        kill()
        time.sleep(AWAY)
        postgres.start()

    kills = [lambda place=number % load.replicas: fleet.kill(place) for number in range(load.kills)]
    restarts, acts = list(load.restarts), []
    while kills or restarts:
        acts += [kills.pop()] if kills else []
        acts += [partial(postgres.restart, restarts.pop())] if restarts else []
        acts += [partial(both, kills.pop(), restarts.pop())] if kills and restarts else []
    return [(load.queries * (number + 1) // (len(acts) + 1), act) for number, act in enumerate(acts)]


def documents(fleet: ServiceFleet, heard: list[Heard]) -> dict[str, dict[str, Any]]:
    """Every certificate that a client holds the id of, from any replica."""
    ids = {one.answer.certificate for one in heard if one.answer is not None and one.answer.certificate}
    fleet.settled()
    found = {}
    with httpx.Client(timeout=60) as client:
        for number, name in enumerate(sorted(ids)):
            address = fleet.services[number % len(fleet.services)].address
            answer = client.get(f"{address}/v2/certificates/{name}")
            assert answer.status_code == 200, (name, answer.text)
            found[name] = answer.json()
    return found


def replay_services(url: str, heard: list[Heard], tables: dict[str, dict[str, Any]]) -> Counter[str]:
    """No promise broken, none lost, every certificate as it was made; counts of what was told."""
    read = {name: parse_document(dict(table), name) for name, table in tables.items()}
    for name, document in read.items():
        found = check(document, None, again=False, words=with_words)
        assert found.problems == [], (name, found.problems)
    offered = [one for one in heard if one.answer is not None and one.answer.draws and one.mode == "certify"]
    rows = [told_truly(number, one, read[one.answer.certificate]) for number, one in enumerate(offered)]
    assert len({one.answer.certificate for one in offered}) == len(offered), "a certificate was given twice"
    centres, stored = replay_rows(url, rows, np.array([one.x for one in offered], dtype=np.float64))
    recalled = [one for one in heard if one.answer is not None and not one.answer.draws]
    for one in recalled:
        assert_held(one, centres, stored, read)
    assert_in_time(heard)
    kinds = Counter(row.settled.conflict or ("stored" if row.settled.stored else "answered") for row in rows)
    kept = {number for (number,) in regions_with_certificates(url)}
    return kinds + Counter({
        "regions": len(stored), "without certificate": len({ball[0] for ball in stored} - kept),
        "certified": len(offered), "recalled": len(recalled), "abstained": sum(one.answer is None for one in heard),
        "predicted": sum(one.answer is not None and one.answer.guarantee == "none" for one in heard),
        "certificates": len(read),
    })  # fmt: skip


def told_truly(number: int, one: Heard, document: ReadDocument):
    """The row of a certificate, which says of this input what its client was told."""
    row = document.row
    assert np.array_equal(document.x.numpy().reshape(-1), one.x)
    assert (row.predicted, row.radius) == (one.answer.label, one.answer.radius) and one.answer.guarantee == "memory"
    assert row.draws == one.answer.draws and row.settled is not None
    return replace(row, index=number)


def assert_held(one: Heard, centres: np.ndarray, stored: list[Any], read: dict[str, ReadDocument]) -> None:
    """An answer without a draw: a region of its label holds its ball, and its certificate is that of such a region."""
    assert one.answer.guarantee == "memory" and one.answer.radius > 0
    away = np.linalg.norm(centres.astype(np.float64) - one.x, axis=1)
    labels, radii = np.array([ball[1] for ball in stored]), np.array([ball[2] for ball in stored])
    holding = np.flatnonzero((labels == one.answer.label) & (away + one.answer.radius <= radii))
    assert len(holding), one
    if one.answer.certificate:
        settled = read[one.answer.certificate].row.settled
        assert settled.stored and settled.seen in holding, one


def regions_with_certificates(url: str) -> list[tuple[int]]:
    import psycopg

    with psycopg.connect(url.partition("?")[0]) as base:
        memory = base.execute(f'SELECT identity FROM "{Address.parse(url).name}".memory').fetchone()[0]
        ask = "SELECT region FROM smoothcert_evidence.smoothcert_region_certificates WHERE memory = %s"
        return base.execute(ask, (memory,)).fetchall()
