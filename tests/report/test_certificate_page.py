"""A certificate for people: its claim, its meaning and its page."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from smoothcert.cli.main import run
from smoothcert.data import load as load_data
from smoothcert.report import certificate as words
from smoothcert.runs.certificate import document
from smoothcert.runs.run import BeforeMemory
from smoothcert.runs.store import read


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    x = np.random.default_rng(0).random((6, 1, 2, 2), dtype=np.float32)
    np.savez(folder / "x.npz", x=x, y=np.zeros(6, dtype=np.int64))
    out = ["--n", "200", "--n0", "20", "--sigma", "0.25", "--out", str(folder / "run")]
    assert run(["certify", "pictures_model:score", "--data", str(folder / "x.npz"), *out]) == 0
    return folder


@pytest.fixture(scope="module")
def made(place: Path):
    return document(read(place / "run"), 2, load_data(str(place / "x.npz")))


def with_row(made, **changes):
    return replace(made, run=replace(made.run, rows=(replace(made.row, **changes),)))


def test_the_claim_is_one_sentence(made) -> None:
    said = words.headline(made)
    assert said.startswith(f"Label {made.row.predicted} is certified for input 2 of ") and "ℓ₂ radius 0." in said
    assert words.headline(with_row(made, predicted=-1, radius=0.0)).startswith("No label is certified for input 2")
    core = replace(made, proven=replace(made.proven, guarantee="none"))
    assert "with no radius around it" in words.headline(core)
    assert words.meaning(core)[0] == []


def test_its_meaning_is_that_of_one_input(made) -> None:
    said, silent = words.meaning(made)
    assert [one.lead for one in said] == ["Nothing nearer changes the label.", "With a known risk."]
    assert silent[0].text.endswith("The data says 0.")
    assert not any("below" in one.text for one in [*said, *silent])  # of a report's page


def test_facts_hold_counts_bound_and_hashes(made) -> None:
    told, low = dict(words.facts(made)), made.proven.evidence.low
    assert float(told["bound"].split()[2]) <= low < float(told["bound"].split()[2]) + 1e-6
    assert told["test draws"].startswith("200: ") and told["guess draws"].startswith("20: ")
    assert told["alpha"].startswith("0.001") and made.run.asked.model_digest in told["model"]
    settled = with_row(made, settled=BeforeMemory(1, 0.25, "switched", 3, False, 4))
    assert dict(words.facts(settled))["memory"].endswith("smoothing alone said 1, radius 0.250")


def test_words_that_were_changed_are_named(made, place: Path, tmp_path: Path, capsys) -> None:
    """Words are made again from the numbers and compared, as is everything else that a document says."""
    path, model = tmp_path / "c.json", ["--model", "pictures_model:score", "--redraw", "0"]
    assert run(["certificate", str(place / "run"), "2", "--out", str(path)]) == 0
    assert run(["verify", str(path), *model]) == 0
    honest = json.loads(path.read_text())
    for part, value in (("claim", "Label 7 is certified within any radius."), ("says", ["It is robust."]), ("more", 1)):
        path.write_text(json.dumps({**honest, "words": {**honest["words"], part: value}}))
        capsys.readouterr()
        assert run(["verify", str(path), *model]) == 1
        assert f"it says words {part} " in capsys.readouterr().out


class Seen(HTMLParser):
    """Tags in their order; open ones must be closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images: list[str] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        if tag == "img":
            self.images.append(dict(attrs)["src"])
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "c.html"
    assert run(["certificate", str(place / "run"), "2", "--html", str(page)]) == 0
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.strip().endswith(f"smoothcert: wrote {page}")
    text = page.read_text()
    seen = Seen()
    seen.feed(text)
    assert seen.open == [] and len(seen.images) == 2 and all(src.startswith("data:image/png") for src in seen.images)
    assert "http" not in text.replace("http-equiv", "") and "<script" not in text
    assert "model_digest" in text and "It does not say" in text


def test_without_the_input_there_is_no_picture(place: Path, tmp_path: Path) -> None:
    page = tmp_path / "c.html"
    assert run(["certificate", str(place / "run"), "2", "--html", str(page), "--without-input"]) == 0
    assert "<img" not in page.read_text()


def test_the_terminal_gets_lines(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["certificate", str(place / "run"), "2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Label ") and "it does not say: " in out


@pytest.mark.parametrize("index", ["99", "-1", "two", ""])
def test_bad_indices_are_one_line(index: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["certificate", str(place / "run"), "--", index]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
