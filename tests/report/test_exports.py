"""Figures for other tools: the model-index block of a model card, and TensorBoard's scalars."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_runs import ABSTAINED, WRONG, log, record, stored

from smoothcert.cli.main import run
from smoothcert.errors import RunError
from smoothcert.report.model_index import block
from smoothcert.report.scalars import scalars, write_scalars

RUN = record("a", [0.1, 0.6, WRONG, ABSTAINED], {"data": "/data/my pictures", "model": "models/net: v1"})


def test_the_block_is_yaml_with_every_figure_and_its_conditions() -> None:
    yaml = pytest.importorskip("yaml")
    text = block(RUN, [0.0, 0.5])
    assert text.startswith("---\nmodel-index:\n") and text.endswith("\n---\n")
    (model,) = yaml.safe_load(text.strip("-\n"))["model-index"]
    (result,) = model["results"]
    assert model["name"] == "net: v1"
    assert result["task"] == {"type": "image-classification"}
    assert result["dataset"] == {"name": "my pictures", "type": "my pictures", "split": "test"}
    first, second, acr, clean = result["metrics"]
    assert (first["value"], second["value"], clean["value"]) == (0.5, 0.25, 1.0)
    assert acr["value"] == pytest.approx(0.175) and acr["type"] == "acr"
    assert second["name"] == "certified accuracy at l2 radius 0.5" and second["args"]["radius"] == 0.5
    assert second["args"]["noise"] == {"name": "gaussian", "sigma": 0.25}
    assert second["args"]["sampling"]["alpha"] == 0.001 and second["args"]["inputs"] == 4
    low, high = second["args"]["interval"]
    assert 0.0 < low < 0.25 < high < 1.0


def test_another_question_is_said_in_the_block() -> None:
    yaml = pytest.importorskip("yaml")
    known = record("a", [0.5, 0.5], {"sampling": {"name": "spending", "radii": [0.5], "alpha": 0.001}})
    metrics = yaml.safe_load(block(known).strip("-\n"))["model-index"][0]["results"][0]["metrics"]
    assert metrics[0]["args"]["says"] == ["radius 0.5 was asked for; larger radii were not tried"]


def test_a_log_does_not_say_enough_for_a_card() -> None:
    with pytest.raises(RunError, match="must say which model and data"):
        block(record("log", [0.5]))


def test_scalars_are_the_figures_and_the_curve() -> None:
    told = scalars(RUN)
    alone = {name: value for name, step, value in told if name != "smoothcert/certified_accuracy"}
    assert alone["smoothcert/accuracy"] == 0.5 and alone["smoothcert/abstained"] == 0.25
    assert alone["smoothcert/acr"] == pytest.approx(0.175) and alone["smoothcert/draws_an_input"] == 100
    curve = {step: value for name, step, value in told if name == "smoothcert/certified_accuracy"}
    assert curve[0] == 0.5 and curve[99] == 0.5 and curve[102] == 0.25 and curve[600] == 0.25
    assert max(curve) > 600 and curve[max(curve)] == 0.0


def test_predictions_have_no_curve_and_known_radii_only_their_own() -> None:
    assert all(step == 0 for _, step, _ in scalars(replace(RUN, kind="predict")))
    known = record("a", [0.5, WRONG], {"sampling": {"name": "spending", "radii": [0.25, 0.5], "alpha": 0.001}})
    curve = {step: value for name, step, value in scalars(known) if name == "smoothcert/certified_accuracy"}
    assert curve == {250: 0.5, 500: 0.5}


def test_tensorboard_reads_them(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    path = write_scalars(RUN, tmp_path / "board")
    assert list((tmp_path / "board").iterdir()) == [path]
    events = reader.EventAccumulator(str(path)).Reload()
    assert events.Scalars("smoothcert/acr")[0].value == pytest.approx(0.175)
    assert [event.step for event in events.Scalars("smoothcert/certified_accuracy")][:3] == [0, 3, 6]


@pytest.mark.parametrize("to", ["cohen", "tsv", "csv", "parquet", "tensorboard", "hf"])
def test_every_format_is_written_by_the_command(to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if to == "parquet":
        pytest.importorskip("pyarrow")
    stored(tmp_path / "run", [0.1, 0.6, WRONG, ABSTAINED], inputs=5)
    assert run(["export", str(tmp_path / "run"), "--to", to, "--out", str(tmp_path / "out")]) == 0
    captured = capsys.readouterr()
    assert "(4 inputs of 5: the run is unfinished)" in captured.err and captured.out == ""
    assert (tmp_path / "out").exists()


def test_a_log_goes_both_ways(tmp_path: Path) -> None:
    from smoothcert.runs.exchange import read_log

    path = log(tmp_path / "a.tsv", [0.125, 0.5, WRONG, ABSTAINED])
    assert run(["export", str(path), "--to", "tsv", "--full", "--out", str(tmp_path / "b.tsv"), "-q"]) == 0
    assert read_log(tmp_path / "b.tsv").rows == read_log(path).rows


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--to", "exel"], "--to must be one of"),
        (["--to", "csv", "--full"], "--full belongs to --to cohen"),
        (["--to", "hf"], "must say which model and data"),
    ],
)
def test_bad_options_are_one_line_and_write_nothing(options: list[str], said: str, tmp_path: Path, capsys) -> None:
    path = log(tmp_path / "a.tsv", [0.5])
    assert run(["export", str(path), *options, "--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and len(captured.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()
