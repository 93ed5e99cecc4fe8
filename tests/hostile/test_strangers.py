"""A stranger's run, certificate or model folder executes nothing: code that a file names needs the reader's word."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import forging
import pytest
import small_run

from smoothcert.classifiers import load
from smoothcert.classifiers.module import trusting
from smoothcert.cli.main import run
from smoothcert.errors import ModelError
from smoothcert.runs.store import read

pytestmark = pytest.mark.suspicious

CODE = """
from pathlib import Path
Path("executed").touch()
import torch

def net(x):
    return torch.zeros(len(x), 2)
"""
ONLY = "it is imported only with --trust-code"


def module(place: Path) -> str:
    """A name of its own: a module is executed once in a process."""
    return f"stranger_{zlib.crc32(str(place).encode())}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a run in it that names the code beside it."""
    monkeypatch.chdir(tmp_path)
    small_run.make(tmp_path / "run", small_run.write_data(tmp_path / "data.npz"))
    (tmp_path / f"{module(tmp_path)}.py").write_text(CODE)
    forging.recipe(tmp_path / "run", lambda table: table["question"].update(model=f"{module(tmp_path)}:net"))
    forging.rechain(tmp_path / "run")
    return tmp_path


@pytest.mark.parametrize("words", [
    "verify run", "verify run --redraw all", "audit run", "verify run --redraw 0", "report run", "history .",
    "report run --html page.html", "compare run run", "certificate run 3 --out c.json",
    "export run --to csv --out r.csv",
    "plan --sigma 0.25 --radius 0.1 --like run",
])  # fmt: skip
def test_no_command_runs_code_that_a_run_names(place: Path, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(words.split())
    shown = capsys.readouterr()
    assert not (place / "executed").exists() and "Traceback" not in shown.err
    if words.startswith(("verify run", "audit")) and "--redraw 0" not in words:
        assert code == 2 and f"is code that run run names: {ONLY}" in shown.err


def test_on_trust_it_is_run_and_found_to_be_another_model(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "run", "--trust-code"]) == 1
    assert (place / "executed").exists()
    assert "is not the one that was certified (its hash differs)" in capsys.readouterr().out


def test_code_in_a_certificate_is_not_run_either(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["certificate", "run", "3", "--out", "c.json"]) == 0
    assert run(["verify", "c.json"]) == 2
    assert f"is code that certificate c.json names: {ONLY}" in capsys.readouterr().err
    assert not (place / "executed").exists()
    assert run(["verify", "c.json", "--model", "linear:score"]) == 0  # the reader's own word


@pytest.mark.parametrize("kind", ["ensemble", "denoised", "aces"])
def test_code_in_a_model_folder_is_not_run(place: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    roles = {"ensemble": ("member",), "denoised": ("denoiser", "classifier"), "aces": ("certify", "core")}[kind]
    members = [
        {"place": f"{module(place)}:net", "digest": "0" * 64, "path": False, "covers": "source", "role": role,
         "noise": None}
        for role in roles
    ]  # fmt: skip
    (place / "folder").mkdir()
    vote = {"name": "soft_vote"} if kind == "ensemble" else None
    table = {"format": 1, "kind": kind, "members": members, "vote": vote, "cascade": None, "options": {},
             "order": "as given", "facts": {}, "holdout": None}  # fmt: skip
    (place / "folder" / "composite.json").write_text(json.dumps(table))
    for words in (["certify", "folder", "--data", "data.npz", "--sigma", "0.25", "--out", "new"],
                  ["verify", "run", "--model", "folder"], ["audit", "run", "--model", "folder"]):  # fmt: skip
        assert run(words) in (1, 2)
    assert not (place / "executed").exists() and not (place / "new").exists()
    with pytest.raises(ModelError, match=ONLY):
        load(place / "folder")
    with trusting(), pytest.raises(ModelError, match="its hash differs"):
        load(place / "folder")


def test_installed_packages_are_found_before_the_current_folder(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "difflib.py").write_text(CODE)
    assert run(["certify", "difflib:nothing", "--data", "data.npz", "--sigma", "0.25", "--out", "new"]) == 2
    assert not (place / "executed").exists()


def test_a_changed_model_file_is_not_loaded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hash is compared first: a reader of models need not be safe against what nobody certified."""
    (place / "net.onnx").write_bytes(b"another network")
    forging.recipe(place / "run", lambda table: table["question"].update(model=str(place / "net.onnx")))
    forging.rechain(place / "run")
    from smoothcert.runs.verify import verify_run

    found = verify_run(read(place / "run"))
    assert found.problems[0].endswith("is not the one that was certified (its hash differs)") and found.redrawn == 0


def test_a_link_in_the_place_of_the_lock_is_not_followed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Continuing a stranger's run must not empty a file that the stranger chose."""
    (place / "mine").write_text("precious")
    for planted in ("link", "fifo"):
        (place / "run" / "lock").unlink()
        if planted == "link":
            (place / "run" / "lock").symlink_to(place / "mine")
        else:
            os.mkfifo(place / "run" / "lock")
        words = ["--data", "data.npz", "--sigma", "0.25", "--n", "500", "--n0", "50", "--alpha", "0.05", "--out", "run"]
        run(["certify", "linear:score", *words])
        assert "Traceback" not in capsys.readouterr().err
    assert (place / "mine").read_text() == "precious"


def test_a_recipe_of_gigabytes_is_not_read(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (place / "run" / "recipe.toml").open("r+b") as file:
        file.truncate(2**33)  # a hole, which takes no room
    assert run(["report", "run"]) == 2
    assert "must have at most 1048576 bytes; got 8589934592" in capsys.readouterr().err


def test_a_damaged_schema_that_is_no_text_is_one_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SQLite quotes it in its own message, which Python then cannot decode: found by mutation."""
    path = place / "run" / "certificates.sqlite"
    held = path.read_bytes()
    at = held.index(b"TABLE journal")
    path.write_bytes(held[:at] + b"\xff" * 5 + held[at + 5 :])
    for words in (["report", "run"], ["verify", "run", "--redraw", "0"], ["history", "."]):
        run(words)
        assert "defect" not in "".join(capsys.readouterr())
