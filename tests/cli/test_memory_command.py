"""memory, certify --memory, predict --memory and verify from the command line, on certificates that conflict."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import forging
import islands
import pytest

from smoothcert.cli.main import run
from smoothcert.memory import Memory
from smoothcert.runs.store import read

TESTS = Path(__file__).parent.parent
BASE = ("islands:score", "--n", "300", "--n0", "50", "--alpha", "0.05", *islands.LEVELS)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("islands")
    islands.write_data(folder / "data.npz")
    assert certify(folder, "run", "--memory", str(folder / "m")) == 0
    return folder


def certify(folder, out, *options):
    return run(["certify", *BASE, "--data", str(folder / "data.npz"), "--out", str(folder / out), *options])


def words(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_the_run_says_what_its_radii_are(place, capsys):
    assert run(["report", str(place / "run"), "--html", str(place / "page.html")]) == 0
    said = words(capsys)
    assert "every later query inside it gets this label from this memory" in said and "NOT CERTIFIED" not in said
    assert "the memory gave 6 the label of a region around them, shrank 10" in said
    page = (place / "page.html").read_text()
    assert "NOT CERTIFIED" not in page and "What the memory changed" in page and "took the label of region" in page
    for layout in ("md", "latex"):
        assert run(["report", str(place / "run"), "--tables", layout]) == 0
        assert "from this memory" in words(capsys)
    assert run(["report", str(place / "run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["memory"]
    assert (found["settled"]["switched"], found["settled"]["shrunk"]) == (6, 10)
    assert found["levels"]["start"] == 0.02 and found["levels"]["most"] == 0.2


def test_verify_replays_the_memory_wherever_it_is(place, capsys):
    assert run(["verify", str(place / "run")]) == 0
    assert "40 answers of the memory replayed: all as recorded" in capsys.readouterr().out
    (place / "m").rename(place / "moved")
    try:
        assert run(["verify", str(place / "run")]) == 2
        assert "--memory says where it is now" in capsys.readouterr().err
        assert run(["verify", str(place / "run"), "--memory", str(place / "moved")]) == 0
    finally:
        (place / "moved").rename(place / "m")


def test_verify_exits_1_when_the_memory_says_otherwise(place, tmp_path, capsys):
    import shutil

    shutil.copytree(place / "run", tmp_path / "run")
    forging.sql(tmp_path / "run", "UPDATE settlements SET radius = radius * 1.1 WHERE idx = 7")
    forging.rechain(tmp_path / "run")
    assert run(["verify", str(tmp_path / "run")]) == 1
    assert "NOT AS RECORDED input 7: the memory's rule gives" in words(capsys)


def test_stats_check_and_query(place, capsys):
    file, data = str(place / "m"), str(place / "data.npz")
    assert run(["memory", "stats", file]) == 0
    assert "l2, inputs (2,): 33 regions" in words(capsys)
    assert run(["memory", "stats", file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["regions"] == sum(label["regions"] for label in found["labels"]) == 33 and found["shape"] == [2]
    assert run(["memory", "check", file]) == 0
    assert "33 regions: no two of different labels meet" in words(capsys)
    assert run(["memory", "query", file, "--data", data, "--json"]) == 0
    rows = read(place / "run").rows
    for answer, row in zip(json.loads(capsys.readouterr().out), rows, strict=True):
        assert row.radius == 0 or (answer["label"] == row.predicted and answer["radius"] >= row.radius)
    assert run(["memory", "query", file, "--data", data, "--start", "3", "--max", "4"]) == 0
    assert "of 1 inputs of" in words(capsys)


def test_check_exits_1_and_names_the_regions(place, tmp_path, capsys):
    import shutil

    shutil.copy(place / "m", tmp_path / "m")
    with sqlite3.connect(tmp_path / "m") as base:
        base.execute("UPDATE regions SET radius = 2, certified = 2 WHERE id = 3")
    assert run(["memory", "check", str(tmp_path / "m")]) == 1
    assert "WRONG regions" in words(capsys)


def test_create_is_for_one_classifier_norm_and_shape(place, tmp_path, capsys):
    file = str(tmp_path / "m")
    assert run(["memory", "create", file, "islands:score", "--shape", "2"]) == 0
    assert run(["memory", "create", file, "islands:score", "--shape", "2"]) == 2
    assert "must not exist yet" in capsys.readouterr().err
    assert certify(place, "other", "--memory", file, "--order", "reverse") == 0
    for shape, norm, said in (("3", "l2", "shape must be (3,)"), ("2", "l1", "norm must be l1")):
        other = str(tmp_path / f"m{shape}{norm}")
        assert run(["memory", "create", other, "islands:score", "--shape", shape, "--norm", norm]) == 0
        capsys.readouterr()
        assert certify(place, "no", "--memory", other) == 2
        assert said in capsys.readouterr().err and not (place / "no").exists()
    assert run(["memory", "create", str(tmp_path / "z"), "linear:score", "--shape", "2"]) == 0
    capsys.readouterr()
    assert certify(place, "no", "--memory", str(tmp_path / "z")) == 2
    assert "classifier must be" in capsys.readouterr().err


def test_frozen_draws_nothing_and_predict_only_outside(place, capsys):
    base = ["islands:score", "--data", str(place / "data.npz"), "--sigma", "0.02", "--memory", str(place / "m")]
    before = (place / "m").read_bytes()
    assert run(["certify", *base, "--frozen", "--out", str(place / "frozen")]) == 0
    said = words(capsys)
    assert "inside them it is a fixed function" in said
    assert all(row.draws == 0 for row in read(place / "frozen").rows)
    assert run(["verify", str(place / "frozen")]) == 0
    assert "0 of 40 inputs recomputed" in words(capsys)
    assert run(["report", str(place / "frozen"), "--html", str(place / "frozen.html")]) == 0
    assert "nothing was drawn" in words(capsys)
    assert run(["predict", *base, "--n", "200", "--out", str(place / "predict")]) == 0
    rows = read(place / "predict").rows
    assert {row.draws for row in rows} <= {0, 200} and all(
        (row.draws == 0) == (row.settled is not None) for row in rows
    )
    assert run(["verify", str(place / "predict")]) == 0
    assert run(["report", str(place / "predict"), "--html", str(place / "predict.html")]) == 0
    assert (place / "m").read_bytes() == before


@pytest.mark.parametrize(("options", "said"), [
    (["--order", "index"], "--order needs --memory"),
    (["--frozen"], "--frozen needs --memory"),
    (["--memory", "x", "--order", "size"], "--order must be one of index, radius, random, reverse; got 'size'"),
    (["--memory", "x", "--frozen"], "give --sigma-per-input or --frozen"),
    (["--memory", "x", "--frozen", "--order", "index"], "give --order or --frozen"),
    (["--memory", "x", "--against", "labels"], "--against must not be labels with --memory"),
])  # fmt: skip
def test_bad_options_are_one_line(place, capsys, options, said):
    capsys.readouterr()
    assert certify(place, "no", *options) == 2
    err = capsys.readouterr().err.splitlines()
    assert said in err[-1] and len(err) == 1 and not (place / "no").exists() and not Path("x").exists()


@pytest.mark.parametrize(("words_", "said"), [
    (["create", "m", "islands:score", "--shape", "2,x"], "--shape must be whole numbers"),
    (["create", "m", "islands:score", "--shape", "0"], "--shape must be whole numbers above 0"),
    (["create", "m", "islands:score", "--shape", "2", "--norm", "l7"], "norm of a memory must be one of l1, l2"),
    (["create", "m", "islands:nothing", "--shape", "2"], "model must name a callable"),
    (["stats", "none"], "none must be a memory; there is no such file"),
    (["check", "none"], "none must be a memory; there is no such file"),
    (["query", "none", "--data", "digits"], "none must be a memory; there is no such file"),
])  # fmt: skip
def test_nonsense_is_one_line(tmp_path, monkeypatch, capsys, words_, said):
    monkeypatch.chdir(tmp_path)
    assert run(["memory", *words_]) == 2
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 1 and said in err[0] and list(tmp_path.iterdir()) == []


def test_a_noise_without_a_memorys_norm_is_refused(place, tmp_path, capsys):
    noise = ["--noise", "discrete", "--set", "keep=0.8"]
    places = ["--data", str(place / "data.npz"), "--memory", str(tmp_path / "x"), "--out", str(tmp_path / "no")]
    command = ["certify", "islands:score", *noise, *places]
    assert run(command) == 2
    assert "norm of a noise with --memory must be one of l1, l2; got 'l0'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_in_the_memory_pass_is_resumable(place, tmp_path):
    """A command that is slow to admit, stopped in the middle, then carried on by the same command."""
    options = [
        *BASE,
        "--data",
        str(place / "data.npz"),
        "--memory",
        str(tmp_path / "m"),
        "--out",
        str(tmp_path / "run"),
    ]
    slow = (
        "import sys, time; from smoothcert.memory import Memory; admit = Memory.admit\n"
        "Memory.admit = lambda *a: (time.sleep(0.05), admit(*a))[1]\n"
        f"from smoothcert.cli.main import main; sys.argv = ['smoothcert', 'certify', *{options!r}]; main()"
    )
    process = subprocess.Popen([sys.executable, "-c", slow], cwd=TESTS, stderr=subprocess.PIPE, text=True)
    database = tmp_path / "run" / "certificates.sqlite"
    for _ in range(1200):
        time.sleep(0.05)
        if database.exists() and settled(database) > 5:
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted; finished work is kept" in errors, errors
    assert "Traceback" not in errors and 5 < len(read(tmp_path / "run").rows) < 40
    assert run(["certify", *options]) == 0
    rows, whole = read(tmp_path / "run").rows, read(place / "run").rows
    assert [(r.predicted, r.radius) for r in rows] == [(r.predicted, r.radius) for r in whole]
    assert run(["verify", str(tmp_path / "run")]) == 0


def settled(database):
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as base:
            return base.execute("SELECT count(*) FROM settlements").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def test_the_same_in_l1(place, tmp_path, capsys):
    command = [
        "certify",
        *BASE,
        "--noise",
        "uniform",
        "--data",
        str(place / "data.npz"),
        "--out",
        str(tmp_path / "run"),
    ]
    assert run([*command, "--memory", str(tmp_path / "m")]) == 0
    record = read(tmp_path / "run")
    assert record.claim.norm == "l1" and any(row.settled.conflict for row in record.rows)
    assert run(["verify", str(tmp_path / "run")]) == 0 and run(["memory", "check", str(tmp_path / "m")]) == 0
    assert "l1" in (run(["memory", "stats", str(tmp_path / "m")]), words(capsys))[1]


def test_several_runs_share_a_memory(place, tmp_path):
    """The second run is held against the regions of the first, and both replay."""
    islands.write_data(tmp_path / "data.npz", 30, seed=5)
    assert certify(place, "first", "--memory", str(tmp_path / "m")) == 0
    command = ["certify", *BASE, "--data", str(tmp_path / "data.npz"), "--out", str(tmp_path / "second")]
    assert run([*command, "--memory", str(tmp_path / "m"), "--order", "radius"]) == 0
    assert min(row.settled.seen for row in read(tmp_path / "second").rows) == 33
    for folder in (place / "first", tmp_path / "second"):
        assert run(["verify", str(folder)]) == 0
    with Memory.open(tmp_path / "m", frozen=True) as memory:
        assert memory.check() == []
