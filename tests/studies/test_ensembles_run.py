"""Ensembles of one to k networks: their weights come from the inputs that the members kept back."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

from smoothcert.training import Settings
from smoothcert.training.loop import train

STUDIES = Path(__file__).parents[2] / "studies"
SMALL = {"data": "digits", "arch": "digits_cnn4", "epochs": 1, "batch": 64, "hold_out": "40"}


@pytest.fixture
def members(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in range(3):
        train(Settings(**SMALL, sigma=0.25, seed=seed), Path(f"m-{seed}"))
    return [f"m-{seed}" for seed in range(3)]


def test_weights_are_fitted_on_what_the_members_kept_back(members, monkeypatch):
    words = ["ensembles_run", "--members", *members, "--data", "digits", "--inputs", "4", "--skip", "20", "--n", "200"]
    monkeypatch.syspath_prepend(str(STUDIES))
    monkeypatch.setattr(sys, "argv", [*words, "--held-out", "--out", "out"])
    runpy.run_path(str(STUDIES / "ensembles_run.py"), run_name="__main__")
    kept = json.loads(Path("m-0/config.json").read_text())["hold_out"]["indices"]
    for name in ("learned-3", "early-exit-3"):
        holdout = json.loads(Path("out", name, "composite.json").read_text())["holdout"]
        assert (holdout["split"], holdout["indices"]) == ("train", kept)
    found = json.loads(Path("out/result.json").read_text())
    names = [one["name"] for one in found["models"]]
    assert names == [*members, "soft-2", "soft-3", "learned-3", "early-exit-3"]
    assert all(one["inputs"] == 4 for one in found["models"])
    assert len(found["envelope"]) == 4
