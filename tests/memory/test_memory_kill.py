"""Four processes admit at once and are killed at random moments: the file opens, and no acknowledged region is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import time

import numpy as np
import pytest
from victims import context

from smoothcert.memory import Memory, regions

WORKERS, DIM = 4, 6


def offer(rng):
    return rng.random(DIM, dtype=np.float32), int(rng.integers(3)), float(rng.uniform(0, 0.35))


def work(path, log, seed):
    """The victim: admits for ever, and writes down every answer it was given."""
    regions.FIRST, regions.AGAIN = 8, 2  # new directions, which rewrite many rows, are chosen often
    rng = np.random.default_rng(seed)
    with Memory.open(path) as memory, log.open("a", buffering=1) as told:
        while True:
            x, label, radius = offer(rng)
            settled = memory.admit(x, label, radius)
            told.write(json.dumps([x.tolist(), settled.label, settled.radius, settled.stored]) + "\n")


def acknowledged(folder):
    """Whole lines of all logs; a kill may have cut the last one short."""
    for log in sorted(folder.glob("log*")):
        for line in log.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                x, *rest = json.loads(line)
                yield np.array(x, dtype=np.float32), *rest


def assert_kept(folder):
    with Memory.open(folder / "m", frozen=True) as memory:
        assert memory.check() == []
        stored = 0
        for x, label, radius, was_stored in acknowledged(folder):
            stored += was_stored
            found = memory.query(x)
            assert radius == 0 or (found is not None and found.label == label and found.radius >= radius)
        assert len(memory) >= stored
        return stored


def kill(folder, kills, pause):
    Memory.create(folder / "m", "abc", "l2", (DIM,)).close()
    chance, seeds = random.Random(0), iter(range(10**6))

    def start():
        seed = next(seeds)
        victim = context.Process(target=work, args=(folder / "m", folder / f"log{seed}", seed), daemon=True)
        victim.start()
        return victim

    victims = [start() for _ in range(WORKERS)]
    begun = time.monotonic()
    while sum(1 for _ in acknowledged(folder)) < 2 * WORKERS:
        assert time.monotonic() - begun < 60 and all(victim.is_alive() for victim in victims)
        time.sleep(0.05)
    for number in range(kills):
        time.sleep(chance.uniform(0.0, pause))
        place = chance.randrange(WORKERS)
        end(victims[place])
        if number % 10 == 9:
            with Memory.open(folder / "m") as memory:  # while the others go on
                assert memory.check() == []
        victims[place] = start()
    for victim in victims:
        end(victim)


def end(victim):
    assert victim.is_alive() and victim.pid is not None, "a victim stopped by itself"
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()


def test_thirty_kills_lose_nothing_that_was_acknowledged(tmp_path):
    kill(tmp_path, kills=30, pause=0.25)
    assert assert_kept(tmp_path) > 30


@pytest.mark.study
def test_fifty_kills_lose_nothing_that_was_acknowledged(tmp_path):
    kill(tmp_path, kills=50, pause=2.0)
    assert assert_kept(tmp_path) > 200
