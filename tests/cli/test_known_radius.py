"""Radii known in advance, through the command line: right decisions, verifiable, the same under any batch."""

from __future__ import annotations

import dataclasses

import linear
import numpy as np
import pytest
import small_run
import torch
from scipy.stats import binom

import smoothcert
from smoothcert.cli.main import run
from smoothcert.runs.store import read

SCHEMES = {
    "spending": ["--radius", "0.2", "--set", "cap=10000"],
    "staged": ["--radius", "0.2", "--sampling", "staged", "--set", "stages=100,1000,5000"],
    "anytime": ["--radius", "0.2", "--sampling", "anytime", "--set", "cap=10000"],
    "curve": ["--radii", "0.05,0.1,0.2", "--set", "cap=10000"],
    "leader": ["--radius", "0.2", "--against", "leader", "--set", "cap=10000"],
    "labels": ["--radius", "0.2", "--against", "labels", "--set", "cap=10000"],
    "pilot": ["--sampling", "pilot", "--set", "cap=5000"],
    "runner_up": ["--sampling", "runner_up", "--n", "2000"],
}


@pytest.fixture
def data(tmp_path):
    return small_run.write_data(tmp_path / "x.npz", 40)


def certify(data, out, *more):
    return run(["certify", "linear:score", "--data", str(data), "--sigma", "0.25", "--out", str(out), *map(str, more)])


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_runs_are_right_verifiable_and_independent_of_the_batch(scheme, data, tmp_path, capsys):
    assert certify(data, tmp_path / "a", *SCHEMES[scheme]) == 0
    assert certify(data, tmp_path / "b", *SCHEMES[scheme], "--batch", 61) == 0
    rows = read(tmp_path / "a").rows
    same = [[dataclasses.replace(row, seconds=None) for row in read(tmp_path / name).rows] for name in "ab"]
    assert same[0] == same[1]
    assert run(["verify", str(tmp_path / "a"), "--redraw", "5"]) == 0
    margins = linear.margin(torch.from_numpy(np.load(data)["x"])).abs().numpy()
    assert sum(row.radius > margins[row.index] for row in rows) <= 2  # 40 certificates, each wrong with P ≤ .001
    assert sum(row.predicted != smoothcert.ABSTAIN for row in rows) >= 10
    if scheme not in ("pilot", "runner_up"):
        asked = read(tmp_path / "a").asked.radii
        assert {row.radius for row in rows} <= {0.0, *asked}
    capsys.readouterr()


def test_spending_is_right_as_often_as_it_says(tmp_path, capsys):
    data = small_run.write_data(tmp_path / "x.npz", 1500, seed=3)
    options = ("--radius", 0.2, "--alpha", 0.05, "--set", "beta=0.05", "--set", "cap=3000", "--against", "leader")
    assert certify(data, tmp_path / "run", *options) == 0
    margins = linear.margin(torch.from_numpy(np.load(data)["x"])).abs().numpy()
    rows = read(tmp_path / "run").rows
    below = [row for row in rows if margins[row.index] < 0.2]
    assert sum(row.radius > 0 for row in below) <= binom.ppf(1 - 1e-6, len(below), 0.05)
    assert all(row.radius == 0.2 for row in rows if margins[row.index] > 0.3)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--radius", "-1"], "radii of spending must be finite numbers of at least 0"),
        (["--radius", "nan"], "radii of spending must be finite numbers"),
        (["--radii", "a,b"], "--radii must be numbers with commas between; got 'a,b'"),
        (["--radii", "0.5,0.25"], "radii of spending must be rising"),
        (["--radius", "0.5", "--radii", "0.5"], "give --radius or --radii, not both"),
        (["--radius", "1.5"], "spending must allow at least"),
        (["--radius", "0.5", "--n", "100"], "--n is the number of draws of fixed and runner_up"),
        (["--radius", "0.5", "--sampling", "fixed"], "fixed finds the largest radius; leave out --radius"),
        (["--sampling", "spending"], "spending certifies a radius known in advance; give --radius or --radii"),
        (["--sampling", "spendin"], "did you mean 'spending'?"),
        (["--against", "leader"], "sampling must be one that can follow the leading class"),
        (["--against", "truth"], "against of certify must be one of guess, labels, leader; got 'truth'"),
        (["--set", "cap"], "--set must be name=value; got 'cap'"),
        (["--set", "caps=3"], "option of fixed must be one of"),
        (["--radius", "0.5", "--set", "cap=-3"], "cap of spending must be a positive whole number; got -3"),
        (["--radius", "0.5", "--set", "cap=many"], "cap of spending must be a positive whole number; got many"),
    ],
)
def test_bad_options_are_one_line(options, message, data, tmp_path, capsys):
    assert certify(data, tmp_path / "run", *options) == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert len(errors) == 1 and message in errors[0]
    assert not (tmp_path / "run").exists()
