"""What a figure stands under goes wherever it goes: true labels tested, inputs missing; and empty runs are one line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import ABSTAINED, WRONG, stored

from smoothcert.cli.main import run
from smoothcert.runs.exchange import read_log

RADII = [0.1, 0.6, WRONG, 0.3, ABSTAINED, 0.2]
LABELS = {"procedure": {"name": "certify", "n0": 10, "against": "labels"}}
TESTED = "the true label was tested, wrong labels are never reported"
MISSING = "unfinished: 6 of 40 inputs"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("claims")
    predict = {"procedure": {"name": "predict", "n": 20, "alpha": 0.05}, "sampling": None}
    stored(place / "labels", RADII, **LABELS)
    stored(place / "other", RADII[::-1], model_digest="b" * 64, **LABELS)
    stored(place / "part", RADII, inputs=40)
    stored(place / "whole", RADII, seed=1)
    stored(place / "guesses", RADII, inputs=40, **predict)
    stored(place / "empty", [], inputs=40)
    stored(place / "only" / "one", [], inputs=40)
    return place


@pytest.fixture
def place(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


def printed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run(list(words)) == code
    return " ".join(capsys.readouterr().out.split())


def exported(name: str, to: str) -> str:
    assert run(["export", name, "--to", to, "--out", f"out-{name}.{to}", "-q"]) == 0
    return f"out-{name}.{to}"


@pytest.mark.parametrize(
    "words",
    [
        "report labels", "report labels --tables md", "report labels --tables latex", "report labels --transpose",
        "report labels --json", "report labels whole", "report labels --paper ens", "report labels --paper esb",
        "report labels --paper dds", "report labels --paper sween", "compare labels other",
        "compare labels other --json", "compare labels other --tables md", "compare other labels --tables latex",
        "history .", "history . --json",
    ],
)  # fmt: skip
def test_true_labels_are_another_question_in_every_table(words: str, place: Path, capsys: Any) -> None:
    assert TESTED in printed(capsys, *words.split())


def test_true_labels_are_told_by_page_picture_and_every_export(place: Path, capsys: Any) -> None:
    assert run(["report", "labels", "--html", "page.html", "--plot", "curve.svg"]) == 0
    assert TESTED in Path("page.html").read_text()
    assert "labels (true label tested)" in Path("curve.svg").read_text()  # letters are shapes, with words beside them
    assert "certified accuracy of the true label at l2 radius 0.5" in Path(exported("labels", "hf")).read_text()
    for to in ("cohen", "csv"):
        with Path(exported("labels", to)).open() as file:
            rows = list(csv.DictReader(file, delimiter="\t" if to == "cohen" else ","))
        assert {(row["tested"], row["norm"], row["guarantee"], row["alpha"]) for row in rows} == {
            ("labels", "l2", "smoothing", "0.001")
        }
    assert TESTED in printed(capsys, "report", "out-labels.cohen")
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = reader.EventAccumulator(exported("labels", "tensorboard")).Reload()
    tags = events.Tags()["scalars"]
    assert all(
        "true_label" in tag for tag in tags if tag.endswith(("accuracy", "acr", "abstained")) and "clean" not in tag
    )
    assert printed(capsys, "compare", "labels", "whole", code=2) == ""


@pytest.mark.parametrize(
    "words",
    [
        "report part", "report part --tables md", "report part --tables latex", "report part --json",
        "report part whole", "report part --paper esb", "compare part whole", "compare whole part --json", "history .",
        "history . --json", "plan --like part --radius 0.1 --rate 100",
        "plan --like part --radius 0.1 --rate 100 --json", "report guesses",
    ],
)  # fmt: skip
def test_an_unfinished_run_is_called_so_in_every_table(words: str, place: Path, capsys: Any) -> None:
    """Rows that were deleted raise every figure."""
    assert MISSING in printed(capsys, *words.split())


def test_an_unfinished_run_is_called_so_by_page_picture_and_every_export(place: Path, capsys: Any) -> None:
    assert run(["report", "part", "--html", "page.html", "--plot", "curve.svg"]) == 0
    page = " ".join(Path("page.html").read_text().split())
    assert "<strong>part is unfinished:</strong> 6 of 40 inputs." in page
    assert f"part ({MISSING})" in Path("curve.svg").read_text()
    assert (
        MISSING in Path(exported("part", "hf")).read_text()
        and "6 of 40 inputs, unfinished" in Path("out-part.hf").read_text()
    )
    for name in ("part", "guesses"):
        with Path(exported(name, "csv")).open() as file:
            assert {row["inputs"] for row in csv.DictReader(file)} == {"40"}
        assert read_log(Path(exported(name, "cohen"))).inputs == 40
        assert MISSING in printed(capsys, "report", f"out-{name}.cohen")
    assert "inputs" not in Path(exported("whole", "csv")).read_text()
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = reader.EventAccumulator(exported("part", "tensorboard")).Reload()
    assert all(
        tag.startswith("smoothcert/unfinished/")
        for tag in events.Tags()["scalars"]
        if "draws" not in tag and "seconds" not in tag
    )
    said = events.Tensors("smoothcert/claim/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "alpha 0.001 an input" in said and MISSING in said


def test_predictions_keep_their_risk(place: Path) -> None:
    with Path(exported("guesses", "csv")).open() as file:
        assert {row["alpha"] for row in csv.DictReader(file)} == {"0.05"}
    assert read_log(Path(exported("guesses", "cohen"))).claim.alpha == 0.05


def test_parquet_keeps_all_of_it(place: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    about = json.loads(parquet.read_schema(exported("part", "parquet")).metadata[b"smoothcert"])
    said = {key: about[key] for key in ("norm", "guarantee", "tested", "alpha", "inputs")}
    assert said == {"norm": "l2", "guarantee": "smoothing", "tested": "guess", "alpha": 0.001, "inputs": 40}


@pytest.mark.parametrize(
    "words",
    [
        "report empty", "report whole empty", "report empty --json", "report empty --html p.html",
        "compare empty whole", "compare whole empty", "compare whole part empty",
        "export empty --out x", "export empty --to hf --out x",
        "plan --like empty --radius 0.1", "report empty --paper ens", "certificate empty 0", "history only",
    ],
)  # fmt: skip
def test_an_empty_run_is_one_line_everywhere(words: str, place: Path, capsys: Any) -> None:
    before = sorted(path.name for path in place.iterdir())
    capsys.readouterr()
    assert run(words.split()) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("smoothcert: ") and captured.out == ""
    assert sorted(path.name for path in place.iterdir()) == before


def test_logs_that_say_a_wrong_number_of_inputs_are_one_line(place: Path, capsys: Any) -> None:
    text = Path(exported("part", "cohen")).read_text()
    for wrong in ("5", "-1", "x", "4e1"):
        Path("wrong.tsv").write_text(text.replace("\t40\n", f"\t{wrong}\n"))
        assert run(["report", "wrong.tsv"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"inputs of log wrong.tsv must be a whole number, 6 or more; got {wrong}" in line
