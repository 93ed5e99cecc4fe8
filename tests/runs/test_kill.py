"""kill -9 at random moments of a certification, resumed each time: the same rows as if nothing had happened."""

from __future__ import annotations

import os
import random
import signal
import time

import small_run
from test_store import without_seconds
from victims import context

from smoothcert.runs.store import read

KILLS, INPUTS, DRAWS = 20, 150, 12_000


def work(folder, data, begun):
    """The victim: a real process that certifies until it is killed or done."""
    import torch

    from smoothcert.runs.certify import Watcher

    torch.set_num_threads(1)
    small_run.make(folder, data, Watcher(started=lambda *_: begun.set()), n=DRAWS)


def rows(folder) -> int:
    return len(read(folder).rows) if (folder / "recipe.toml").exists() else 0


def test_twenty_kills_lose_nothing_and_repeat_nothing(tmp_path):
    data = small_run.write_data(tmp_path / "data.npz", INPUTS)
    chance, kept = random.Random(0), [0]
    for _ in range(KILLS):
        begun = context.Event()
        victim = context.Process(target=work, args=(tmp_path / "run", data, begun))
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
