"""Features on scales of their own: what is fitted, on what, what is written, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from smoothcert.cli.main import run
from smoothcert.data import Scale, Subset, scale_of
from smoothcert.errors import DataError, OptionError


@pytest.fixture
def wine(tmp_path, monkeypatch):
    """train.npz with names and test.npz, of the table that scikit-learn embeds."""
    monkeypatch.chdir(tmp_path)
    held = load_wine()
    np.savez("train.npz", x=held.data[::2], y=held.target[::2], names=np.array(held.feature_names))
    np.savez("test.npz", x=held.data[1::2], y=held.target[1::2])
    return held.data[::2], held.data[1::2]


@pytest.mark.parametrize(("kind", "scaler"), [("standard", StandardScaler()), ("minmax", MinMaxScaler())])
def test_scales_are_those_of_scikit_learn(wine, kind, scaler):
    train, test = wine
    scale = scale_of(kind, "train.npz", Subset("test.npz")).scale
    inputs = Subset("test.npz", scale=scale).load()
    expected = scaler.fit(train).transform(test)
    assert np.allclose(inputs.tensors().numpy(), expected, atol=1e-6) and scale.names[0] == "alcohol"
    assert (
        inputs.tensors().dtype == torch.float32 and float(inputs.tensors().min()) < 0
    )  # outside of [0,1], and welcome
    back = inputs.tensors().double().numpy() * scale.width + scale.offset
    assert np.allclose(back, test, rtol=1e-6)


def test_a_constant_feature_is_measured_in_its_own_unit(tmp_path):
    np.savez(tmp_path / "train.npz", x=[[1.0, 5.0], [3.0, 5.0]], y=[0, 1], names=np.array(["a", "b"]))
    found = scale_of("standard", str(tmp_path / "train.npz"), Subset("test.npz"))
    assert found.scale.width == (1.0, 1.0) and found.scale.offset == (2.0, 5.0) and found.constant == ("b",)


def test_quantities_may_be_whole_numbers(tmp_path):
    for name, dtype in (("train", np.int64), ("test", np.uint8)):
        np.savez(tmp_path / f"{name}.npz", x=np.array([[0, 10], [4, 30]], dtype=dtype), y=[0, 1])
    scale = scale_of("minmax", str(tmp_path / "train.npz"), Subset("")).scale
    found = Subset(str(tmp_path / "test.npz"), scale=scale).load()
    assert found.tensors().tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_none_takes_any_floats_as_they_are(tmp_path):
    waves = np.random.default_rng(0).normal(size=(2, 100)).astype(np.float32)
    np.savez(tmp_path / "a.npz", x=waves, y=[0, 1])
    found = Subset(str(tmp_path / "a.npz"), scale=Scale("none")).load()
    assert np.array_equal(found.tensors().numpy(), waves)


def test_a_named_data_set_has_its_training_split():
    scale = scale_of("standard", None, Subset("digits")).scale
    trained = Subset("digits", "train", scale=scale).load().tensors().double()
    moving = np.array(scale.width).reshape(1, 8, 8) != 1.0
    assert np.allclose(trained.mean(dim=0), 0, atol=1e-6) and np.allclose(trained.std(dim=0, correction=0)[moving], 1)


def test_images_with_channels_last_are_scaled_channels_first(tmp_path):
    x = np.random.default_rng(0).random((20, 5, 6, 3)).astype(np.float32)
    np.savez(tmp_path / "train.npz", x=x, y=np.zeros(20, dtype=int))
    np.savez(tmp_path / "test.npz", x=x[:2], y=[0, 1])
    subset = Subset(str(tmp_path / "test.npz"), layout="nhwc")
    scale = scale_of("minmax", str(tmp_path / "train.npz"), subset).scale
    found = Subset(subset.spec, layout="nhwc", scale=scale).load()
    expected = (x[:2] - x.min(axis=0)) / (x.max(axis=0) - x.min(axis=0))
    assert found.shape == (3, 5, 6) and np.allclose(found.tensors().numpy(), expected.transpose(0, 3, 1, 2), atol=1e-6)


def test_a_scale_travels_as_a_file(wine, capsys):
    assert run(["data", "scale", "train.npz", "--kind", "minmax", "--out", "scale.json"]) == 0
    assert "minmax scale of 13 features" in capsys.readouterr().out
    fitted = scale_of("minmax", "train.npz", Subset("test.npz")).scale
    assert scale_of("scale.json", None, Subset("test.npz")).scale == fitted
    parts = zip(fitted.names, fitted.offset, fitted.width, strict=True)
    Path("named.json").write_text(json.dumps({name: {"offset": o, "width": w} for name, o, w in parts}))
    assert scale_of("named.json", None, Subset("test.npz")).scale == replace(fitted, kind="file")


@pytest.mark.parametrize(("table", "words"), [
    ({"offset": [0.0], "width": [0.0]}, "widths above 0"),
    ({"offset": [0.0], "width": [1.0, 2.0]}, "an offset, a width"),
    ({"offset": [0.0], "width": [1.0], "names": ["a", "b"]}, "a name for every feature"),
    ({"offset": [], "width": []}, "1 to 10000 features"),
    ({"offset": ["a"], "width": [1.0]}, "must be a number"),
    ({"a": {"offset": 1.0}}, "width of a is missing"),
    ({}, "1 to 10000 features"),
    ([1.0], "must be a table"),
])  # fmt: skip
def test_other_scale_files_get_one_line(tmp_path, table, words):
    path = tmp_path / "scale.json"
    path.write_text(json.dumps(table))
    with pytest.raises(DataError, match=words) as error:
        scale_of(str(path), None, Subset("test.npz"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("kind", "training", "subset", "words"), [
    ("standard", None, Subset("test.npz"), "never on what is certified; name it: --scale-data train.npz"),
    ("standard", None, Subset("digits", "train"), "never on what is certified"),
    ("standard", "./test.npz", Subset("test.npz"), "must not be what is certified"),
    ("none", "train.npz", Subset("test.npz"), "must be given with minmax or standard; got none"),
    ("stand", None, Subset("test.npz"), "did you mean 'standard'"),
])  # fmt: skip
def test_a_scale_is_fitted_on_training_data(wine, kind, training, subset, words):
    with pytest.raises(OptionError, match=words):
        scale_of(kind, training, subset)


def test_scales_and_inputs_must_fit(wine, tmp_path):
    with pytest.raises(DataError, match="must have the 1 features of the scale"):
        Subset("test.npz", scale=Scale("file", (0.0,), (1.0,))).load()
    with pytest.raises(DataError, match="of a size that its scale allows"):
        Subset("test.npz", scale=Scale("file", (0.0,) * 13, (1e-300,) * 13)).load()
    with pytest.raises(OptionError, match="not both"):
        Subset("test.npz", value_range=(0.0, 2000.0), scale=Scale("none"))
    np.savez("odd.npz", x=[[1.0], [np.nan]], y=[0, 1])
    with pytest.raises(DataError, match="must be finite to fit a scale"):
        scale_of("minmax", "odd.npz", Subset("test.npz"))
    np.savez("names.npz", x=[[1.0], [2.0]], y=[0, 1], names=np.array(["a", "b"]))
    with pytest.raises(DataError, match=r"names of 'names\.npz' must be 1 texts"):
        scale_of("minmax", "names.npz", Subset("test.npz"))


def test_token_ids_are_refused_with_a_reason(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([[101, 2023, 102]]), y=[0])
    with pytest.raises(DataError, match=r"token ids.*certify embeddings.*--noise discrete.*--scale or --range"):
        Subset(str(tmp_path / "a.npz")).load()
