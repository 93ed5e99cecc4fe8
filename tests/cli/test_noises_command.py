"""Every noise through the command line: certified, verified, and right about a linear classifier."""

from __future__ import annotations

import linear
import numpy as np
import pytest
import torch

import smoothcert
from smoothcert.cli.main import run
from smoothcert.runs.store import read

NOISES = {
    "uniform": ["--sigma", "0.25", "--n", "2000"],
    "uniform, radii": ["--set", "lam=0.5", "--radii", "0.05,0.1", "--set", "cap=5000"],
    "gaussian_grid": ["--sigma", "0.25", "--n", "2000"],
    "splitting": ["--sigma", "0.5", "--set", "pattern=3", "--n", "2000"],
    "splitting, exact": ["--set", "lam=0.5", "--sampling", "exhaustive"],
    "discrete": ["--set", "keep=0.6", "--set", "values=9", "--n", "2000"],
    "discrete, radii": ["--set", "keep=0.3", "--set", "values=9", "--radii", "0,1", "--set", "cap=5000"],
}


@pytest.fixture
def data(tmp_path):
    """Forty inputs on the grid of 8-bit images."""
    x = np.random.default_rng(0).integers(0, 256, (40, 4)).astype(np.float32) / np.float32(255)
    y = (linear.margin(torch.from_numpy(x)).numpy() > 0).astype(np.int64)
    np.savez(tmp_path / "x.npz", x=x, y=y)
    return tmp_path / "x.npz"


def call(command, data, out, name, *options):
    noise = name.split(",")[0]
    return run([command, "linear:score", "--data", str(data), "--noise", noise, "--out", str(out), *map(str, options)])


@pytest.mark.parametrize("name", sorted(NOISES))
def test_runs_are_verifiable_and_independent_of_the_batch(name, data, tmp_path, capsys):
    assert call("certify", data, tmp_path / "a", name, *NOISES[name]) == 0
    assert call("certify", data, tmp_path / "b", name, *NOISES[name], "--batch", 61) == 0
    first, second = ([(row.predicted, row.radius) for row in read(tmp_path / run_).rows] for run_ in "ab")
    assert first == second and sum(label != smoothcert.ABSTAIN for label, _ in first) >= 5
    assert run(["verify", str(tmp_path / "a"), "--redraw", "5"]) == 0
    assert run(["report", str(tmp_path / "a"), "--html", str(tmp_path / "a.html")]) == 0
    capsys.readouterr()


def test_uniform_noise_certifies_no_more_than_the_distance_in_l1(data, tmp_path, capsys):
    assert call("certify", data, tmp_path / "a", "uniform", *NOISES["uniform"]) == 0
    record = read(tmp_path / "a")
    margin = linear.margin(torch.from_numpy(np.load(data)["x"])) * linear.WEIGHT.norm() / linear.WEIGHT.abs().max()
    assert record.claim.norm == "l1" and sum(row.radius > abs(margin[row.index]) for row in record.rows) <= 2
    assert sum(row.radius > 0.5 * min(abs(margin[row.index]), 0.4) for row in record.rows) > 20
    assert "uniform noise (l1), lam 0.433013, sigma 0.25: 2000 draws" in capsys.readouterr().err


def test_predict_takes_the_same_noises(data, tmp_path, capsys):
    assert call("predict", data, tmp_path / "a", "discrete", "--set", "keep=0.6", "--set", "values=9") == 0
    assert sum(row.correct for row in read(tmp_path / "a").rows) > 20
    assert call("predict", data, tmp_path / "b", "discrete", "--set", "keep=0.6", "--set", "beta=1") == 2
    assert "--set of predict must be an option of discrete noise; got 'beta=1'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gaussian", [], "gaussian needs a value for sigma; got none"),
        ("uniform", [], "uniform needs a value for sigma"),
        (
            "discrete",
            ["--sigma", 1],
            "--sigma is no option of discrete noise, which takes --set keep=… and --set values=…",
        ),
        ("gausian", ["--sigma", 1], "did you mean 'gaussian'?"),
        ("gaussian", ["--sigma", 1, "--sampling", "exhaustive"], "must be splitting, band or block; got gaussian"),
        ("splitting", ["--sigma", 0.5, "--set", "grid=16"], "inputs of splitting must be multiples of 1/16"),
        ("discrete", ["--set", "keep=0.6", "--radius", 300], "must be within reach of the noise; got 300"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(name, options, message, data, tmp_path, capsys):
    assert call("certify", data, tmp_path / "a", name, *options) == 2
    assert message in capsys.readouterr().err
