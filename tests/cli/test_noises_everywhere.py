"""Every noise with every sampling scheme on an ensemble fitted under it, and with every command that draws."""

from __future__ import annotations

import json

import linear
import numpy as np
import pytest
import stripes
import torch

from smoothcert import catalog
from smoothcert.classifiers import composite
from smoothcert.cli.main import run
from smoothcert.contracts import WHOLE
from smoothcert.runs.components import components
from smoothcert.runs.store import read

NOISES = {
    "gaussian": ["--sigma", "0.15"],
    "gaussian_grid": ["--sigma", "0.15"],
    "uniform": ["--set", "lam=0.25"],
    "splitting": ["--set", "lam=0.3", "--set", "pattern=3"],
    "discrete": ["--set", "keep=0.8", "--set", "values=9"],
    "band": ["--set", "width=2", "--set", "image=6x12"],
    "block": ["--set", "side=2", "--set", "image=6x12"],
}
RADII = {"discrete": "0,1", "band": "0,1", "block": "0,1"}
IMAGES = ("band", "block")  # that these noises hide parts of
COUNTED = ("splitting", *IMAGES)
SCHEMES = {
    "fixed": ["--n", "500"],
    "runner_up": ["--n", "500"],
    "pilot": ["--set", "pilot=100", "--set", "cap=2000"],
    "spending": ["--set", "cap=2000"],
    "staged": ["--set", "stages=100,2000"],
    "anytime": ["--set", "cap=2000"],
    "exhaustive": [],
}
KNOWN = ("spending", "staged", "anytime")
PAIRS = [(n, s) for n in sorted(NOISES) for s in sorted(SCHEMES) if s != "exhaustive" or n in COUNTED]
LINES = ["lines:a", "lines:b", "lines:c"]


def data_of(noise, place):
    return str(place / ("images.npz" if noise in IMAGES else "data.npz"))


def members_of(noise):
    return [f"stripes:{name}" for name in "abc"] if noise in IMAGES else LINES


def test_every_noise_and_every_scheme_is_here():
    assert sorted(NOISES) == catalog.names("noise") and sorted(SCHEMES) == catalog.names("sampling")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Inputs of 8 bits, and an ensemble for each noise: weights learned on hold-out inputs under it."""
    folder = tmp_path_factory.mktemp("noises")
    x = np.random.default_rng(0).integers(0, 256, (60, 4)).astype(np.float32) / np.float32(255)
    y = (linear.margin(torch.from_numpy(x)).numpy() > 0).astype(np.int64)
    np.savez(folder / "data.npz", x=x, y=y)
    np.savez(folder / "images.npz", **dict(zip("xy", stripes.images(60), strict=True)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMOOTHCERT_CACHE", str(folder / "cache"))
        yield folder


def fitted(place, noise):
    """The ensemble of this noise, made once."""
    folder = place / f"ensemble-{noise}"
    if not folder.exists():
        held_out = ["--data", data_of(noise, place), "--start", "1", "--skip", "6", "--noise", noise, *NOISES[noise]]
        assert run(["ensemble", *members_of(noise), "--weights", "learned", *held_out, "--out", str(folder)]) == 0
    return folder


@pytest.mark.parametrize(("noise", "scheme"), PAIRS)
def test_an_ensemble_is_certified_and_verified(noise, scheme, place, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(place / "cache"))
    model, out = fitted(place, noise), tmp_path / "run"
    known = ["--radii", RADII.get(noise, "0.02,0.1")] if scheme in KNOWN else []
    data = ["--data", data_of(noise, place), "--skip", "6", "--noise", noise, *NOISES[noise]]
    assert run(["certify", str(model), *data, "--sampling", scheme, *SCHEMES[scheme], *known, "--out", str(out)]) == 0
    record = read(out)
    assert record.claim.norm == catalog.find("noise", noise)[0].norm and len(record.rows) == 10
    # Of four coordinates none can be given away: in l0 the label is proven, and nothing beyond.
    assert sum(row.correct for row in record.rows) >= 5
    assert any(row.radius > 0 for row in record.rows) or record.claim.norm == "l0"
    assert run(["verify", str(out), "--redraw", "2"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize("noise", sorted(NOISES))
def test_an_ensemble_remembers_the_noise_it_was_fitted_under(noise, place, capsys):
    kept = composite.read(fitted(place, noise)).holdout["noise"]
    assert kept["name"] == noise
    given = dict(setting.split("=") for setting in NOISES[noise][1::2] if "=" in setting)
    told = {name: "x".join(map(str, value)) if isinstance(value, list) else str(value) for name, value in kept.items()}
    assert all(told[name] == value for name, value in given.items())
    capsys.readouterr()


@pytest.mark.parametrize("noise", sorted(NOISES))
def test_forecast_and_plan_speak_of_the_noise(noise, place, capsys, tmp_path):
    data = ["--data", data_of(noise, place), "--skip", "6"]
    under = ["--noise", noise, *NOISES[noise]]
    assert (
        run(["ensemble", "forecast", *members_of(noise), *data, *under, "--draws", "40", "--n", "1000", "--json"]) == 0
    )
    sizes = json.loads(capsys.readouterr().out)["sizes"]
    norm = catalog.find("noise", noise)[0].norm
    radii = [float(radius) for radius in sizes[0]["forecast"]["certified_accuracy"]]
    assert radii[0] == 0.0 and sizes[0]["forecast"]["certified_accuracy"]["0"] > 0.3
    assert radii == [0, 1, 2, 3] if norm in WHOLE else 0 < radii[1] < 0.2
    radius = "1" if norm in WHOLE else "0.05"
    assert run(["plan", *under, "--radius", radius, "--cap", "3000", "--n", "2000", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["norm"] == norm and 0.5 < said["needs"][0] < 1 and said["reach"] >= float(radius)
    assert all(entry["error"] <= 0.001 * 1.001 for entry in said["schemes"])
    out = tmp_path / "run"
    alone = "linear:score" if noise not in IMAGES else "stripes:a"
    assert run(["certify", alone, *data, *under, "--n", "500", "--out", str(out)]) == 0
    capsys.readouterr()
    assert run(["plan", "--like", str(out), "--n", "1000", "--rate", "1000", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["norm"] == norm


@pytest.mark.parametrize("noise", sorted(NOISES))
def test_aces_is_certified_verified_combined_and_reported(noise, place, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(place / "cache"))
    out, whole = tmp_path / "run", ["--n", "400", "--look", "200", "--skip", "6", "--theta", "0.6"]
    data = ["--data", data_of(noise, place), "--noise", noise, *NOISES[noise]]
    networks = ["--certify", members_of(noise)[0], "--core", members_of(noise)[1]]
    assert run(["aces", "certify", *networks, *data, *whole, "--out", str(out)]) == 0
    assert run(["verify", str(out), "--redraw", "10"]) == 0
    record = read(out)
    exact = {"gaussian": "gaussian_grid"}.get(noise, noise)  # inputs are of 8 bits
    assert catalog.describe(record.spec.noise)["name"] == exact
    parts = components(out, None)
    found = parts.at([0.0, 0.6, 1.0])
    assert found.answers.label[1].tolist() == [row.predicted for row in record.rows]
    assert found.answers.radius[1] == pytest.approx([row.radius for row in record.rows], rel=1e-6)
    assert (found.answers.radius[0] == 0).all() and (found.answers.label[2] == parts.certified.label).all()
    assert record.claim.norm == "l0" or (found.answers.radius[1] > 0).any()
    assert run(["report", str(out), "--html", str(tmp_path / "page.html")]) == 0
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("search", ["ascent", "grid"])
def test_a_level_for_every_input_where_a_level_stretches_the_noise(search, place, tmp_path, capsys):
    """Ascent needs gradients, so its network is one of torch."""
    network = tmp_path / "net"
    assert run(["train", "--data", str(place / "data.npz"), "--arch", "mlp8", "--epochs", "2", "--batch", "16",
                "--threads", "1", "--out", str(network)]) == 0  # fmt: skip
    options = ["--steps", "3", "--step-size", "0.01"] if search == "ascent" else []
    for noise in ("uniform", "gaussian_grid"):
        out = tmp_path / noise
        words = ["--sigma-per-input", "--sigma-search", search, *options, "--n", "300", "--skip", "12"]
        under = ["--noise", noise, *NOISES[noise], "--data", str(place / "data.npz")]
        assert run(["certify", str(network), *under, *words, "--out", str(out)]) == 0
        levels = [row.sigma for row in read(out).rows]
        assert len(set(levels)) > 1 and run(["verify", str(out), "--redraw", "2"]) == 0
    for noise in ("splitting", "discrete"):
        under = ["--noise", noise, *NOISES[noise], "--data", str(place / "data.npz")]
        assert run(["certify", str(network), *under, "--sigma-per-input", "--out", str(tmp_path / "no")]) == 2
        assert f"noise of per_input_sigma must be gaussian or uniform; got {noise}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["ensemble", *LINES, "--noise", "uniform", "--out", "e"],
            "--data (or --held-out) and --sigma of an ensemble must be given",
        ),
        (
            ["ensemble", *LINES, "--data", "d.npz", "--noise", "uniform", "--out", "e"],
            "uniform needs a value for sigma",
        ),
        (["plan", "--noise", "discrete", "--radius", "1"], "discrete needs a value for keep; got none"),
        (
            ["plan", "--sigma", "0.25", "--set", "cap=3"],
            "--set of plan must be an option of gaussian noise; got 'cap=3'",
        ),
        (["ensemble", "forecast", *LINES, "--data", "d.npz"], "gaussian needs a value for sigma; got none"),
    ],
)
def test_what_is_missing_is_said_in_one_line(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("d.npz", x=np.zeros((4, 4), dtype=np.float32), y=np.arange(4) % 2)
    assert run(words) == 2
    assert message in capsys.readouterr().err
