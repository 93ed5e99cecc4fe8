"""One input's certificate as a document: it holds all that a check needs, and a check finds what was changed in it."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import linear
import pytest
import small_run

from smoothcert.classifiers import load
from smoothcert.cli.main import run
from smoothcert.errors import RunError
from smoothcert.runs.certificate import check, document, read_document, verify_document
from smoothcert.runs.store import read
from smoothcert.runs.verify import Places

INDEX = 5


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificate")
    small_run.make(folder / "run", small_run.write_data(folder / "data.npz"))
    return folder


@pytest.fixture(scope="module")
def made(place: Path) -> dict[str, Any]:
    _, inputs = small_run.recipe_for(place / "data.npz")
    return json.loads(json.dumps(document(read(place / "run"), INDEX, inputs).tables()))


@pytest.fixture
def checked(tmp_path: Path):
    """Write a document, read it as a stranger would, and check it with the model alone."""

    def problems(table: dict[str, Any], classifier: Any = None, again: bool = True) -> list[str]:
        path = tmp_path / "c.json"
        path.write_text(json.dumps(table))
        if classifier is not None:
            return check(read_document(path), classifier, again).problems
        return verify_document(read_document(path), Places(model="linear:score"), again).problems

    return problems


def test_the_document_says_what_the_run_says(place: Path, made: dict[str, Any]) -> None:
    row = read(place / "run").rows[INDEX]
    assert made["answer"] == {
        "label": row.predicted, "radius": row.radius, "norm": "l2", "alpha": 0.05, "guarantee": "smoothing",
        "test_class": "guess",
    }  # fmt: skip
    assert made["certificate"]["evidence"]["low"] == row.low
    assert made["certificate"]["evidence"]["counts"] == [list(row.answers[1].counts[0])]
    assert made["question"]["seed"] == 0 and len(made["question"]["model_digest"]) == 64
    assert made["input"]["shape"] == [4] and len(made["input"]["sha256"]) == 64


def test_an_honest_document_is_as_stated(made: dict[str, Any], checked, tmp_path: Path) -> None:
    assert checked(made) == []
    found = read_document(tmp_path / "c.json")
    findings = check(found, load("linear:score"))
    assert (findings.redrawn, findings.votes) == (1, 550)  # 50 that choose, 500 that test


CHANGES = {
    "the answer's radius": (("answer", "radius"), 9.0, "it says answer radius 9.0"),
    "the answer's label": (("answer", "label"), 7, "it says answer label 7"),
    "the answer's alpha": (("answer", "alpha"), 1e-9, "it says answer alpha 1e-09"),
    "the answer's norm": (("answer", "norm"), "linf", 'it says answer norm "linf"'),
    "the answer's guarantee": (("answer", "guarantee"), "deterministic", 'guarantee "deterministic"'),
    "the answer's tested class": (("answer", "test_class"), "labels", 'test_class "labels"'),
    "the certified norm": (("certificate", "norm"), "linf", 'it says certificate norm "linf"'),
    "the certified alpha": (("certificate", "alpha"), 1e-9, "it says certificate alpha 1e-09"),
    "a bound in the evidence": (("certificate", "evidence", "low"), 0.9999, "it says certificate evidence low 0.9999"),
    "something extra": (("robust",), True, "it says robust true"),
    "the certified radius": (("certificate", "radius"), 9.0, "counts give radius"),
    "the certified label": (("certificate", "label"), 7, "counts give label"),
    "alpha of the question": (("question", "sampling", "alpha"), 0.5, "counts give radius"),
    "sigma of the question": (("question", "noise", "sigma"), 0.5, "counts give radius"),
    "the seed": (("question", "seed"), 1, "differ when drawn again"),
    "the number of draws": (("answers", 1, "draws"), 400, "votes in 400 test draws"),
    "the model": (("question", "model_digest"), "0" * 64, "not the one that was certified"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_changed_is_found(name: str, made: dict[str, Any], checked) -> None:
    keys, value, said = CHANGES[name]
    table = copy.deepcopy(made)
    inner = table
    for key in keys[:-1]:
        inner = inner[key]
    assert inner.get(keys[-1]) != value if isinstance(inner, dict) else True
    inner[keys[-1]] = value
    assert any(said in problem for problem in checked(table))


def test_forged_votes_are_found_by_drawing_again(made: dict[str, Any], checked) -> None:
    """A forger who recomputes label, bound and radius from invented votes cannot invent the noise."""
    from smoothcert.noise.gaussian import Gaussian
    from smoothcert.procedures._compose import tested

    table = copy.deepcopy(made)
    label = table["answer"]["label"]
    votes = [0, 0]
    votes[label] = 500
    table["answers"][1]["counts"] = [votes]
    forged = tested(label, votes, 0.05, Gaussian(0.25), 4)
    radius = forged.radius
    table["answer"]["radius"] = radius
    table["certificate"] = json.loads(json.dumps(dataclasses.asdict(forged)))
    assert radius > made["answer"]["radius"]
    assert checked(table, again=False) == []
    (problem,) = checked(table)
    assert "test votes differ when drawn again" in problem


def test_another_model_is_found_by_its_votes(made: dict[str, Any], checked) -> None:
    assert len(checked(made, classifier=lambda x: -linear.score(x))) >= 2


def test_without_its_values_it_is_recomputed_only(place: Path, checked, tmp_path: Path) -> None:
    _, inputs = small_run.recipe_for(place / "data.npz")
    short = document(read(place / "run"), INDEX, inputs, values=False).tables()
    assert "values" not in short["input"]
    assert checked(short) == []
    found = read_document(tmp_path / "c.json")
    assert check(found, load("linear:score")).redrawn == 0
    without = verify_document(found, Places(model="linear:score"))
    assert "nothing was drawn again: counts that were invented would not show" in without.left_open
    with_data = verify_document(found, Places(model="linear:score", data=str(place / "data.npz")))
    assert (with_data.redrawn, with_data.problems) == (1, [])  # its hash says which input of the data it is


def damaged(made: dict[str, Any], *keys: Any, value: Any = None) -> str:
    """The document with something missing (no value) or replaced."""
    table = copy.deepcopy(made)
    inner: Any = table
    for key in keys[:-1]:
        inner = inner[key]
    if value is None:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = value
    return json.dumps(table)


def test_what_is_no_document_is_one_line(made: dict[str, Any], tmp_path: Path) -> None:
    texts = [
        "", "{}", "[1]", "null", "hello", '"smoothcert certificate 1"', json.dumps(made)[:-40],
        damaged(made, "format", value="smoothcert certificate 9"),
        *(damaged(made, key) for key in ("input", "certificate", "answers", "question")),
        damaged(made, "input", "values", value="!!!"),
        damaged(made, "input", "values", value="AAAA"),
        damaged(made, "input", "values", value=7),
        damaged(made, "input", "sha256", value="0" * 64),
        damaged(made, "question", "shape", value=[10**9, 10**9]),
        damaged(made, "question", "shape", value=[-4]),
        damaged(made, "input", "index", value="five"),
        damaged(made, "answers", value=3),
        damaged(made, "answers", 0, "counts", value="many"),
        damaged(made, "certificate", value="x"),
        damaged(made, "question", "noise", value={"name": "loud"}),
        damaged(made, "question", "noise", value={}),
        damaged(made, "question", "seed", value="zero"),
        damaged(made, "question", "unheard_of", value=1),
        damaged(made, "question", "procedure", value={"name": "certify", "n0": "x"}),
    ]  # fmt: skip
    path = tmp_path / "c.json"
    for text in texts:
        path.write_text(text)
        with pytest.raises(RunError) as caught:
            read_document(path)
        assert "\n" not in str(caught.value) and " must " in str(caught.value), text[:200]


def test_inputs_that_have_no_certificate_are_named(place: Path, tmp_path: Path) -> None:
    _, inputs = small_run.recipe_for(place / "data.npz")
    with pytest.raises(RunError, match=r"index of run run must be one of 0, 1, 2, …, 11; got 12"):
        document(read(place / "run"), 12, inputs)
    _, others = small_run.recipe_for(small_run.write_data(tmp_path / "other.npz", seed=1))
    with pytest.raises(RunError, match="its hash differs"):
        document(read(place / "run"), INDEX, others)


@pytest.mark.suspicious
def test_the_commands_go_together(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.json"
    assert run(["certificate", str(place / "run"), str(INDEX), "--json", "--out", str(path)]) == 0
    told = capsys.readouterr().out
    assert path.read_text() == told
    assert json.loads(told)["words"]["claim"].startswith("Label ")
    assert run(["verify", str(path)]) == 2
    assert "is code that certificate c.json names: it is imported only with --trust-code" in capsys.readouterr().err
    assert run(["verify", str(path), "--trust-code"]) == 0
    assert "550 draws drawn again, 0 votes moved within rounding: all as stated" in capsys.readouterr().out
    assert run(["verify", str(path), "--model", "lines:b"]) == 1
    assert "NOT AS STATED" in capsys.readouterr().out
    assert run(["verify", str(path), "--model", "lines:b", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["index"], answer["rows"]) == (INDEX, 1) and answer["problems"]
    assert run(["verify", str(path), "--redraw", "0"]) == 0
    assert "nothing drawn again: all as stated" in capsys.readouterr().out
    path.write_text(told.replace('"radius": 0', '"radius": 1', 1))
    assert run(["verify", str(path), "--redraw", "0"]) == 1
    capsys.readouterr()
    assert run(["verify", str(place / "run"), "--json", "--trust-code"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["problems"] == [] and answer["redrawn"] == 4 and answer["rows"] == answer["inputs"]


def test_an_answer_of_a_memory_is_told_and_its_smoothing_checked(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, path = tmp_path / "run", tmp_path / "c.json"
    levels = ["--sigma-per-input", "--sigma-search", "grid", "--memory", str(tmp_path / "m.sqlite")]
    data = ["--data", str(place / "data.npz"), "--sigma", "0.25", "--n", "300"]
    assert run(["certify", "linear:score", *data, *levels, "--out", str(out)]) == 0
    assert run(["certificate", str(out), "3", "--out", str(path)]) == 0
    made = json.loads(path.read_text())
    row = read(out).rows[3]
    assert made["answer"]["guarantee"] == "memory" and made["sigma"] == row.sigma
    assert "promised by a memory" in made["words"]["claim"] and made["memory"]["of"]["identity"]
    capsys.readouterr()
    assert run(["verify", str(path), "--trust-code"]) == 1
    said = capsys.readouterr().out
    assert "400 draws drawn again" in said and "cannot be checked without the memory (--memory)" in said
    checked_with = ["--trust-code", "--memory", str(tmp_path / "m.sqlite")]
    assert run(["verify", str(path), *checked_with]) == 0
    path.write_text(json.dumps({**made, "answer": {**made["answer"], "label": 1 - row.predicted, "radius": 1e6}}))
    assert run(["verify", str(path), *checked_with]) == 1
    assert "the memory's rule gives" in capsys.readouterr().out
    made["sigma"] = row.sigma * 1.01
    path.write_text(json.dumps(made))
    assert run(["verify", str(path), *checked_with]) == 1
