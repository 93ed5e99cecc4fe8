"""Ray: the same rows as without it, whoever dies; the same one-line errors; nothing written when it cannot start.

All tests share one cluster of two workers: starting it takes longer than most of them.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_run

from smoothcert.classifiers import digest, load
from smoothcert.engine.cluster import Cluster
from smoothcert.engine.ray import DEPTH, Ray
from smoothcert.errors import ModelError, OptionError, SmoothcertError
from smoothcert.preparation.per_input_sigma import PerInputSigma
from smoothcert.procedures.certify import Certify
from smoothcert.progress import Watcher
from smoothcert.runs.certify import carry_out
from smoothcert.runs.store import read
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.spending import Spending

pytest.importorskip("ray")
pytestmark = pytest.mark.xdist_group("ray")

TESTS = Path(__file__).parent.parent
INPUTS, DRAWS = 64, 1000  # about 1100 batches: seconds of work for two slow workers, four units at least

# Slow enough to be caught at work, and it leaves word of the process it ran in.
SLOW = """
import os, pathlib, time
import linear, torch

HERE = pathlib.Path(__file__).parent
PIDS = HERE / "pids"

if (HERE / "driver").exists() and (HERE / "driver").read_text() != str(os.getpid()):
    (HERE / "met" / str(os.getpid())).touch()  # two workers begin together
    while len(list((HERE / "met").iterdir())) < 2:
        time.sleep(0.01)

def score(x):
    PIDS.mkdir(exist_ok=True)
    (PIDS / str(os.getpid())).touch()
    time.sleep(0.005)
    return linear.score(x)

def nan_in_batches(x):
    return linear.score(x) * (1.0 if len(x) == 1 else float("nan"))

def fatal_in_batches(x):
    if len(x) > 1:
        os._exit(1)
    return linear.score(x)
"""

DRIVER = """
import sys
sys.path[:0] = [{tests!r}, {folder!r}]
from pathlib import Path
from test_ray import make
from smoothcert.engine.cluster import Cluster
make(Path({folder!r}), "run", "{module}:score", Cluster({address!r}))
"""


@pytest.fixture(scope="module")
def cluster():
    with Cluster(workers=2).connected():
        yield Cluster(workers=2)


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A folder with data and a slow classifier; the classifier's module, under a name of its own."""
    name = f"slow_{os.getpid()}_{time.monotonic_ns()}"
    (tmp_path / f"{name}.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(tmp_path))
    small_run.write_data(tmp_path / "data.npz", INPUTS)
    return name


def make(folder, run, model, cluster=None, watcher=None, data="data.npz", **changes):
    recipe, inputs = small_run.recipe_for(folder / data, n=DRAWS)
    classifier = load(model)
    question = dataclasses.replace(recipe.spec, model=model, model_digest=digest(model).hex, **changes)
    carry_out(dataclasses.replace(recipe, spec=question), folder / run, inputs, classifier, watcher, cluster)
    return [dataclasses.replace(row, seconds=None) for row in read(folder / run).rows]


def stored(folder) -> int:
    try:
        connection = sqlite3.connect(f"file:{folder / 'certificates.sqlite'}?mode=ro", uri=True)
        return connection.execute("SELECT count(*) FROM certificates").fetchone()[0]
    except sqlite3.OperationalError:  # not yet created
        return 0


def test_nothing_answers_at_an_address(tmp_path):
    small_run.write_data(tmp_path / "data.npz")
    with pytest.raises(OptionError, match=r"nothing answers at 127\.0\.0\.1:1$"):
        make(tmp_path, "run", "linear:score", Cluster("127.0.0.1:1"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("address", ["", "here", "host:", ":6379", "ray://host:10001", "host:port"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(OptionError, match="ray must be local or the HOST:PORT"):
        Cluster(address)


@pytest.mark.parametrize("options", [{"workers": 0}, {"threads": 0}])
def test_no_workers_or_threads_are_refused(options):
    with pytest.raises(OptionError, match="must be a positive whole number; got 0"):
        Cluster(**options)


def test_without_ray_it_says_what_to_install(tmp_path, monkeypatch):
    small_run.write_data(tmp_path / "data.npz")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(OptionError, match=r"pip install 'smoothcert\[ray\]'"):
        make(tmp_path, "run", "linear:score", Cluster())
    assert not (tmp_path / "run").exists()


def test_rows_are_those_of_the_local_run(tmp_path, cluster):
    small_run.write_data(tmp_path / "data.npz", INPUTS)
    told, drawn, finished = [], [], []
    watcher = Watcher(lambda *numbers: told.append(numbers), drawn.append, finished.append)
    local = make(tmp_path, "local", "linear:score")
    assert make(tmp_path, "ray", "linear:score", cluster, watcher) == local
    assert len(local) == INPUTS and told == [(INPUTS, 0, 50 + DRAWS)]
    assert finished == [50 + DRAWS] * INPUTS and sum(drawn) == INPUTS * (50 + DRAWS + 1)
    assert "drawn by 2 Ray workers with 1 threads each" in read(tmp_path / "ray").means.notes


def test_one_input_is_split_between_workers(tmp_path, slow, cluster):
    small_run.write_data(tmp_path / "one.npz", 1)
    (tmp_path / "driver").write_text(str(os.getpid()))
    for name, sampling in (("fixed", Fixed(20_000)), ("looks", Spending((0.05,), cap=20_000))):
        for folder in ("pids", "met"):
            shutil.rmtree(tmp_path / folder, ignore_errors=True)
        (tmp_path / "met").mkdir()
        asked = {"data": "one.npz", "procedure": Certify(50, sampling)}
        rows = make(tmp_path, name, f"{slow}:score", cluster, **asked)
        assert len({int(path.name) for path in (tmp_path / "pids").iterdir()} - {os.getpid()}) == 2
        assert rows == make(tmp_path, f"{name}, local", "linear:score", **asked)


def test_workers_choose_the_noise_of_each_input(tmp_path, cluster):
    small_run.write_data(tmp_path / "data.npz", 70)  # several chunks
    search = PerInputSigma(search="votes", draws=20, evaluations=100)
    chosen = []
    watcher = Watcher(choosing=chosen.append)
    rows = make(tmp_path, "ray", "linear:score", cluster, watcher, preparation=search)
    assert rows == make(tmp_path, "local", "linear:score", preparation=search)
    assert len({row.sigma for row in rows}) > 3 and sum(chosen) == 70 * search.copies


def test_a_killed_driver_is_resumed_and_a_killed_worker_costs_nothing_but_time(tmp_path, slow, cluster, monkeypatch):
    kept = killed_driver(tmp_path, slow)
    assert 3 < kept < INPUTS, "the kill must land while work is under way"
    killed, lost, told, bury = [], [], [], Ray._bury

    def started(*numbers):
        """Those of the dead driver are forgotten; Ray ends them before the new ones have imported torch."""
        told.append(numbers)
        shutil.rmtree(tmp_path / "pids")

    def kill(rows):
        """At the first report of draws, one of those that made them."""
        if rows and not killed:
            pids = {int(path.name) for path in (tmp_path / "pids").iterdir()} - {os.getpid()}
            killed.append(min(pid for pid in pids if alive(pid)))
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(Ray, "_bury", lambda self, hired: (lost.append(len(hired.parcels)), bury(self, hired)))
    rows = make(tmp_path, "run", f"{slow}:score", cluster, Watcher(started=started, rows=kill))
    assert told == [(INPUTS, kept, 50 + DRAWS)]  # what was kept is not drawn again
    assert len(killed) == 1 and len(lost) == 1 and 0 < lost[0] <= DEPTH, "the kill must land while work is under way"
    assert rows == make(tmp_path, "whole", "linear:score")


def alive(pid) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def killed_driver(folder, module) -> int:
    """A driver of its own on the same cluster, killed at work; how many inputs it had kept."""
    import ray

    # Joined, not started: Ray has put its token mode into our environment.
    address = ray.get_runtime_context().gcs_address
    text = DRIVER.format(tests=str(TESTS), folder=str(folder), module=module, address=address)
    paths = os.pathsep.join([str(TESTS), str(TESTS / "engine"), str(folder)])
    with (folder / "errors").open("w") as errors:
        driver = subprocess.Popen([sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": paths}, stderr=errors)
    while stored(folder / "run") <= 3 and driver.poll() is None:
        time.sleep(0.02)
    driver.send_signal(signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL, (folder / "errors").read_text()
    return stored(folder / "run")


def test_an_error_of_a_worker_is_the_local_one(tmp_path, slow, cluster):
    small_run.write_data(tmp_path / "one.npz", 1)
    model = f"{slow}:nan_in_batches"
    with pytest.raises(ModelError) as local:
        make(tmp_path, "local", model, data="one.npz")
    with pytest.raises(ModelError) as remote:
        make(tmp_path, "ray", model, cluster, data="one.npz")
    assert type(remote.value) is ModelError and str(remote.value) == str(local.value)
    assert "got NaN" in str(remote.value) and "\n" not in str(remote.value)


def test_an_input_that_kills_every_worker_is_named(tmp_path, slow, cluster, monkeypatch):
    monkeypatch.setattr("smoothcert.engine.ray.TRIES", 2)
    small_run.write_data(tmp_path / "one.npz", 1)
    with pytest.raises(SmoothcertError, match="input 0: 2 Ray workers died while they had it"):
        make(tmp_path, "run", f"{slow}:fatal_in_batches", cluster, data="one.npz")


def test_a_worker_refuses_another_model(tmp_path, cluster):
    small_run.write_data(tmp_path / "one.npz", 1)  # one input, one worker
    recipe, inputs = small_run.recipe_for(tmp_path / "one.npz")
    question = dataclasses.replace(recipe.spec, model_digest="another")
    with pytest.raises(ModelError, match=r"^on .*: model linear:score must be the driver's; its hash differs$"):
        carry_out(
            dataclasses.replace(recipe, spec=question),
            tmp_path / "run",
            inputs,
            load("linear:score"),
            None,
            cluster,
        )


def test_sigterm_keeps_its_meaning(cluster):
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # Ray would have put its own exit there
