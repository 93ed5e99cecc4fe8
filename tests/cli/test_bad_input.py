"""Nonsense through the command line: one line, exit code 2, nothing left behind and nothing lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import small_run

from smoothcert.cli.main import run

GOOD = {"x": np.full((4, 4), 0.5, dtype=np.float32), "y": np.array([0, 1, 0, 1])}


@pytest.fixture
def certify(tmp_path, capsys, monkeypatch):
    """Run `smoothcert certify` with some options changed; assert the refusal and return its line."""
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "good.npz", **GOOD)

    def refused(model="linear:score", data=None, code=2, **options):
        settings = {"data": data or "good.npz", "sigma": "0.25", "out": "run", "n": "100", **options}
        before = sorted(tmp_path.rglob("*"))
        words = [word for key, value in settings.items() for word in (f"--{key.replace('_', '-')}", str(value))]
        assert run(["certify", model, *words]) == code
        captured = capsys.readouterr()
        remarks = ("can prove radii", "noise is added in floating point", "could be hashed")
        errors = [line for line in captured.err.splitlines() if not any(words in line for words in remarks)]
        assert len(errors) == 1 and errors[0].startswith("smoothcert: "), captured.err
        assert sorted(tmp_path.rglob("*")) == before, "something was left behind"
        return errors[0]

    return refused


def arrays(**changes):
    return {**GOOD, **changes}


def with_value(value):
    x = GOOD["x"].copy()
    x[2, 1] = value
    return x


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (arrays(x=with_value(np.nan)), "NaN"),
        (arrays(x=with_value(np.inf)), "inf"),
        (arrays(x=with_value(1.5)), "--range"),
        (arrays(x=with_value(-0.1)), "--range"),
        (arrays(x=np.zeros((0, 4), dtype=np.float32), y=np.zeros(0, dtype=np.int64)), "must hold at least one input"),
        (arrays(y=np.array([0, 1])), "got"),
        (
            arrays(y=np.array([0, 1, 2, 1])),
            "labels must be classes of the classifier, 0 to 1; the data has labels up to 2",
        ),
        (arrays(y=np.array([0, -1, 0, 1])), "got"),
        (arrays(y=np.array([0.5, 1, 0, 1])), "got"),
        (arrays(x=np.full((4, 7), 0.5, dtype=np.float32)), "the classifier must accept inputs [1, 7]"),
        (arrays(x=np.array(["a", "b", "c", "d"])), "got"),
        ({"y": GOOD["y"]}, "x"),
    ],
)
def test_bad_data(certify, tmp_path, content, message):
    np.savez(tmp_path / "bad.npz", **content)
    assert message in certify(data="bad.npz")


def test_foreign_and_missing_data(certify, tmp_path):
    (tmp_path / "foreign.npz").write_bytes(b"PK\x03\x04 no archive")
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("no data")
    for data in ("foreign.npz", "absent.npz", "empty", "notes.txt", "cifar11"):
        assert "got" in certify(data=data)
    assert "did you mean 'cifar10'" in certify(data="cifar11")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma": "0"}, "sigma of gaussian must be a positive number, for inputs in [0,1]; got 0"),
        ({"sigma": "-1"}, "sigma of gaussian must be a positive number"),
        ({"sigma": "nan"}, "sigma of gaussian must be a positive number"),
        ({"sigma": "much"}, "--sigma"),
        ({"alpha": "0"}, "alpha of fixed must be between 0 and 1, both excluded; got 0"),
        ({"alpha": "1"}, "alpha of fixed must be between 0 and 1"),
        ({"alpha": "nan"}, "alpha of fixed must be between 0 and 1"),
        ({"n": "0"}, "n of fixed must be a positive whole number; got 0"),
        ({"n": "-5"}, "n of fixed must be a positive whole number; got -5"),
        ({"n": "9"}, "n of fixed must be at least 10 to certify anything at alpha 0.001; got 9"),
        ({"n0": "0"}, "n0 of certify must be a positive whole number; got 0"),
        ({"batch": "0"}, "batch of the engine must be a positive whole number; got 0"),
        ({"threads": "0"}, "threads of a forward pass must be a whole number of at least 1; got 0"),
        ({"threads": "1025"}, "threads of a forward pass must be a whole number of at most 1024; got 1025"),
        ({"batch": str(10**11)}, "batch of the engine must fit into this machine's memory; got 100000000000, which"),
        ({"seed": "-1"}, "seed must be a whole number from 0 to 2^64"),
        ({"skip": "0"}, "skip of the data must be at least 1; got 0"),
        ({"max": "0"}, "max of the data must be -1 (all) or at least 1; got 0"),
        ({"engine": "gpu"}, "engine must be one of auto, onnxruntime, torch, torch:DEVICE; got 'gpu'"),
        ({"range": "0"}, "--range must be two numbers lo,hi; got '0'"),
        ({"range": "1,0"}, "lo < hi"),
        ({"sigmas": "1"}, "--sigmas"),
    ],
)
def test_bad_options(certify, options, message):
    assert message in certify(**options)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("linear:nan", "must return numbers; got NaN"),
        ("linear:flat", "must return scores [batch, classes]"),
        ("linear:text", "must return a tensor of scores"),
        ("linear:broken", "it raised RuntimeError: no such luck"),
        ("linear:absent", "must name a callable that can be imported"),
        ("nowhere", "there is no 'nowhere'"),
        ("nowhere.onnx", "there is no such file"),
    ],
)
def test_bad_models(certify, model, message):
    assert message in certify(model=model)


def test_foreign_model_files(certify, tmp_path):
    (tmp_path / "a.onnx").write_bytes(b"no network")
    (tmp_path / "b.safetensors").write_bytes(b"no weights")
    (tmp_path / "c.pth.tar").write_bytes(b"no pickle")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "config.json").write_text("{}")
    for model in ("a.onnx", "b.safetensors", "c.pth.tar", "folder"):
        assert "must" in certify(model=model)


def test_models_that_are_not_functions_are_refused_before_anything_is_stored(tmp_path, capsys, monkeypatch):
    """These can only be seen when noisy inputs are tried; then the corrected model can be certified in their place."""
    monkeypatch.chdir(tmp_path)
    np.savez("good.npz", **GOOD)
    words = ["--data", "good.npz", "--sigma", "0.25", "--out", "run", "--n", "100", "--memory", "m.sqlite"]
    for model in ("linear:batchwise", "linear:moody"):
        assert run(["certify", model, *words]) == 2
        assert "must give the same scores for the same input" in capsys.readouterr().err
        assert sorted(tmp_path.iterdir()) == [tmp_path / "good.npz"]
    assert run(["certify", "linear:score", *words]) == 0


def test_another_recipe_is_refused_and_the_run_is_kept(tmp_path, capsys, monkeypatch):
    from smoothcert.runs.store import read

    monkeypatch.chdir(tmp_path)
    np.savez("good.npz", **GOOD)
    words = ["certify", "linear:score", "--data", "good.npz", "--out", "run", "--n", "100"]
    assert run([*words, "--sigma", "0.25"]) == 0
    kept = read(Path("run"))
    for more in (["--sigma", "0.5"], ["--sigma", "0.25", "--seed", "1"], ["--sigma", "0.25", "--max", "2"]):
        capsys.readouterr()
        assert run([*words, *more]) == 2
        assert "answers another question" in capsys.readouterr().err
    assert read(Path("run")) == kept


@pytest.mark.parametrize(
    "words",
    [
        ["report", "absent"],
        ["verify", "absent"],
        ["report", "good.npz"],
        ["export", "absent", "--to", "cohen", "--out", "x"],
        ["certfy"],
        ["certify"],
        ["report"],
        ["data", "get", "cifar11"],
        ["train", "--data", "digits", "--arch", "resnet21", "--sigma", "0.25", "--out", "m"],
        ["train", "--data", "digits", "--arch", "digits_cnn", "--sigma", "-1", "--out", "m"],
    ],
)
def test_other_commands(tmp_path, capsys, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    np.savez("good.npz", **GOOD)
    assert run(words) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["good.npz"]


def test_an_unwritable_place(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("good.npz", **GOOD)
    assert (
        run(["certify", "linear:score", "--data", "good.npz", "--sigma", "0.25", "--out", "/proc/run", "--n", "100"])
        == 2
    )
    assert "/proc/run must be writable; got:" in capsys.readouterr().err


@pytest.fixture
def tiny_disk(tmp_path):
    """A real file system that is soon full; needs the right to mount."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("mounting a small file system needs root")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)], capture_output=True).returncode:
        pytest.skip("this machine does not allow mounting a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_keeps_what_was_stored(tiny_disk, tmp_path, capsys):
    """The run stops with one line; freed of the fill, the same command continues to the same rows."""
    from smoothcert.runs.store import read

    data = small_run.write_data(tmp_path / "x.npz", 600)
    words = ["certify", "linear:score", "--data", str(data), "--sigma", "0.25", "--n", "100"]
    filler = tiny_disk / "filler"
    filler.write_bytes(b"x" * 16_000)
    assert run([*words, "--out", str(tiny_disk / "run")]) == 2
    assert "must be writable" in capsys.readouterr().err
    filler.unlink()
    subprocess.run(["mount", "-o", "remount,size=4m", str(tiny_disk)], check=True)
    assert run([*words, "--out", str(tiny_disk / "run")]) == 0
    assert run([*words, "--out", str(tmp_path / "run")]) == 0
    stored = [[(r.index, r.radius, r.answers) for r in read(p / "run").rows] for p in (tiny_disk, tmp_path)]
    assert stored[0] == stored[1]


@pytest.mark.parametrize("words", [["--n", "0"], ["--n", "5"], ["--n", str(10**23)], ["--max", "0"], ["--max", "-2"]])
def test_a_demo_that_cannot_end_well_does_not_begin(tmp_path, capsys, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    assert run(["demo", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and len(captured.err.splitlines()) == 1 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["report", "run"], ["history", "."], ["aces", "combine", "--certify", "run"]])
def test_a_plot_is_not_put_beside_a_device(tmp_path, capsys, monkeypatch, words):
    """It once wrote /dev/full.svg, and /dev/full.png."""
    monkeypatch.chdir(tmp_path)
    option = "--plots" if words[0] == "aces" else "--plot"
    for place in ("/dev/full", "/dev/null"):
        assert run([*words, option, place]) == 2
        assert f"{option} must be a file or folder, not a device; got '{place}'" in capsys.readouterr().err
    assert not [path for path in Path("/dev").iterdir() if path.suffix in (".svg", ".png")]


def test_plan_refuses_what_has_no_votes_of_one_network(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_run.write_data(tmp_path / "few.npz")
    words = "--certify switches:steep --core switches:core --data few.npz --sigma 0.25 --n 100 --look 100 --alpha 0.05"
    assert run(["aces", "certify", *words.split(), "--out", "aces"]) == 0
    capsys.readouterr()
    assert run(["plan", "--like", "aces"]) == 2
    assert "run aces must be one of smoothcert certify or predict; got aces" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("certify linear:score --data good.npz --sigma 0.25 --batch 10000000000 --out new", "batch of the engine"),
        (
            "certify linear:score --data good.npz --sigma 0.25 --sigma-per-input --sigma-search votes "
            "--draws 2000000000 --out new",
            "draws of per_input_sigma",
        ),
        ("train --data good.npz --arch mlp --sigma-draws 2000000000 --out new", "sigma_draws of training"),
        ("train --data good.npz --arch mlp --set copies=2000000000 --out new", "copies of training"),
        ("ensemble forecast lines:a lines:b --data good.npz --sigma 0.25 --draws 2000000000", "draws of forecast"),
        ("memory create new linear:score --shape 1000000,1000000", "shape of an input"),
        ("export-onnx linear:score --shape 1000000,1000000 --out new.onnx", "shape of an input"),
    ],
)
def test_memory_is_asked_for_before_it_is_taken(words, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("good.npz", **GOOD)
    assert run(words.split()) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "could be hashed" not in line]
    assert len(lines) == 1 and f"{said} must fit into this machine's memory; got" in lines[0]
    assert [path.name for path in tmp_path.iterdir()] == ["good.npz"]


def test_an_output_that_is_full_is_one_line(tmp_path):
    """Standard output, too, may be on a full disk."""
    code = "from smoothcert.cli.main import main; main()"
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-c", code, "plan", "--sigma", "0.25", "--n", "1000"]
        answer = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    assert answer.returncode == 2, answer.stderr
    assert answer.stderr.splitlines() == ["smoothcert: cannot read or write output: No space left on device"]
