"""Figures for other tools: the model-index block of a model card, and TensorBoard's scalars."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import memory_run
import pytest
from made_runs import ABSTAINED, WRONG, log, record, stored

from smoothcert.cli.main import run
from smoothcert.errors import RunError
from smoothcert.report.exports import model_index, scalars, write_scalars
from smoothcert.runs.run import Run

RUN = record("a", [0.1, 0.6, WRONG, ABSTAINED], {"data": "/data/my pictures", "model": "models/net: v1"})

CURVE = "smoothcert/l2/certified_accuracy"
OWN = {"preparation": {"name": "per_input_sigma"}}
LABELS = {"procedure": {"name": "certify", "n0": 10, "against": "labels"}}


def test_the_block_is_yaml_with_every_figure_and_its_conditions() -> None:
    yaml = pytest.importorskip("yaml")
    text = model_index(RUN, [0.0, 0.5])
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
    assert (second["args"]["guarantee"], second["args"]["tested"]) == ("smoothing", "guess")
    low, high = second["args"]["interval"]
    assert 0.0 < low < 0.25 < high < 1.0


def test_another_question_is_said_in_the_model_index() -> None:
    yaml = pytest.importorskip("yaml")
    known = record("a", [0.5, 0.5], {"sampling": {"name": "spending", "radii": [0.5], "alpha": 0.001}})
    metrics = yaml.safe_load(model_index(known).strip("-\n"))["model-index"][0]["results"][0]["metrics"]
    assert metrics[0]["args"]["says"] == ["radius 0.5 was asked for; larger radii were not tried"]


def test_a_log_does_not_say_enough_for_a_card() -> None:
    with pytest.raises(RunError, match="must say which model and data"):
        model_index(record("log", [0.5]))


def test_a_card_says_what_was_promised_and_of_what() -> None:
    yaml = pytest.importorskip("yaml")

    def metrics(made: Run) -> list[dict[str, Any]]:
        return yaml.safe_load(model_index(made, [0.5]).strip("-\n"))["model-index"][0]["results"][0]["metrics"]

    first = metrics(record("a", [0.5], LABELS))[0]
    assert first["name"] == "certified accuracy of the true label at l2 radius 0.5"
    assert first["args"]["tested"] == "labels" and "the true label was tested" in first["args"]["says"][0]
    own = record("a", [0.5], OWN)
    kept = replace(own, claim=replace(own.claim, guarantee="memory"))
    first = metrics(kept)[0]
    assert first["name"] == "certified accuracy at l2 radius 0.5, promised by a memory"
    assert first["args"]["guarantee"] == "memory" and "the promise of a memory" in first["args"]["says"][0]
    with pytest.raises(RunError, match="must hold certificates for a model card; got radii at each input's own"):
        model_index(own)


def test_a_card_names_the_task_by_the_shape_of_inputs() -> None:
    assert '"tabular-classification"' in model_index(record("a", [0.5], {"shape": [12]}))
    assert '"image-classification"' in model_index(record("a", [0.5], {"shape": [3, 8, 8]}))


def test_tags_say_norm_promise_and_tested_class(tmp_path: Path) -> None:
    def tags(made: Run) -> set[str]:
        return {name for name, step, _ in scalars(made) if name.endswith(("acr", "radius", "certified_accuracy"))}

    own = record("a", [0.5], OWN)
    assert tags(own) == {"smoothcert/l2/NOT_CERTIFIED/mean_radius", "smoothcert/l2/NOT_CERTIFIED/accuracy_at_radius"}
    kept = replace(own, claim=replace(own.claim, guarantee="memory"))
    assert tags(kept) == {"smoothcert/l2/memory/acr", "smoothcert/l2/memory/certified_accuracy"}
    labels = record("a", [0.5], LABELS)
    assert tags(labels) == {"smoothcert/l2/true_label/acr", "smoothcert/l2/true_label/certified_accuracy"}
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = reader.EventAccumulator(str(write_scalars(own, tmp_path))).Reload()
    said = events.Tensors("smoothcert/claim/text_summary")[0].tensor_proto.string_val[0].decode()
    assert said.startswith("norm l2, guarantee none, tested class: guess") and "NOT CERTIFIED" in said


def test_scalars_are_the_figures_and_the_curve() -> None:
    told = scalars(RUN)
    alone = {name: value for name, step, value in told if name != CURVE}
    assert alone["smoothcert/accuracy"] == 0.5 and alone["smoothcert/abstained"] == 0.25
    assert alone["smoothcert/l2/acr"] == pytest.approx(0.175) and alone["smoothcert/draws_an_input"] == 100
    curve = {step: value for name, step, value in told if name == CURVE}
    assert curve[0] == 0.5 and curve[99] == 0.5 and curve[102] == 0.25 and curve[600] == 0.25
    assert max(curve) > 600 and curve[max(curve)] == 0.0


def test_predictions_have_no_curve_and_known_radii_only_their_own() -> None:
    assert all(step == 0 for _, step, _ in scalars(replace(RUN, kind="predict")))
    known = record("a", [0.5, WRONG], {"sampling": {"name": "spending", "radii": [0.25, 0.5], "alpha": 0.001}})
    curve = {step: value for name, step, value in scalars(known) if name == CURVE}
    assert curve == {250: 0.5, 500: 0.5}


def test_tensorboard_reads_them(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    path = write_scalars(RUN, tmp_path / "board")
    assert list((tmp_path / "board").iterdir()) == [path]
    events = reader.EventAccumulator(str(path)).Reload()
    assert events.Scalars("smoothcert/l2/acr")[0].value == pytest.approx(0.175)
    assert [event.step for event in events.Scalars(CURVE)][:3] == [0, 3, 6]


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
        (["--to", "csv", "--full"], "--full needs --to cohen"),
        (["--to", "hf"], "must say which model and data"),
    ],
)
def test_bad_options_are_one_line_and_write_nothing(options: list[str], said: str, tmp_path: Path, capsys) -> None:
    path = log(tmp_path / "a.tsv", [0.5])
    assert run(["export", str(path), *options, "--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and len(captured.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Own noise levels without and with a memory, true labels tested, and l1 radii."""
    folder = tmp_path_factory.mktemp("claims")
    data = memory_run.write_data(folder / "data.npz")
    memory_run.make(folder / "own", data, None)
    memory_run.make(folder / "memory", data, folder / "m")
    stored(folder / "labels", [0.1, 0.6, WRONG, ABSTAINED], **LABELS)
    stored(folder / "l1", [0.1, 0.6, WRONG, ABSTAINED], noise={"name": "uniform", "sigma": 0.25})
    return folder


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own", "NOT CERTIFIED: each input has a noise level of its own"),
        ("memory", "a radius is the promise of a memory"),
        ("labels", "the true label was tested"),
        ("l1", "certified accuracy (%) at radius, l1"),
    ],
)
@pytest.mark.parametrize("to", ["cohen", "tsv"])
def test_a_report_of_the_log_says_what_that_of_the_run_says(
    name: str, said: str, to: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(runs / name), "--to", to, "--out", str(tmp_path / "a.tsv")]) == 0
    for place in (runs / name, tmp_path / "a.tsv"):
        capsys.readouterr()
        assert run(["report", str(place)]) == 0
        assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("own", ("l2", "none", "guess")), ("memory", ("l2", "memory", "guess")),
        ("labels", ("l2", "smoothing", "labels")), ("l1", ("l1", "smoothing", "guess")),
    ],
)  # fmt: skip
def test_every_row_of_a_table_carries_the_claim(
    name: str, claim: tuple[str, str, str], runs: Path, tmp_path: Path
) -> None:
    assert run(["export", str(runs / name), "--to", "csv", "--out", str(tmp_path / "a.csv"), "-q"]) == 0
    with (tmp_path / "a.csv").open() as file:
        assert {(row["norm"], row["guarantee"], row["tested"]) for row in csv.DictReader(file)} == {claim}


def test_radii_that_promise_nothing_make_no_card(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(runs / "own"), "--to", "hf", "--out", str(tmp_path / "card.md")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "must hold certificates for a model card" in line and not (tmp_path / "card.md").exists()
    assert run(["export", str(runs / "memory"), "--to", "hf", "--out", str(tmp_path / "card.md"), "-q"]) == 0
    assert "promised by a memory" in (tmp_path / "card.md").read_text()
