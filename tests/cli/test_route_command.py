"""`smoothcert route`: labels for a selector, a certified route, and what it did."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import small_run

from smoothcert.cli.main import run
from smoothcert.report.sections.route import routed
from smoothcert.runs.recompute import composition
from smoothcert.runs.store import read

FEW = "--data few.npz --n 400 --n0 20 --alpha 0.05"
BRANCHES = "--branch switches:core@0.12 --branch linear:score@0.5"


@pytest.fixture
def smoothcert(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    small_run.write_data(tmp_path / "few.npz", number=60)

    def call(line):
        code = run(line.split())
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def taken(run):
    return routed(composition(read(Path(run)), "route"))


def test_a_route_is_certified_verified_and_explained(smoothcert):
    line = f"route certify {BRANCHES} --select switches:select --sigma 0.25 {FEW} --out run"
    code, out, _ = smoothcert(line)
    assert code == 0 and "selector binds" in out and "0 (σ = 0.12)" in out
    assert "all as recorded" in smoothcert("verify run --redraw 10")[1]
    found, rows = taken("run"), read(Path("run")).rows
    assert sum(branch.taken for branch in found.branches) + found.unsure == found.inputs == 60
    assert all(branch.taken > 3 for branch in found.branches)
    gain = sum(row.radius for row in rows if row.correct)
    assert sum(branch.gain for branch in found.branches) == pytest.approx(gain)
    positive = sum(row.radius > 0 for row in rows)
    assert sum(branch.bound_by_selector + branch.bound_by_branch for branch in found.branches) == positive
    assert sum(branch.bound_by_selector for branch in found.branches) > 0
    assert sum(branch.abstained for branch in found.branches) + found.unsure == sum(row.predicted < 0 for row in rows)
    # An unsure selector costs its own draws only; a sure one those of the branch too.
    assert {row.draws for row in rows} == {420, 840}
    assert smoothcert("route show run")[1] in out
    assert json.loads(smoothcert("report run --json")[1])["acr"] == pytest.approx(gain / 60)
    assert smoothcert(line.replace("0.5 --select", "0.6 --select"))[0] == 2  # another composition in the same place


def test_a_core_branch_and_a_known_radius(smoothcert):
    """With a radius, selector and branch are each tested for it and draw far less."""
    branches = "--branch switches:core@core --branch linear:score@0.5"
    line = f"route certify {branches} --select switches:select --sigma 0.5 --data few.npz --alpha 0.05"
    assert smoothcert(f"{line} --radius 0.1 --out run")[0] == 0
    rows = read(Path("run")).rows
    assert {row.radius for row in rows} == {0.0, 0.1}
    assert np.mean([row.draws for row in rows]) < 20_000
    found = taken("run")
    assert found.branches[0].name == "0 (core)" and found.branches[0].taken > 0 and found.branches[0].gain == 0.0
    assert "all as recorded" in smoothcert("verify run --redraw 3")[1]


def test_a_selector_learns_which_noise_is_best(smoothcert):
    """Digits at two levels of noise: labels by the larger radius, a network trained on them, a route of all three."""
    train = "train --data digits --arch digits_cnn --batch 64 --schedule one_cycle --threads 1 --set width=6"
    for name, sigma in (("low", 0.25), ("high", 0.75)):
        assert smoothcert(f"{train} --sigma {sigma} --epochs 4 --out {name}")[0] == 0
        line = f"certify {name} --data digits --split train --skip 5 --sigma {sigma} --n 100 --alpha 0.05 --threads 1"
        assert smoothcert(f"{line} --out {name}-train")[0] == 0
    code, out, _ = smoothcert("route labels low-train high-train --out labels.npz")
    assert code == 0 and "best branch: 0 for" in out
    with np.load("labels.npz") as file:
        indices, best = file["index"], file["label"]
    by_index = [
        {row.index: row.radius * row.correct for row in read(Path(f"{name}-train")).rows} for name in ("low", "high")
    ]
    assert sorted(indices.tolist()) == sorted(i for i in by_index[0] if max(g[i] for g in by_index) > 0)
    assert best.tolist() == [int(by_index[1][i] > by_index[0][i]) for i in indices.tolist()]

    assert smoothcert(f"{train} --sigma 0.5 --epochs 4 --labels labels.npz --out selector")[0] == 0
    line = "--data digits --max 60 --n 300 --alpha 0.05 --threads 1 --out route"
    code, out, _ = smoothcert(
        f"route certify --branch low@0.25 --branch high@0.75 --select selector --sigma 0.5 {line}"
    )
    assert code == 0
    found = taken(Path("route"))
    assert found.inputs == 60 and sum(branch.correct for branch in found.branches) > 20


@pytest.mark.parametrize(("line", "words"), [
    ("--branch linear:score@0.25", "--branch must be given at least twice; got 1"),
    ("--branch linear:score --branch linear:score@0.5", "--branch must be MODEL@SIGMA or MODEL@core"),
    ("--branch linear:score@soft --branch linear:score@0.5", "--branch must be MODEL@SIGMA or MODEL@core"),
    ("--branch linear:score@-1 --branch linear:score@0.5", "sigma of gaussian must be a positive number"),
    (f"{BRANCHES} --branch linear:score@1", "the selector must have 3 classes, one a branch; got 2"),
    ("--branch linear:score@1 --branch linear:three@core", "classes of a composition's networks must be the same"),
])  # fmt: skip
def test_bad_branches_are_one_line(smoothcert, tmp_path, line, words):
    code, _, err = smoothcert(f"route certify {line} --select switches:select --sigma 0.25 --data few.npz --out run")
    assert code == 2 and words in err.splitlines()[-1]
    assert not (tmp_path / "run").exists()


def test_runs_that_give_no_labels_are_refused(smoothcert):
    assert smoothcert(f"certify linear:score --sigma 0.25 {FEW} --split train --out a")[0] == 0
    assert smoothcert(f"certify linear:score --sigma 0.5 {FEW} --split train --out b")[0] == 0
    assert smoothcert(f"certify linear:score --sigma 0.5 {FEW} --split train --max 20 --out short")[0] == 0
    assert smoothcert(f"certify linear:score --sigma 0.5 {FEW} --out test")[0] == 0
    assert smoothcert(f"certify switches:core --sigma 0.5 {FEW} --split train --out wrong")[0] == 0
    for line, words in (
        ("a --out labels.npz", "at least two; got 1"),
        ("a b --out labels.csv", "--out must be a file name that ends in .npz"),
        ("a test --out labels.npz", "must be over the training inputs (--split train); got split 'test'"),
        ("a short --out labels.npz", "inputs of run short must be those of run a; got others"),
        ("a wrong --out labels.npz", "every branch must be the best one for some inputs; branch 1 is for none"),
    ):
        code, _, err = smoothcert(f"route labels {line}")
        assert code == 2 and words in err and err.count("\n") == 1, err
    code, _, err = smoothcert("route show a")
    assert code == 2 and "run a must be one of smoothcert route certify; got certify" in err
