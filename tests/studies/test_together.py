"""Models certified together get the rows that `smoothcert certify` gives each alone."""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import small_run

from smoothcert.cli.main import run
from smoothcert.runs.store import read

SCRIPT = Path(__file__).parents[2] / "studies" / "together.py"
MEMBERS = ["lines:a", "lines:b", "lines:c"]


@pytest.fixture
def together(tmp_path, monkeypatch):
    """Run the script for three members and two of their ensembles."""
    monkeypatch.chdir(tmp_path)
    small_run.write_data(tmp_path / "data.npz", 6)
    assert run(["ensemble", *MEMBERS, "--vote", "hard", "--out", "hard"]) == 0
    assert run(["ensemble", *MEMBERS, "--consensus", "2", "--out", "two"]) == 0
    words = ["together", *MEMBERS, "--ensembles", "hard", "two", "--data", "data.npz", "--skip", "1", "--n", "300"]

    def call(out):
        monkeypatch.setattr(sys, "argv", [*words, "--threads", "1", "--out", out])
        runpy.run_path(str(SCRIPT), run_name="__main__")

    return call


def test_rows_are_those_of_each_model_alone(together):
    together("runs")
    for model in (*MEMBERS, "hard", "two"):
        words = ["certify", model, "--data", "data.npz", "--sigma", "0.25", "--n", "300", "--out", f"alone-{model}"]
        assert run(words) == 0
        both = [[replace(row, seconds=None) for row in read(Path(f)).rows] for f in (f"runs/{model}", f"alone-{model}")]
        assert both[0] == both[1] and len(both[0]) == 6
        assert run(["verify", f"runs/{model}", "--redraw", "1"]) == 0
    assert all(row.seconds is None for row in read(Path("runs/two")).rows)


def test_members_asked_are_counted_over_attempts(together):
    together("runs")
    once = read(Path("runs/two")).means.member_calls
    assert 2 * once.rows <= once.asked <= 3 * once.rows and once.members == 3
    together("runs")
    assert read(Path("runs/two")).means.member_calls == once
