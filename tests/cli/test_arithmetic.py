"""`--arithmetic`: whole steps for 8-bit data unless told otherwise, kept in the record, and what they protect from."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from smoothcert.catalog import describe
from smoothcert.cli.main import run
from smoothcert.norms import within
from smoothcert.runs.store import read
from smoothcert.spec import Recipe

SHORT = ["--n", "500", "--sigma", "0.25"]
EXACT, FLOAT = {"name": "gaussian_grid", "sigma": 0.25, "grid": 255}, {"name": "gaussian", "sigma": 0.25}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).integers(0, 256, (12, 4)).astype(np.uint8)
    y = np.zeros(12, dtype=np.int64)
    np.savez("bytes.npz", x=x, y=y)
    np.savez("divided.npz", x=x.astype(np.float32) / np.float32(255), y=y)
    np.savez("floats.npz", x=np.where(np.arange(12)[:, None] == 11, 0.3, x / 255).astype(np.float32), y=y)
    return tmp_path


def call(data, out, *options, command="certify"):
    return run([command, "linear:score", "--data", data, "--out", out, *SHORT, *options])


def noise(out):
    return describe(Recipe.read(out / "recipe.toml").spec.noise)


@pytest.mark.parametrize("command", ["certify", "predict"])
def test_8_bit_data_get_whole_steps_unless_told_otherwise(command, place, capsys):
    for data in ("bytes", "divided"):
        assert call(f"{data}.npz", data, command=command) == 0 and noise(place / data) == EXACT
        assert "gaussian_grid noise (l2), sigma 0.25, grid 255" in capsys.readouterr().err
    assert call("bytes.npz", "asked", "--arithmetic", "exact", command=command) == 0
    assert noise(place / "asked") == EXACT
    assert call("bytes.npz", "float", "--arithmetic", "float", command=command) == 0
    assert noise(place / "float") == FLOAT
    capsys.readouterr()
    assert call("floats.npz", "floats", command=command) == 0 and noise(place / "floats") == FLOAT
    assert "floating point to all inputs: input 11 has the value 0.3, which is no multiple" in capsys.readouterr().err
    for out in ("bytes", "float"):
        assert run(["verify", out, "--redraw", "3"]) == 0


def test_a_run_begun_in_floats_goes_on_in_floats(place, capsys):
    assert call("bytes.npz", "run", "--arithmetic", "float") == 0
    before = [row.radius for row in read(place / "run").rows]
    assert call("bytes.npz", "run") == 0
    assert noise(place / "run") == FLOAT and [row.radius for row in read(place / "run").rows] == before
    capsys.readouterr()
    assert call("bytes.npz", "run", "--arithmetic", "exact") == 2
    assert "gaussian_grid" in capsys.readouterr().err


def test_a_record_that_names_the_other_arithmetic_is_found_out(place, capsys):
    assert call("bytes.npz", "run") == 0
    path = place / "run" / "recipe.toml"
    path.write_text(path.read_text().replace('"gaussian_grid"', '"gaussian"').replace("grid = 255\n", ""))
    assert noise(place / "run") == FLOAT
    assert run(["verify", "run", "--redraw", "3"]) != 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arithmetic", "exakt"], "--arithmetic must be one of exact, float; got 'exakt' (did you mean 'exact'?)"),
        (["--noise", "uniform", "--arithmetic", "exact"], "--arithmetic of uniform noise must be float (exact in l1"),
        (["--noise", "splitting", "--arithmetic", "float"], "--arithmetic of splitting noise must be exact"),
        (["--noise", "gaussian_grid", "--arithmetic", "float"], "--arithmetic of gaussian_grid noise must be exact"),
    ],
)
def test_an_arithmetic_that_a_noise_cannot_have_is_refused(options, message, place, capsys):
    assert call("bytes.npz", "run", *options) == 2
    assert message in capsys.readouterr().err and not (place / "run").exists()


def test_exact_arithmetic_is_refused_for_inputs_off_the_grid_and_needless_elsewhere(place, capsys):
    assert call("floats.npz", "run", "--arithmetic", "exact") == 2
    assert "inputs with --arithmetic exact must be multiples of 1/255" in capsys.readouterr().err
    assert not (place / "run").exists()
    assert call("bytes.npz", "run", "--noise", "splitting", "--arithmetic", "exact") == 0


def test_a_noise_too_wide_for_whole_steps_stays_in_floats(place):
    assert run(["certify", "linear:score", "--data", "bytes.npz", "--out", "run", "--n", "100", "--sigma", "20"]) == 0
    assert noise(place / "run")["name"] == "gaussian"


def test_a_classifier_that_reads_the_last_bits_is_refused_in_floats_and_harmless_in_whole_steps(place, capsys):
    """Four grey images on a line: no certified ball holds one with another label (tests/noise shows one in floats)."""
    values = np.array([0, 128, 191, 204], dtype=np.uint8)
    np.savez("grey.npz", x=np.repeat(values[:, None], 3, axis=1), y=np.array([0, 1, 1, 1]))
    words = ["certify", "low_bits:coarse", "--data", "grey.npz", "--sigma", "0.5", "--n", "10000"]

    def contradictions(out, *options):
        assert run([*words, "--out", out, *options]) == 0
        rows = [row for row in read(place / out).rows if row.predicted != -1]
        steps = values.astype(int)
        return [
            (a.index, b.index)
            for a, b in itertools.permutations(rows, 2)
            if a.predicted != b.predicted and within([steps[a.index] - steps[b.index]] * 3, a.radius, "l2", 255)
        ]

    assert contradictions("exact") == []
    capsys.readouterr()
    assert run([*words, "--out", "float", "--arithmetic", "float"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "last bits" in said and "gaussian_grid" in said and not (place / "float").exists()
    ensemble = ["certify", "ab", *words[2:], "--out", "float", "--arithmetic", "float"]
    assert run(["ensemble", "low_bits:coarse", "low_bits:coarse", "--out", "ab"]) == 0 and run(ensemble) == 2
    assert "last bits" in capsys.readouterr().err


def test_why_a_run_is_in_floats_is_on_record(place):
    assert call("floats.npz", "floats") == 0 and call("bytes.npz", "bytes") == 0
    notes = {name: Recipe.read(place / name / "recipe.toml").means.notes for name in ("floats", "bytes")}
    assert notes["bytes"] == () and "floating point to all inputs: input 11 has the value 0.3" in notes["floats"][0]
