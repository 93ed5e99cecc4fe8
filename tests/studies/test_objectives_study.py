"""Objectives in the same time: the rate comes from inputs kept back, and a rate that diverges is told, not fatal."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

STUDIES = Path(__file__).parents[2] / "studies"


def test_rates_are_searched_on_training_inputs_kept_back(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["objectives", "--data", "digits", "--arch", "digits_cnn4", "--objectives", "gaussian", "--budgets", "0.1"]
    monkeypatch.setattr(sys, "argv", [*words, "--seeds", "0", "--rates", "0.05,0.001,1e6", "--out", "out"])
    for _ in range(2):  # the second time nothing is left to do
        runpy.run_path(str(STUDIES / "objectives.py"), run_name="__main__")
    told = capsys.readouterr().out.splitlines()
    [line, again] = [line for line in told if "kept back" in line]
    assert line == again and "1e+06: diverged" in line
    # How many epochs fit the budget is the machine's affair.
    found = {place.name.rsplit("-", 1)[1]: place for place in Path("out").glob("search-gaussian-*-epochs-*")}
    assert set(found) == {"0.05", "0.001", "1e+06"}
    acr = {rate: json.loads((place / "figures.json").read_text()) for rate, place in found.items()}
    assert acr["0.05"] > acr["0.001"] >= 0 and acr["1e+06"] is None
    config = json.loads((found["0.05"] / "config.json").read_text())
    assert len(config["hold_out"]["indices"].split()) == 500
    assert len(list(Path("out").glob("gaussian-*-epochs-0.05-0/figures.json"))) == 1
