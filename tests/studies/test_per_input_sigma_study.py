"""σ for every input: the network that learns with a σ for every example is made by the first one's own recipe."""

from __future__ import annotations

import json
import runpy
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

from smoothcert import zoo
from smoothcert.cli.main import run

STUDIES = Path(__file__).parents[2] / "studies"
RECIPE = "smoothcert train --data digits --arch digits_cnn4 --epochs 4 --batch 64 --seed 3 --threads 1 --out first"


def test_the_learned_network_differs_by_its_levels_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(shlex.split(RECIPE)[1:]) == 0
    known = zoo.networks()
    monkeypatch.setattr(zoo, "networks", lambda: {**known, "first": SimpleNamespace(command=RECIPE)})
    monkeypatch.syspath_prepend(str(STUDIES))
    words = ["per_input_sigma", "--model", "first", "--data", "digits", "--inputs", "5", "--n", "100", "--learned"]
    monkeypatch.setattr(sys, "argv", [*words, "--searches", "ascent-20", "--out", "out"])
    runpy.run_path(str(STUDIES / "per_input_sigma.py"), run_name="__main__")
    told = capsys.readouterr().out
    first, second = (json.loads(Path(place, "config.json").read_text()) for place in ("first", "out/learned"))
    one, two = first["settings"], second["settings"]
    assert {name for name in one if one[name] != two[name]} == {"sigma_per_example", "sigma_warmup", "sigma_step"}
    assert (two["sigma_warmup"], two["sigma_step"]) == (1, 0.005)
    levels = told.split("largest: ")[1].split("\n")[0].split(", ")
    assert 0 < float(levels[0]) < float(levels[-1]) <= 0.25 + 3 * 0.005 * 10
    assert "DS² against DS" in told and "learned-ascent-20, with memory" in told
