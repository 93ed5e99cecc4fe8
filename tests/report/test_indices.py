"""The γ-robustness index from the command line, against values worked out by hand."""

from __future__ import annotations

import json
import math

import pytest
import small_run
from made_runs import log_of
from test_metrics import ROWS

from smoothcert.cli.main import run
from smoothcert.errors import OptionError, RunError
from smoothcert.report.indices import GammaIndex, parse
from smoothcert.runs.store import read

RECORD = log_of(ROWS, "five")  # right with radii 0.5, 0.25 and 0 of five


@pytest.mark.parametrize(("text", "expected"), [
    ("identity", 0.15), ("indicator:0", 0.6), ("indicator:0.25", 0.4), ("power:2", (0.25 + 0.0625) / 5),
])  # fmt: skip
def test_an_index_is_the_mean_of_gamma(text, expected):
    (index,) = parse(text)
    assert index.of(RECORD) == pytest.approx(expected, abs=1e-15)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("indices")
    small_run.write_data(place / "data.npz")
    options = ["--data", str(place / "data.npz"), "--sigma", "0.25", "--n", "1000"]
    assert run(["certify", "linear:score", *options, "--out", str(place / "run")]) == 0
    return place / "run"


def test_the_volume_is_that_of_balls_in_the_inputs_dimension(folder):
    made = read(folder)
    assert made.asked.shape == (4,)  # in four dimensions a ball has the volume π²r⁴/2
    mean = math.fsum(math.pi**2 / 2 * row.radius**4 for row in made.rows if row.correct) / len(made.rows)
    assert GammaIndex("volume").of(made) == pytest.approx(math.log10(mean))
    with pytest.raises(RunError, match=r"a log, which does not say|got norm unstated"):
        GammaIndex("volume").of(RECORD)


def test_the_command(folder, capsys):
    assert run(["report", str(folder), "--index", "identity,indicator:0.1,volume"]) == 0
    told = capsys.readouterr().out
    assert "E[r]" in told and "P(r ≥ 0.1)" in told and "log₁₀ E[volume]" in told
    assert run(["report", str(folder), "--index", "identity", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert run(["report", str(folder), "--json"]) == 0
    assert found["E[r]"] == pytest.approx(json.loads(capsys.readouterr().out)["acr"])


@pytest.mark.parametrize(
    "text", ["", "mean", "identity:1", "indicator", "indicator:x", "indicator:-1", "power:0", "power:nan"]
)
def test_other_indices_are_refused(text, folder, capsys):
    with pytest.raises(OptionError, match="--index"):
        parse(text)
    assert run(["report", str(folder), "--index", text]) == 2 and capsys.readouterr().err.count("\n") == 1


def test_indices_stand_alone(folder, tmp_path, capsys):
    assert run(["report", str(folder), "--index", "identity", "--html", str(tmp_path / "a.html")]) == 2
    assert "give --index or --html, not both" in capsys.readouterr().err
