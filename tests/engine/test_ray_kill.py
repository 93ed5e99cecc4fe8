"""kill -9 of Ray's drivers and workers at random moments, as a study: the rows are those of a local run."""

from __future__ import annotations

import os
import random
import shutil
import signal

import pytest
from test_ray import alive, make
from victims import context

import smoothcert.engine.ray as engine
from smoothcert.engine.cluster import Cluster
from smoothcert.progress import Watcher

pytest.importorskip("ray")
pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.study]

KILLS, AT_MOST = 40, 4  # in all, and of one run; then it may end

from test_ray import cluster, slow  # noqa: E402, F401  fixtures: a cluster of two workers, and a slow classifier


def drive(folder, run, model, address, begun):
    """The victim: a driver that has joined the cluster and begun to draw."""
    make(folder, run, model, Cluster(address), Watcher(rows=lambda _: begun.set()))


def test_killed_drivers_are_continued(tmp_path, slow, cluster):  # noqa: F811
    import ray

    expected, chance, left, count = make(tmp_path, "whole", "linear:score"), random.Random(0), KILLS, 0
    address, model = ray.get_runtime_context().gcs_address, f"{slow}:score"
    while left:
        count, kills = count + 1, min(left, AT_MOST)
        while kills:
            begun = context.Event()
            victim = context.Process(target=drive, args=(tmp_path, f"run{count}", model, address, begun))
            victim.start()
            assert begun.wait(120) and victim.pid is not None
            victim.join(chance.uniform(0.0, 1.5))
            if not victim.is_alive():
                assert victim.exitcode == 0
                break
            os.kill(victim.pid, signal.SIGKILL)
            victim.join()
            assert victim.exitcode == -signal.SIGKILL
            left, kills = left - 1, kills - 1
        assert make(tmp_path, f"run{count}", model, cluster) == expected


def test_killed_workers_cost_nothing_but_time(tmp_path, slow, cluster, monkeypatch):  # noqa: F811
    expected, chance, count, total = make(tmp_path, "whole", "linear:score"), random.Random(0), 0, 0
    buried, bury = [], engine.Ray._bury
    monkeypatch.setattr(
        engine.Ray, "_bury", lambda self, hired: (buried.append(bool(hired.parcels)), bury(self, hired))
    )
    while total < KILLS:
        count, killed = count + 1, []
        buried.clear()
        shutil.rmtree(tmp_path / "pids", ignore_errors=True)  # numbers of earlier workers may be anybody's now

        def kill(rows, killed=killed):
            """At some reports of draws, one of those that made them; as many as an input may lose, and one less."""
            pids = {int(path.name) for path in (tmp_path / "pids").glob("*")} - {os.getpid(), *killed}
            living = [pid for pid in pids if alive(pid)]
            if rows and living and len(killed) < engine.TRIES - 1 and chance.random() < 0.3:
                killed.append(chance.choice(living))
                os.kill(killed[-1], signal.SIGKILL)

        assert make(tmp_path, f"run{count}", f"{slow}:score", cluster, Watcher(rows=kill)) == expected
        total += sum(buried)  # those that were found dead with work in hand; a kill may also meet one who is free
    assert total >= KILLS
