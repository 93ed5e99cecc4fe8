"""Names of runs and files, however strange, and places where half of something lies already."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from smoothcert.cli.main import run

GOOD = {"x": np.full((4, 4), 0.5, dtype=np.float32), "y": np.array([0, 1, 0, 1])}
STRANGE_NAMES = ["run#1", "run?1", "run%41", "a b", "sigma=0.5", "é", "a\nb", "'\"", "-run", "\x1b[31mred", "x" * 250]


@pytest.mark.parametrize("name", STRANGE_NAMES)
def test_strange_names_work_from_end_to_end(tmp_path, capsys, monkeypatch, name):
    """What is written under a name is found under that name and no other, or the name is refused at once."""
    monkeypatch.chdir(tmp_path)
    np.savez("good.npz", **GOOD)
    words = ["--data=good.npz", "--sigma=0.25", "--n=100", f"--memory={name[:200]}.memory", f"--out={name}"]
    assert run(["certify", "linear:score", *words]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["good.npz", name, f"{name[:200]}.memory"])
    for line in (
        ["verify", "--", name],
        ["report", "--html=page.html", "--", name],
        ["report", "--json", "--", name],
        ["report", "--tables=latex", "--", name],
        ["compare", "--", name, name],
        ["history", "."],
        ["certificate", f"--out={name[:200]}.json", "--", name, "0"],
        ["verify", f"--memory={name[:200]}.memory", "--", f"{name[:200]}.json"],
        ["export", "--to=csv", f"--out={name[:200]}.csv", "--", name],
        ["memory", "check", "--", f"{name[:200]}.memory"],
        ["plan", f"--like={name}", "--rate=1000"],
        ["audit", "--inputs=1", "--n=100", "--", name],
    ):
        capsys.readouterr()
        assert run(line) == 0, line
        assert "\x1b" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("name", ["x" * 256, "é" * 200, "a/" * 2500, "nul\0", "\udcff"], ids=ascii)
def test_names_that_no_disk_can_hold_are_one_line(tmp_path, capsys, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    np.savez("good.npz", **GOOD)
    assert run(["certify", "linear:score", "--data=good.npz", "--sigma=0.25", "--n=100", "--out=run"]) == 0
    before = sorted(tmp_path.rglob("*"))
    drawn = ["--data=good.npz", "--sigma=0.25", "--n=100"]
    for line in (
        ["certify", "linear:score", *drawn, f"--out={name}"],
        ["certify", "linear:score", *drawn, "--out=other", f"--memory={name}"],
        ["predict", "linear:score", *drawn, f"--out={name}"],
        ["report", "run", f"--html={name}"],
        ["report", "run", f"--plot={name}.svg"],
        ["history", ".", f"--plot={name}.svg"],
        ["certificate", "run", "0", f"--out={name}"],
        ["export", "run", f"--out={name}"],
        ["export", "run", "--to=parquet", f"--out={name}"],
        ["export", "run", "--to=tensorboard", f"--out={name}"],
        ["memory", "create", name, "linear:score", "--shape=4"],
        ["ensemble", "make", "linear:score", "linear:score", f"--out={name}"],
        ["train", "--data=good.npz", "--arch=mlp", "--epochs=1", f"--out={name}"],
        ["demo", f"--out={name}"],
    ):
        capsys.readouterr()
        assert run(line) == 2, line
        told = capsys.readouterr().err.splitlines()
        errors = [text for text in told if "must" in text or "cannot read or write" in text]
        assert len(errors) == 1 and errors[0].startswith("smoothcert: "), line
        assert sorted(tmp_path.rglob("*")) == before, line


def test_output_that_exists_partly_is_refused_or_completed(tmp_path, capsys, monkeypatch):
    """A folder with half of something in it is never taken for the whole, and nothing in it is lost."""
    monkeypatch.chdir(tmp_path)
    np.savez("good.npz", **GOOD)
    drawn = ["--data=good.npz", "--sigma=0.25", "--n=100"]
    assert run(["certify", "linear:score", *drawn, "--out=whole"]) == 0
    for kept in ("recipe.toml", "certificates.sqlite", "notes.txt"):
        half = tmp_path / f"half-{kept}"
        half.mkdir()
        shutil.copy("whole/recipe.toml" if kept == "notes.txt" else f"whole/{kept}", half / kept)
        before = {path.name: path.read_bytes() for path in half.iterdir()}
        capsys.readouterr()
        code = run(["certify", "linear:score", *drawn, f"--out={half.name}"])
        if code == 0:  # rows without their recipe, or a recipe without rows, of this very question
            assert kept != "notes.txt" and run(["verify", half.name]) == 0
            (half / "recipe.toml").unlink()
            assert run(["certify", "linear:score", *drawn, "--seed=1", f"--out={half.name}"]) == 2
        else:
            assert code == 2 and {path.name: path.read_bytes() for path in half.iterdir()} == before
        assert run(["ensemble", "make", "linear:score", "linear:score", f"--out={half.name}"]) == 2
        assert run(["train", "--data=good.npz", "--arch=mlp", "--epochs=1", f"--out={half.name}"]) == 2
