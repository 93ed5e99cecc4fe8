"""kill -9 at random moments of a job, continued each time: it ends as if nothing had happened.

Rows, settlements, regions and weights are compared with those of an undisturbed job. 20 kills here lose no row that was
stored; the jobs of kill_jobs.py get a few more in `make test`, and a thousand as a study.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import kill_jobs
import pytest
import small_run
import torch
from test_store import without_seconds
from victims import context

from smoothcert.progress import Watcher
from smoothcert.runs.store import read

KILLS, INPUTS, DRAWS = 20, 150, 12_000
AT_MOST = 12  # kills of one job; then it may end, and another begins


def certify(folder, data, begun):
    torch.set_num_threads(1)
    # Its pace does not depend on the machine: on a fast one it would be over before the last kill.
    watcher = Watcher(started=lambda *_: begun.set(), rows=lambda _: time.sleep(0.002))
    small_run.make(folder, data, watcher, n=DRAWS)


def rows(folder) -> int:
    return len(read(folder).rows) if (folder / "recipe.toml").exists() else 0


def test_twenty_kills_lose_nothing_and_repeat_nothing(tmp_path):
    data = small_run.write_data(tmp_path / "data.npz", INPUTS)
    chance, kept = random.Random(0), [0]
    for _ in range(KILLS):
        begun = context.Event()
        victim = context.Process(target=certify, args=(tmp_path / "run", data, begun))
        victim.start()
        assert begun.wait(60)
        time.sleep(chance.uniform(0.0, 0.5))
        assert victim.is_alive() and victim.pid is not None, "the job ended before the kill: make it longer"
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        assert victim.exitcode == -signal.SIGKILL
        kept.append(rows(tmp_path / "run"))
        assert kept[-1] >= kept[-2], "a stored row was lost"
        assert kept[-1] < INPUTS, "the job ended before the kill: make it longer"
    assert len(set(kept)) > 5  # some kills came after rows were stored, or nothing was shown
    small_run.make(tmp_path / "run", data, n=DRAWS)
    small_run.make(tmp_path / "whole", data, n=DRAWS)
    assert without_seconds(read(tmp_path / "run")) == without_seconds(read(tmp_path / "whole"))
    assert len(read(tmp_path / "run").rows) == INPUTS


@pytest.fixture(autouse=True)
def one_thread():
    """As the victims have it: sums in parallel may differ in the last bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def killed(name: str, place: Path, pause: float) -> bool:
    """One attempt, killed at a random moment from its very beginning on; False where it ended before."""
    begun = context.Event()
    victim = context.Process(target=kill_jobs.work, args=(name, place, begun))
    victim.start()
    assert begun.wait(60) and victim.pid is not None
    victim.join(pause)
    if victim.is_alive():
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
    assert victim.exitcode in (0, -signal.SIGKILL), "the job failed by itself"
    return victim.exitcode == -signal.SIGKILL


def leftovers(folder: Path) -> list[Path]:
    return list(folder.rglob("*.part"))


def kill_often(name: str, folder: Path, kills: int, seed: int = 0) -> int:
    """As many kills of living jobs, each continued to its end; how many jobs that took."""
    job, chance, count = kill_jobs.JOBS[name], random.Random(seed), 0
    job.prepare(folder)
    job.carry(folder / "whole")
    whole = job.result(folder / "whole")
    while kills:
        count += 1
        place, left = folder / f"killed{count}", min(kills, AT_MOST)
        while left and killed(name, place, chance.uniform(0.0, job.pause)):
            kills, left = kills - 1, left - 1
        job.carry(place)
        assert job.result(place) == whole, f"job {count}"
        assert leftovers(place) == []
    return count


@pytest.mark.parametrize(("name", "kills"), [("memory", 6), ("train", 4)])
def test_a_killed_job_ends_as_if_nothing_had_happened(tmp_path, name, kills):
    kill_often(name, tmp_path, kills)


@pytest.mark.study
@pytest.mark.parametrize("share", range(10))
@pytest.mark.parametrize(
    ("name", "kills"), [("fixed", 20), ("spending", 20), ("ensemble", 20), ("memory", 20), ("train", 12)]
)
def test_a_thousand_kills_change_nothing(tmp_path, name, kills, share):
    """920 of them: with 40 of Ray's drivers and 40 of its workers (tests/engine/test_ray_kill.py) a thousand."""
    kill_often(name, tmp_path, kills, seed=1 + share)
