"""The history of a model: runs found below a folder, grouped by what was asked, in the order of their making."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_runs import WRONG, stored

from smoothcert.cli.main import run
from smoothcert.errors import RunError
from smoothcert.report.history import as_json, figure, history, table


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    stored(tmp_path / "v2" / "run", [0.3, 0.4, 0.5, WRONG], 2e9, model_digest="b" * 64, seed=7)
    stored(tmp_path / "v1" / "run", [0.1, 0.2, 0.3, WRONG], 1e9)
    stored(tmp_path / "other", [0.1, 0.2, 0.3], 1.5e9, noise={"name": "gaussian", "sigma": 0.5})
    return tmp_path


def test_versions_stand_in_the_order_of_time_under_their_question(runs: Path) -> None:
    (first, second), notes = history(runs)
    assert [version.run.name for version in first.versions] == ["v1/run", "v2/run"]
    assert [version.digest[0] for version in first.versions] == ["a", "b"]
    assert [version.run.name for version in second.versions] == ["other"]
    assert notes == []
    assert first.words == (
        "digits (test, every 10th), 4 inputs; gaussian (sigma 0.25); certify (n0 10, against guess); "
        "fixed (n 90, alpha 0.001)"
    )


def test_the_change_is_against_the_version_before(runs: Path) -> None:
    (first, second), _ = history(runs)
    assert first.versions[0].change is None and second.versions[0].change is None
    change = first.versions[1].change
    assert change is not None and change.value == pytest.approx(0.15)
    assert change.low >= 0.0 and change.high <= 0.2 + 1e-9
    column = next(column for column in table(first).columns if column.head == "ACR against the one before")
    assert column.cells[0] == "–" and column.cells[1].startswith("+0.1500 (")


def test_an_unfinished_version_has_no_change(runs: Path) -> None:
    stored(runs / "v3", [0.1, 0.2], 3e9, inputs=4)
    (first, _), _ = history(runs)
    assert first.versions[2].change is None and first.versions[2].figures.asked == 4


def test_what_has_no_figures_is_left_out_and_said(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(runs / "empty", [])
    (runs / "foreign").mkdir()
    (runs / "foreign" / "recipe.toml").write_text("hello = 1\n")
    assert run(["history", str(runs), "--json"]) == 0
    captured = capsys.readouterr()
    assert len(captured.err.splitlines()) == 2 and captured.err.count("left out") == 2
    told = json.loads(captured.out)
    assert [len(line["versions"]) for line in told] == [2, 1]
    assert told[0]["versions"][1]["acr"] == pytest.approx(0.3)
    assert told[0]["question"]["data"] == "digits" and "model" not in told[0]["question"]


def test_nothing_is_rounded_in_json(runs: Path) -> None:
    (first, _), _ = history(runs, [0.25])
    made = as_json(first)
    assert made["versions"][1]["certified_accuracy"] == {"0.25": 0.75}
    assert made["versions"][0]["when"].startswith("2001-09-0")


def test_layouts(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", str(runs), "--tables", "latex"]) == 0
    out = capsys.readouterr().out
    assert out.count(r"\toprule") == 2 and out.startswith("% digits (test")
    assert run(["history", str(runs)]) == 0
    assert "v1/run" in capsys.readouterr().out


def test_a_folder_without_runs_is_one_line(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent", Path(__file__)):
        with pytest.raises(RunError, match="must hold runs"):
            history(place)


def test_time_is_told_by_the_run_itself_however_often_it_is_copied(runs: Path) -> None:
    recipe = runs / "v2" / "run" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("[means]", '[means]\nstarted = "2001-01-01T00:00:00+00:00"'))
    (first, _), _ = history(runs)
    assert [version.run.name for version in first.versions] == ["v2/run", "v1/run"]
    assert first.versions[0].when.isoformat() == "2001-01-01T00:00:00+00:00"


def test_the_picture_has_a_row_of_panels_for_each_question(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(
        runs / "v2" / "guesses",
        [0.0, WRONG],
        1e9,
        procedure={"name": "predict", "n": 20, "alpha": 0.001},
        sampling=None,
    )
    assert run(["history", str(runs), "--plot", str(runs / "all.svg")]) == 0
    assert "all.png" in capsys.readouterr().err and (runs / "all.png").stat().st_size > 1000
    lines, _ = history(runs)
    parts = figure(lines).subfigs
    assert len(parts) == len(lines) == 3
    right, left = parts[0].axes
    assert list(left.lines[0].get_ydata()) == [version.figures.acr for version in lines[0].versions]
    assert right.lines[0].get_ydata()[0] == lines[0].versions[0].figures.certified_accuracy[0.0].value
