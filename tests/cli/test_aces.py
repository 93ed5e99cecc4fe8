"""`smoothcert aces labels`: from a run over training inputs to a selection network that has learnt something."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import small_run

from smoothcert.classifiers import load
from smoothcert.cli.main import run
from smoothcert.data import load as load_data
from smoothcert.runs.store import read


@pytest.fixture
def smoothcert(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(line):
        code = run(line.split())
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_selection_network_learns_what_the_certified_one_can_do(smoothcert):
    """A weak network on noisy digits is right about some of them; a second one learns which."""
    train = "train --data digits --arch digits_cnn --sigma 0.5 --batch 64 --schedule one_cycle --threads 1"
    assert smoothcert(f"{train} --epochs 3 --set width=4 --out base")[0] == 0
    assert smoothcert("predict base --data digits --split train --sigma 0.5 --n 50 --threads 1 --out run")[0] == 0
    code, out, _ = smoothcert("aces labels run --eta 0.7 --out labels.npz")
    assert code == 0

    rows = read(Path("run")).rows
    with np.load("labels.npz") as file:
        indices, labels = file["index"], file["label"]
    assert indices.tolist() == [row.index for row in rows]
    votes = [next(a.counts[0][row.label] for a in row.answers if a.purpose == "predict") for row in rows]
    assert labels.tolist() == [int(vote > 35) for vote in votes]
    majority = max(labels.mean(), 1 - labels.mean())
    assert f"label 1 (more than 0.7 of 50 draws right): {labels.sum():,}" in out and f"{majority:.1%}" in out

    assert smoothcert(f"{train} --epochs 6 --labels labels.npz --out select")[0] == 0
    inputs = load_data("digits", "train").chosen(indices)
    answers = load("select")(inputs.tensors()).argmax(dim=1).numpy()
    assert (answers == labels).mean() > majority + 0.1


@pytest.mark.parametrize(("options", "line", "words"), [
    ("--split test --n 100", "--out labels.npz", "must be over the training inputs (--split train); got split 'test'"),
    ("--split train --radius 0.1", "--out labels.npz", "must have equally many draws for every input"),
    ("--split train --n 100", "--out labels.csv", "--out must be a file name that ends in .npz"),
    ("--split train --n 100", "--eta 1 --out labels.npz", "eta of the selection labels must be in [0, 1)"),
    ("--split train --n 100", "--eta 0.8 --out no/labels.npz", "must be writable"),
])  # fmt: skip
def test_other_runs_and_options_are_refused(smoothcert, tmp_path, options, line, words):
    small_run.write_data(tmp_path / "few.npz", number=40)
    assert smoothcert(f"certify linear:score --data few.npz --sigma 0.25 {options} --out run")[0] == 0
    code, _, err = smoothcert(f"aces labels run {line}")
    assert code == 2 and words in err and err.count("\n") == 1
    assert not list(tmp_path.glob("labels*"))


def test_no_run_is_one_line(smoothcert):
    code, _, err = smoothcert("aces labels nowhere --out labels.npz")
    assert code == 2 and "must be the folder of a run" in err
