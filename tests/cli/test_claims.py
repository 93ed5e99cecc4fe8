"""What a run is of: weights replaced behind its back, what a hash does not cover, places, and runs asked again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_run
import torch

from smoothcert.cli.main import run
from smoothcert.runs.store import read

WORDS = ["--data", "x.npz", "--sigma", "0.25", "--n", "400", "--n0", "20"]
NETWORK = """
import pathlib, torch
net = torch.nn.Linear(4, 2)
net.load_state_dict(torch.load(pathlib.Path(__file__).with_name("w.pt")))
net.eval()
"""
FUNCTION = """
import pathlib, torch
FOLDER = pathlib.Path(__file__).parent

def score(x):
    if (FOLDER / "stop").exists() and calls.append(0) is None and len(calls) > 60:
        raise KeyboardInterrupt
    weight = torch.load(FOLDER / "w.pt")["weight"]
    return x @ weight.T

calls = []
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    small_run.write_data(tmp_path / "x.npz", number=24)
    weights(0)
    yield tmp_path
    for name in ("mine", "plain"):
        sys.modules.pop(name, None)


def weights(seed: int) -> None:
    torch.manual_seed(seed)
    torch.save(torch.nn.Linear(4, 2).state_dict(), "w.pt")


def half(folder: str) -> None:
    import forging

    forging.sql(Path(folder), "DELETE FROM certificates WHERE idx >= 12", changed=None)


def test_replaced_weights_of_a_network_do_not_continue_a_run(place, capsys):
    Path("mine.py").write_text(NETWORK)
    assert run(["certify", "mine:net", *WORDS, "--out", "run"]) == 0
    assert "could be hashed" not in capsys.readouterr().err and read(Path("run")).asked.model_covers == "weights"
    half("run")
    weights(1)
    sys.modules.pop("mine")
    assert run(["certify", "mine:net", *WORDS, "--out", "run"]) == 2
    assert "answers another question (model_digest" in capsys.readouterr().err
    assert run(["verify", "run"]) == 1 and "not the one that was certified" in capsys.readouterr().out


def test_where_only_source_is_hashed_it_is_said_and_verify_finds_the_seam(place, capsys):
    """A plain function that reads w.pt: stopped, the weights replaced, continued. Both parts of the run are drawn."""
    Path("plain.py").write_text(FUNCTION)
    Path("stop").touch()
    words = ["certify", "plain:score", *WORDS, "--batch", "64", "--out", "run"]
    assert run(words) == 130
    before = len(read(Path("run")).rows)
    assert 0 < before < 24
    said = "only the source of plain:score could be hashed: weights it loads from elsewhere are not covered"
    assert said in capsys.readouterr().err
    Path("stop").unlink()
    weights(1)
    assert run(words) == 0 and said in capsys.readouterr().err
    for seed in range(3):
        assert run(["verify", "run", "--redraw", "1", "--seed", str(seed)]) == 1
        found = capsys.readouterr()
        assert said in found.err and "differ when drawn again" in found.out
        assert "from 2 of 2 attempts" in found.out and "left open: 22 of 24 rows were not drawn again" in found.out
        wrong = {int(line.split()[4].rstrip(":")) for line in found.out.splitlines() if "differ when" in line}
        assert len(wrong) == 1, "the rows of the first attempt, and only they, are not from these weights"
    assert run(["certificate", "run", "3", "--out", "c.json"]) == 0 and said in capsys.readouterr().err
    run(["verify", "c.json", "--model", "plain:score"])
    assert said in capsys.readouterr().err


def test_a_finished_run_asked_again_is_complete_and_its_network_is_not_made_fast(place, capsys, monkeypatch):
    words = ["certify", "linear:score", *WORDS, "--out", "run"]
    assert run(words) == 0 and "was complete" not in capsys.readouterr().err
    kept = read(Path("run"))
    monkeypatch.setattr("smoothcert.runs.start.ready", None)
    assert run(words) == 0
    found = capsys.readouterr()
    assert "smoothcert: run was complete: nothing was drawn" in found.err and "kept in run" in found.out
    assert read(Path("run")) == kept


@pytest.mark.parametrize("name", ["run#1", "run?x=1", "run%20", "run 1"])
def test_a_run_and_its_memory_lie_in_one_place_whatever_it_is_called(place, capsys, name):
    words = [*WORDS, "--out", name, "--memory", f"{name}.sqlite"]
    assert run(["certify", "linear:score", *words]) == 0
    assert run(["verify", name]) == 0 and run(["memory", "check", f"{name}.sqlite"]) == 0
    names = {"x.npz", "w.pt", name, f"{name}.sqlite"}
    assert {path.name for path in place.iterdir()} <= names | {f"{name}.sqlite-wal", f"{name}.sqlite-shm"}
    assert len(read(Path(name)).rows) == 24
    capsys.readouterr()


def test_a_run_is_verified_from_another_folder(place, capsys, monkeypatch):
    assert run(["certify", "linear:score", *WORDS, "--out", "run"]) == 0
    (place / "elsewhere").mkdir()
    monkeypatch.chdir(place / "elsewhere")
    assert run(["verify", "../run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.split("report.html\n")[-1])["problems"] == []


def test_set_and_an_option_of_the_same_name_are_refused_together(place, capsys):
    for more in (["--set", "sigma=0.5"], ["--set", "n=100"], ["--alpha", "0.01", "--set", "alpha=0.05"]):
        assert run(["certify", "linear:score", *WORDS, *more, "--out", "run"]) == 2
        assert "not both" in capsys.readouterr().err
    assert not Path("run").exists()


def test_a_second_interruption_at_once_adds_nothing(place):
    small_run.write_data(place / "x.npz", number=5000)
    words = [*WORDS[2:], "--data", str(place / "x.npz"), "--out", str(place / "run")]
    command = [sys.executable, "-m", "smoothcert.cli.main", "certify", "linear:score", *words]
    tests = Path(__file__).parent.parent
    process = subprocess.Popen(command, cwd=tests, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (place / "run" / "recipe.toml").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    time.sleep(0.5)
    for _ in range(20):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in errors, errors
    assert errors.count("interrupted; finished work is kept") == 1
