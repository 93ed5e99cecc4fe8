"""Replicas of the service on one memory are killed, the database restarted: all that clients were told stays true."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from replicated import ServiceFleet, ServiceLoad, ask_services, documents, replay_services

from smoothcert.cli.main import run

pytestmark = pytest.mark.xdist_group("service replicas")


def carried_out(load: ServiceLoad, postgres, folder: Path, drawn: int, seconds: float):
    """All of it; `drawn` certificates are verified from the command line, and drawn again once the secrets are told."""
    url, begun = postgres.url(), time.monotonic()
    fleet = ServiceFleet(url, folder, load)
    try:
        heard, met = ask_services(load, postgres, url, fleet, seconds)
        took = time.monotonic() - begun
        tables = documents(fleet, heard)
    finally:
        fleet.end()
    found = replay_services(url, heard, tables)
    assert run(["memory", "check", url]) == 0
    told = [told_by(service) for service in fleet.services for _ in [run_reveal(service, url)]]
    for number, (name, table) in enumerate(sorted(tables.items())[:drawn]):
        (path := folder / f"{number}.json").write_text(json.dumps(table))
        secret = told[[one.stem for one in told].index(table["question"]["served"]["commitment"])]
        words = ["--secret", str(secret), "--model", "islands:score", "--memory", url]
        assert run(["verify", str(path), *words]) == 0, name
    return found, met, took


def run_reveal(service, url: str) -> None:
    state = str(state_of(service))
    assert run(["serve", "reveal", state, "--evidence", url.partition("?")[0]]) == 0


def state_of(service) -> Path:
    return Path(service.words[service.words.index("--state") + 1])


def told_by(service) -> Path:
    (path,) = (state_of(service) / "told").iterdir()
    return path


def test_queries_through_a_kill_and_a_restart(postgres, tmp_path: Path) -> None:
    load = ServiceLoad(queries=200, kills=1, restarts=("immediate",), dim=2, levels="0.01,0.05")
    found, met, _ = carried_out(load, postgres, tmp_path, drawn=6, seconds=120)
    assert met["ConnectError"] and found["switched"] + found["shrunk"] > 5 and found["recalled"] > 20, (found, met)


@pytest.mark.study
def test_ten_thousand_queries_through_kills_and_restarts(postgres, tmp_path: Path) -> None:
    load = ServiceLoad(queries=10_000, kills=8, restarts=("fast", "immediate") * 4, dim=3, levels="0.01,0.05")
    found, met, took = carried_out(load, postgres, tmp_path, drawn=100, seconds=1200)
    print(f"\n{dict(found)}\nmet: {dict(met)}\n{load.kills} kills, {len(load.restarts)} restarts, {took:.0f} s")
    assert found["switched"] > 10 and found["shrunk"] > 100, found
