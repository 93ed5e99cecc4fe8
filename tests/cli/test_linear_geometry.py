"""A linear classifier has a known radius everywhere: certificates above it must be as rare as alpha says."""

from __future__ import annotations

import linear
import numpy as np
import small_run
import torch
from scipy.stats import binom

import smoothcert
from smoothcert.cli.main import run
from smoothcert.runs.store import read

INPUTS, ALPHA, N, SIGMA = 2000, 0.05, 1000, 0.25
# Were each certificate wrong with probability alpha, more wrong ones than this would be seen once in a million times.
MOST_WRONG = int(binom.ppf(1 - 1e-6, INPUTS, ALPHA))


def check(labels, radii, x):
    margin = linear.margin(x).numpy()
    said = labels != smoothcert.ABSTAIN
    wrong = said & ((labels != (margin > 0)) | (radii > np.abs(margin)))
    assert wrong.sum() <= MOST_WRONG
    # And the bound is not vacuous: wrong ones occur, and clear inputs are certified with most of their radius.
    assert wrong.sum() >= binom.ppf(1e-6, INPUTS, ALPHA / 5)
    clear = (np.abs(margin) > 0.1) & (np.abs(margin) < 0.4)
    assert clear.sum() > 500 and (labels[clear] == (margin > 0)[clear]).all()
    assert np.median(radii[clear] / np.abs(margin)[clear]) > 0.85


def test_through_the_library():
    x = torch.rand(INPUTS, 4, generator=torch.Generator().manual_seed(0))
    smoothed = smoothcert.Smoothed(linear.score, smoothcert.Gaussian(SIGMA), num_classes=2)
    certificates = smoothed.certify_all(list(x), n=N, alpha=ALPHA)
    check(np.array([c.label for c in certificates]), np.array([c.radius for c in certificates]), x)
    assert smoothed.certify(x[3], n=N, alpha=ALPHA) == certificates[3]
    for i in range(20):
        assert smoothed.predict(x[i], n=5000) in (int(linear.margin(x[i]) > 0), smoothcert.ABSTAIN)


def test_through_the_command_line(tmp_path, capsys):
    data = small_run.write_data(tmp_path / "x.npz", INPUTS)
    options = ["--data", str(data), "--sigma", str(SIGMA), "--out", str(tmp_path / "run")]
    assert run(["certify", "linear:score", *options, "--n", str(N), "--alpha", str(ALPHA)]) == 0
    rows = read(tmp_path / "run").rows
    x = torch.from_numpy(np.load(data)["x"])
    check(np.array([row.predicted for row in rows]), np.array([row.radius for row in rows]), x)
    assert run(["predict", "linear:score", *options[:-1], str(tmp_path / "predicted"), "--max", "200"]) == 0
    predicted = [row for row in read(tmp_path / "predicted").rows if row.predicted != smoothcert.ABSTAIN]
    assert len(predicted) > 150
    assert all(row.predicted == int(linear.margin(x[row.index]) > 0) for row in predicted)
    capsys.readouterr()
