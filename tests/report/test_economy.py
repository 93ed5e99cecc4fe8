"""Draws from real small runs to the terminal, to JSON and to the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import small_run
import typer
from test_page import Shape

from smoothcert.classifiers import load
from smoothcert.cli import report
from smoothcert.procedures.certify import Certify
from smoothcert.report.html import page
from smoothcert.runs.certify import carry_out
from smoothcert.runs.store import read
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.pilot import Pilot
from smoothcert.sampling.runner_up import RunnerUp
from smoothcert.sampling.spending import Spending
from smoothcert.sampling.staged import Staged

RUNS: dict[str, Certify] = {
    "fixed": Certify(50, Fixed(2_000, 0.01)),
    "staged": Certify(50, Staged(radii=(0.1,), alpha=0.01, beta=0.01, stages=(100, 1_000))),
    "curve": Certify(50, Spending(radii=(0.05, 0.2), alpha=0.01, beta=0.01, cap=2_000)),
    "leader": Certify(50, Spending(radii=(0.1,), alpha=0.01, beta=0.01, cap=2_000), "leader"),
    "labels": Certify(50, Spending(radii=(0.1,), alpha=0.01, beta=0.01, cap=2_000), "labels"),
    "runner": Certify(50, RunnerUp(1_000, 0.01)),
    "pilot": Certify(50, Pilot(0.01, 2_000, 100)),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from dataclasses import replace

    folder = tmp_path_factory.mktemp("runs")
    data = small_run.write_data(folder / "data.npz", 12)
    for name, procedure in RUNS.items():
        recipe, inputs = small_run.recipe_for(data)
        carry_out(
            replace(recipe, spec=replace(recipe.spec, procedure=procedure)), folder / name, inputs, load("linear:score")
        )
    return folder


@pytest.fixture(autouse=True)
def _tables_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path))


def smoothcert(*arguments: object) -> None:
    app = typer.Typer()
    app.command()(report.command)
    app([str(argument) for argument in arguments], standalone_mode=False)


def test_json_has_every_figure(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    smoothcert(*(runs / name for name in RUNS), "--json")
    told = {run["name"]: run for run in json.loads(capsys.readouterr().out)}
    assert told["fixed"]["draws"]["total"] == 12 * 2_050 and told["fixed"]["saving"] is None
    for name in ("staged", "curve", "leader", "labels"):
        run, rows = told[name], read(runs / name).rows
        used = sum(row.draws or 0 for row in rows)
        assert run["draws"]["total"] == used
        assert run["saving"]["against"] == "fixed" and run["saving"]["time"] > 0
        assert run["saving"]["sample"] == pytest.approx(12 * 2_050 / used)
        choosing = 0 if name in ("leader", "labels") else 12 * 50
        assert run["expected_draws"]["used"] == used - choosing
        assert 0.3 < run["expected_draws"]["expected"] / run["expected_draws"]["used"] < 3
        for test, course in zip(run["tests"], run["courses"], strict=True):
            assert 0 < test["error"] <= test["level"] <= test["alpha"] == 0.01 and test["lost"] <= test["beta"]
            proven = sum(row.radius >= course["radius"] for row in rows) / 12
            parts = course["stretches"] if name == "staged" else course["stretches"][-1:]
            assert sum(part["certified"] for part in parts) == pytest.approx(proven)
    assert told["runner"]["runner_up"]["plain"]["mean_radius"] > 0 and told["pilot"]["saving"]["sample"] > 1
    assert told["pilot"]["tests"] == told["fixed"]["courses"] == [] and told["fixed"]["runner_up"] is None


def test_the_terminal_shows_draws_where_they_differ(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    smoothcert(runs / "staged", runs / "runner")
    out = " ".join(capsys.readouterr().out.split())
    assert "SampleRF of staged is against n = 100,000 and n0 = 50 for each input" in out and "TimeRF" not in out
    assert "runner: mean radius" in out and "with the plain bound at the same alpha" in out
    smoothcert(runs / "fixed")
    assert "SampleRF" not in capsys.readouterr().out


def test_the_page_has_each_section_where_runs_have_it(runs: Path) -> None:
    def heads(*names: str) -> list[str]:
        text = page([read(runs / name) for name in names])
        shape = Shape(text)
        assert len(shape.ids) == len(set(shape.ids)) and set(shape.refs) <= set(shape.ids)
        said = {"courses": "Where inputs were decided", "operating": "What the scheme does at every p",
                "gain": "What the runner-up bound brought"}  # fmt: skip
        inside = [name for name, title in said.items() if title in shape.text]
        return ["draws", *inside] if "draws" in shape.ids else inside

    assert heads("fixed") == []
    assert heads("pilot", "fixed") == ["draws"]
    assert heads("staged") == ["draws", "courses", "operating"]
    assert heads("runner") == ["draws", "gain"]
    assert heads("fixed", "curve", "leader", "runner") == ["draws", "courses", "operating", "gain"]


def test_the_page_says_what_a_scheme_risks(runs: Path) -> None:
    words = Shape(page([read(runs / "leader"), read(runs / "labels"), read(runs / "staged")])).text
    assert "at most α = 0.01; it gives up with probability" in words
    assert "Following whichever class leads takes" in words
    assert "certified (ASC) abstained (ASA) passed on" in words
    assert words.count("p, the probability of the class under noise") == 3  # leader and labels: other boundaries


def test_one_test_is_drawn_once_however_many_runs_made_it(runs: Path) -> None:
    record = read(runs / "curve")
    text = page([record, record])
    words = Shape(text).text
    assert text == page([record, record])
    assert words.count("p, the probability of the class under noise") == 2  # two radii
