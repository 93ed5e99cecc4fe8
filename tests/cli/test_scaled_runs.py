"""Runs on data as they come: features on their own scales, channels last, classes by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from linear import SCORE
from PIL import Image

from smoothcert.cli.main import run
from smoothcert.runs.store import read

WIDTH, OFFSET = np.array([20.0, 0.05, 3.0, 1000.0]), np.array([-7.0, 0.4, 0.0, 5e4])
SIGMA = 0.5
QUIET = ("--n0", "20", "--alpha", "0.0001")

MODEL = '''
import torch
from linear import SCORE

WEIGHT = torch.tensor(SCORE.weight) / torch.tensor({width})
BIAS = SCORE.bias - float(WEIGHT @ torch.tensor({offset}))


def raw(x):
    """A linear classifier of features in their own units, whose slopes differ by orders of magnitude."""
    side = x.double() @ WEIGHT.double() + BIAS
    return torch.stack([-side, side], dim=1)


def constant(x):
    return torch.tensor([[1.0, 0.0]]).expand(len(x), 2)


def pictures(x):
    """The class whose channel is brightest."""
    return x.mean(dim=(2, 3))
'''


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "raw_units.py").write_text(MODEL.format(width=WIDTH.tolist(), offset=OFFSET.tolist()))
    draws = np.random.default_rng(0)
    z = draws.normal(size=(40, 4)) * 0.15
    np.savez("test.npz", x=OFFSET + WIDTH * z, y=(z @ SCORE.weight + SCORE.bias > 0).astype(int))
    spread = np.concatenate([np.full((1, 4), -1.0), np.full((1, 4), 1.0)])  # mean 0 and standard deviation 1
    np.savez("train.npz", x=OFFSET + WIDTH * spread, y=[0, 1], names=np.array(["a", "b", "c", "d"]))
    return z


def certify(*options):
    return run(["certify", "raw_units:raw", "--data", "test.npz", "--sigma", str(SIGMA), *QUIET, *options])


def test_radii_are_those_of_the_scaled_classifier(desk, capsys):
    """The true radius in scaled units is |w·x + b| / ‖w∘width‖, which here is that of SCORE at z."""
    assert certify("--scale", "standard", "--scale-data", "train.npz", "--n", "20000", "--out", "run") == 0
    said = capsys.readouterr()
    assert "in units of the scale" in said.out and "the model receives its own units" in said.err
    found = read(Path("run"))
    true = np.abs(desk @ SCORE.weight + SCORE.bias) / np.linalg.norm(SCORE.weight)
    radii = np.array([row.radius for row in found.rows])
    assert all(row.correct or row.predicted == -1 for row in found.rows)
    assert (radii <= true + 1e-6).all()  # never more, but for a chance of 10⁻⁴ a row
    reach = (true > 0.1) & (true < 2 * SIGMA) & (radii > 0)  # 20 draws can guess wrongly
    assert reach.sum() > 25 and (radii[reach] > true[reach] - 0.05).all()
    assert np.allclose(found.spec.data.scale.width, WIDTH) and found.spec.data.scale.names == ("a", "b", "c", "d")


def test_a_scaled_run_is_verified_audited_and_reported(desk, capsys):
    assert certify("--max", "6", "--scale", "standard", "--scale-data", "train.npz", "--n", "500", "--out", "run") == 0
    assert certify("--max", "6", "--scale", "standard", "--scale-data", "train.npz", "--n", "500", "--out", "run") == 0
    assert "was complete" in capsys.readouterr().err
    assert run(["--trust-code", "verify", "run", "--redraw", "all"]) == 0
    # Attacked points leave [0,1], as these inputs do.
    assert run(["--trust-code", "audit", "run", "--inputs", "3", "--radii", "0.1", "--n", "100", "--draws", "8"]) == 0
    capsys.readouterr()
    assert run(["report", "run", "--json"]) == 0 and run(["report", "run"]) == 0
    told = capsys.readouterr().out
    assert "Radii in the features' own units" in told
    line = next(line for line in told.splitlines() if line.strip().startswith("d "))
    assert line.split()[1:3] == ["1000", "100.0"]  # one unit, and a tenth of it
    assert run(["certificate", "run", "0"]) == 0 and "in units of the scale" in capsys.readouterr().out


def test_another_scale_is_another_question(desk, capsys):
    assert certify("--max", "3", "--scale", "standard", "--scale-data", "train.npz", "--n", "200", "--out", "run") == 0
    assert certify("--max", "3", "--scale", "minmax", "--scale-data", "train.npz", "--n", "200", "--out", "run") == 2
    assert "another" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "words"), [
    (["--scale", "standard"], "--scale-data train.npz"),
    (["--scale-data", "train.npz"], "needs --scale"),
    (["--scale", "none", "--noise", "discrete", "--set", "keep=0.8"], "must be gaussian or uniform; got discrete"),
    (["--scale", "none", "--noise", "splitting"], "must be gaussian or uniform; got splitting"),
    (["--scale", "none", "--memory", "m"], "memory must not be given with a scale"),
    (["--scale", "none", "--range", "0,1"], "not both"),
    (["--range", "0,1"], "must lie in"),
    ([], "--scale none takes them as they are"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused_before_anything_is_written(desk, tmp_path, capsys, options, words):
    sigma = [] if "discrete" in options else ["--sigma", "0.5"]
    assert run(["certify", "raw_units:raw", "--data", "test.npz", *sigma, *QUIET, "--out", "run", *options]) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_none_keeps_the_inputs_own_units(desk, capsys):
    np.savez("waves.npz", x=np.sin(np.arange(40.0)).reshape(10, 4), y=np.zeros(10, dtype=int))
    options = ["--data", "waves.npz", "--scale", "none", "--sigma", "0.25", "--n", "200", *QUIET, "--out", "run"]
    assert run(["certify", "linear:score", *options]) == 0
    assert "in the inputs' own units" in capsys.readouterr().out
    assert not (read(Path("run")).folder / "model").exists()


def test_a_range_says_what_the_model_receives(desk, capsys):
    np.savez("waves.npz", x=np.sin(np.arange(40.0)).reshape(10, 4), y=np.zeros(10, dtype=int))
    options = ["--data", "waves.npz", "--range", "-1,1", "--sigma", "0.25", "--n", "200", *QUIET, "--out", "run"]
    assert run(["certify", "linear:score", *options]) == 0
    assert "the model receives (x + 1)/2, in [0,1]; σ and radii are on that scale" in capsys.readouterr().err


def test_channels_last_are_said_and_put_right(desk, capsys):
    x = np.random.default_rng(0).integers(0, 256, (12, 6, 6, 3), dtype=np.uint8)
    np.savez("last.npz", x=x, y=x.mean(axis=(1, 2)).argmax(axis=1))
    line = ["predict", "raw_units:pictures", "--data", "last.npz", "--sigma", "0.01", "--n", "50", "--alpha", "0.05"]
    assert run([*line, "--out", "a"]) == 0  # a model of six classes, of whose names nobody knows
    said = capsys.readouterr().err
    assert "seem to have channels last: --layout nhwc" in said and "order of channels" in said
    assert run([*line, "--layout", "nhwc", "--out", "b"]) == 0
    assert "channels last" not in capsys.readouterr().err
    assert all(row.clean == row.label for row in read(Path("b")).rows)


# --- classes


def pictures(tmp_path, *names):
    """A folder for each name: pictures that are bright in the channel of its place in (red, green, blue)."""
    for name in names:
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(6):
            colour = [40, 40, 40]
            colour[("red", "green", "blue").index(name)] = 200 + number
            Image.new("RGB", (4, 4), tuple(colour)).save(tmp_path / "images" / name / f"{number}.png")


FOLDER = ("predict", "raw_units:pictures", "--data", "images", "--sigma", "0.1", "--n", "50", "--alpha", "0.05")


def test_alphabetical_order_is_said_and_chance_too(desk, tmp_path, capsys):
    pictures(tmp_path, "red", "green", "blue")  # alphabetical: blue, green, red
    assert run([*FOLDER, "--out", "wrong"]) == 0
    said = capsys.readouterr().err
    assert "in alphabetical order are the model's classes 0 to 2: 'blue', 'green', 'red'; --classes" in said
    assert "only 6 of 18 inputs are classified rightly without noise, no better than chance among 3 classes" in said
    (tmp_path / "labels.txt").write_text("red\ngreen\nblue\n")
    assert run([*FOLDER, "--classes", "labels.txt", "--out", "right"]) == 0
    said = capsys.readouterr().err
    assert "alphabetical" not in said and "chance" not in said
    found = read(tmp_path / "right")
    assert all(row.correct for row in found.rows) and found.spec.data.classes == ("red", "green", "blue")
    (tmp_path / "labels.txt").unlink()  # the recipe holds them
    assert run(["--trust-code", "verify", "right"]) == 0


def test_folders_and_classes_must_be_as_many(desk, tmp_path, capsys):
    pictures(tmp_path, "red", "green")
    assert run([*FOLDER, "--out", "run"]) == 2
    assert "got 2 folders and 3 classes (name the model's classes" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    (tmp_path / "labels.json").write_text(json.dumps({"0": "red", "1": "green", "2": "blue"}))
    assert run([*FOLDER, "--classes", "labels.json", "--out", "run"]) == 0
    assert {row.label for row in read(tmp_path / "run").rows} == {0, 1}


def test_a_folder_that_the_list_lacks_is_named(desk, tmp_path, capsys):
    pictures(tmp_path, "red", "green")
    (tmp_path / "labels.txt").write_text("red\ngrass\nblue\n")
    assert run([*FOLDER, "--classes", "labels.txt", "--out", "run"]) == 2
    assert "'green' is none: got 'red', 'grass', 'blue'" in capsys.readouterr().err


def test_a_good_classifier_hears_nothing_of_chance(desk, capsys):
    assert certify("--scale", "standard", "--scale-data", "train.npz", "--n", "200", "--out", "run") == 0
    assert "chance" not in capsys.readouterr().err
