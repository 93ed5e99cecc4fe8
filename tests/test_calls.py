"""A whole data set from Python: the same rows as the command's, whatever the data and the model come as."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path

import linear
import numpy as np
import pandas
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import smoothcert
from smoothcert.cli.main import run as command
from smoothcert.data import load
from smoothcert.errors import DataError, ModelError, OptionError, RunError
from smoothcert.preparation.per_input_sigma import PerInputSigma

QUIET = {"progress": False, "n": 300}


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()


@pytest.fixture(scope="module")
def digits():
    data = load("digits", max=12)
    return data.tensors(), torch.from_numpy(data.labels)


def rows(run):
    return [(row.index, row.label, row.predicted, row.radius, row.draws) for row in run.rows]


class Pairs(Dataset):
    def __init__(self, x, y, made=lambda x, y: (x, y)):
        self.x, self.y, self.made = x, y, made

    def __len__(self):
        return len(self.x)

    def __getitem__(self, number):
        if number >= len(self):
            raise RuntimeError("a Dataset need not raise IndexError")
        return self.made(self.x[number], self.y[number])


def shapes(x, y):
    """The same inputs, as people hold them."""
    whole = TensorDataset(x, y)
    return {
        "tensors": (x, y),
        "arrays": (x.numpy(), y.numpy().astype(np.int32)),
        "lists": [x.double(), y.tolist()],
        "data set": whole,
        "its own data set": Pairs(x, y, lambda x, y: (x.numpy(), int(y))),
        "mappings": Pairs(x, y, lambda x, y: {"pixel_values": x, "label": y}),
        "loader": DataLoader(whole, batch_size=5),
        "loader of mappings": DataLoader(Pairs(x, y, lambda x, y: {"image": x, "labels": y}), batch_size=5),
        "pairs": list(zip(x, y, strict=True)),
        "name": "digits",
    }


def test_data_come_as_they_are(network, digits):
    found = {
        name: rows(smoothcert.certify(network, data, 0.25, engine="torch", **QUIET, max=12))
        for name, data in shapes(*digits).items()
    }
    assert len(found["name"]) == 12
    assert {name: one for name, one in found.items() if one != found["name"]} == {}


def test_pictures_of_a_data_set_are_eight_bit_and_channels_first():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 3)).astype(np.uint8)
    pictures = Pairs([Image.fromarray(one) for one in pixels], [0, 1, 0, 1, 0])
    score = lambda x: torch.stack([x[:, 0].mean((1, 2)), x[:, 2].mean((1, 2))], 1)  # noqa: E731
    run = smoothcert.certify(score, pictures, 0.25, **QUIET)
    same = smoothcert.certify(score, (pixels.transpose(0, 3, 1, 2), [0, 1, 0, 1, 0]), 0.25, **QUIET)
    assert run.asked.shape == (3, 4, 4) and run.asked.noise.norm == "l2" and run.asked.noise.grid == 255
    assert rows(run) == rows(same)


def test_the_command_and_python_make_the_same_run(network, digits, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    x, y = digits
    np.savez("mine.npz", x=x.numpy(), y=y.numpy())
    torch.onnx.export(network, (x[:2],), "net.onnx", dynamo=True, dynamic_shapes=({0: "batch"},), external_data=False)
    assert (
        command(["certify", "net.onnx", "--data", "mine.npz", "--sigma", "0.25", "--n", "300", "--out", "shell"]) == 0
    )
    run = smoothcert.certify("net.onnx", "mine.npz", 0.25, out="python", **QUIET)
    assert run.asked.fingerprint == smoothcert.open_run("shell").asked.fingerprint
    assert rows(run) == rows(smoothcert.open_run("shell"))
    given = smoothcert.certify(network, (x, y), sigma=0.25, out="given", **QUIET)
    assert given.asked.data_digest == run.asked.data_digest and given.means.engine == "onnxruntime"
    assert rows(given) == rows(run)
    capsys.readouterr()
    assert command(["verify", "given", "--redraw", "all"]) == 0 and "all as recorded" in capsys.readouterr().out
    shutil.move("given", "elsewhere")  # inputs and network went with it
    assert command(["verify", "elsewhere", "--redraw", "all"]) == 0
    assert command(["report", "elsewhere", "--html", "page.html"]) == 0 and Path("page.html").exists()


@pytest.mark.parametrize("which", ["network", "callable"])
def test_a_run_is_continued_and_no_other_question_is(which, network, digits, tmp_path):
    x, y = digits
    model, out = network if which == "network" else linear_on(network), tmp_path / "run"
    whole = smoothcert.certify(model, (x, y), 0.25, out=out, **QUIET)
    again = smoothcert.certify(model, (x, y), 0.25, out=out, **QUIET)
    assert rows(again) == rows(whole) and {row.attempt for row in again.rows} == {0}
    for other, line in [
        ({"data": (x, y.flip(0))}, "is a run of other inputs; choose another out"),
        ({"data": (x[:6], y[:6])}, "is a run of other inputs"),
        ({"data": "digits", "max": 12}, "answers another question|another model"),
        ({"sigma": 0.5}, "answers another question"),
        ({"model": nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()}, "of another model|another question"),
        ({"model": linear.score}, "another question|must accept inputs"),
    ]:
        given = {"model": model, "data": (x, y), "sigma": 0.25, **QUIET, **other}
        with pytest.raises((RunError, ModelError), match=line):
            smoothcert.certify(out=out, **given)
    assert rows(smoothcert.open_run(out)) == rows(whole)


def linear_on(network):
    def score(z):
        return network(z).detach().numpy()

    return score


def test_an_interrupted_run_goes_on(network, digits, tmp_path):
    given = 0

    def score(z):
        nonlocal given
        given += len(z)
        if given > limit:
            raise KeyboardInterrupt
        return network(z)

    limit = 10**9
    whole = smoothcert.certify(score, digits, 0.25, **QUIET)
    given, limit = 0, given - 1500  # rows, of the 4812 that all inputs take at the end
    with pytest.raises(KeyboardInterrupt):
        smoothcert.certify(score, digits, 0.25, out=tmp_path / "run", **QUIET)
    kept = smoothcert.open_run(tmp_path / "run")
    assert 0 < len(kept) < 12 and kept.unfinished
    limit = 10**9
    run = smoothcert.certify(score, digits, 0.25, out=tmp_path / "run", **QUIET)
    assert len(run) == 12 and {row.attempt for row in run.rows} == {0, 1}
    assert rows(run) == rows(whole)


def test_without_out_it_lives_as_long_as_the_object(network, digits, tmp_path):
    run = smoothcert.certify(network, digits, 0.25, **QUIET)
    folder = run.folder
    assert folder.exists()
    kept = run.save(tmp_path / "kept")
    with pytest.raises(RunError, match="must be a new folder; it holds a run"):
        run.save(tmp_path / "kept")
    expected = rows(run)
    del run
    gc.collect()
    assert not folder.exists()
    assert rows(kept) == expected and kept.verify(-1).problems == []


def test_an_object_that_no_file_stands_for_is_given_again(network, digits, tmp_path, capsys):
    score = linear_on(network)
    run = smoothcert.certify(score, digits, 0.25, out=tmp_path / "run", **QUIET)
    assert run.asked.model.startswith("python object test_calls.linear_on")
    assert run.asked.model_covers == "source" and run.verify(-1).problems == []
    stored = smoothcert.open_run(tmp_path / "run")
    with pytest.raises(ModelError, match=r"was an object in Python.*verify\(model=…\)"):
        stored.verify()
    assert stored.verify(model=score).problems == [] and stored.verify(0).problems == []
    with pytest.raises(RunError, match="model must be the one that run certified; its hash differs"):
        stored.verify(model=linear_on(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()))
    assert command(["verify", str(tmp_path / "run")]) == 2 and "--redraw 0" in capsys.readouterr().err
    assert command(["verify", str(tmp_path / "run"), "--redraw", "0"]) == 0


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_weights_are_in_the_hash(engine, digits):
    torch.manual_seed(1)
    layer = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()
    hashes = []
    for _ in range(2):
        hashes.append(smoothcert.certify(layer, digits, 0.25, engine=engine, **QUIET).asked.model_digest)
        with torch.no_grad():
            layer[1].bias += 0.5
    assert hashes[0] != hashes[1]


def test_ensembles_and_loaded_models_are_models(network, digits):
    pair = smoothcert.Ensemble([network, network])
    other = smoothcert.Ensemble([network, network], "hard")
    runs = [smoothcert.certify(model, digits, 0.25, **QUIET) for model in (pair, other)]
    assert runs[0].asked.model_digest != runs[1].asked.model_digest
    assert runs[0].asked.model_covers == "weights" and all(run.verify(-1).problems == [] for run in runs)


def test_known_radii_other_noises_and_predictions(network, digits):
    run = smoothcert.certify(network, digits, 0.25, 0.1, progress=False)
    assert run.claim.radii == (0.1,) and {row.radius for row in run.rows} <= {0.0, 0.1}
    run = smoothcert.certify(network, digits, noise=smoothcert.Uniform(sigma=0.5), **QUIET)
    assert run.claim.norm == "l1" and set(run.to_frame()["norm"]) == {"l1"}
    run = smoothcert.predict(network, digits, 0.25, progress=False)
    assert run.kind == "predict" and "radius" not in run.to_frame() and len(run) == 12


@pytest.mark.parametrize("search", ["ascent", "grid"])
def test_levels_of_their_own_and_a_memory(search, network, digits, tmp_path):
    part = PerInputSigma(search=search, **({"steps": 3} if search == "ascent" else {}))
    given = {"preparation": part, "memory": tmp_path / "m.sqlite", "out": tmp_path / "run", **QUIET}
    run = smoothcert.certify(network, digits, 0.05, **given)
    assert run.claim.guarantee == "memory" and run.verify(-1).problems == []
    found = list(run)
    assert {one.guarantee for one in found if one.abstained} <= {"none"}
    assert {one.guarantee for one in found if not one.abstained} == {"memory"}
    assert [(one.label, one.radius) for one in found] == [(row.predicted, row.radius) for row in run.rows]


def test_what_is_smoothed_already_is_no_model(network, digits):
    for model in (smoothcert.Smoothed(network, 0.25), smoothcert.Aces(network, network, 0.25)):
        with pytest.raises(OptionError, match="which is smoothed: call its certify_all"):
            smoothcert.certify(model, digits, 0.25, **QUIET)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (lambda x, y: x, r"labels of the inputs must be given.*Smoothed\(…\)\.certify"),
        (lambda x, y: (x, y[:3]), "labels must be as many as inputs, 12; got 3"),
        (lambda x, y: (x, y - 5), "labels must be 0 or more; got -"),
        (lambda x, y: (x, y.double()), "labels must be whole numbers"),
        (lambda x, y: ((255 * x).long(), y), "inputs must be uint8 or floats.*token ids are names"),
        (lambda x, y: (2 * x - 1, y), r"input 0 must be in \[0,1\]; got values from -1.*inside the model"),
        (lambda x, y: (x.index_fill(0, torch.tensor([7]), torch.nan), y), "input 7 must be finite"),
        (lambda x, y: (x[:0], y[:0]), "must be an array .* that holds values"),
        (lambda x, y: [], "got an empty list"),
        (lambda x, y: [(x[0], 1), (x[0, :, :4], 1)], r"one shape; got \[1, 8, 8\] at 0 and \[1, 4, 8\] at 1"),
        (lambda x, y: [x[0], x[1], x[2]], "item 0 must be a pair"),
        (lambda x, y: [{"a": 1, "b": 2}], "item 0 must have an input .* got a, b"),
        (lambda x, y: {"x": x, "y": y}, "data must be arrays"),
        (lambda x, y: 3, "data must be arrays"),
    ],
)
def test_data_that_cannot_be_certified_say_why_and_leave_nothing(data, line, network, digits, tmp_path):
    with pytest.raises(DataError, match=line):
        smoothcert.certify(network, data(*digits), 0.25, out=tmp_path / "run", **QUIET)
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_go_together_is_refused(network, digits, tmp_path):
    x, y = digits
    for given, line in [
        ({}, "one of sigma, as in sigma=0.25, and noise must be given; got neither"),
        ({"sigma": 0.25, "noise": smoothcert.Gaussian(0.25)}, "got both"),
        ({"sigma": 0.25, "skip": 2}, "skip is for named data; got an object: slice its arrays instead"),
        ({"sigma": 0.25, "data": "digits", "labels": y}, "labels must come with an array"),
        ({"sigma": 0.25, "out": " "}, "out must be a folder"),
        ({"sigma": 0.25, "colour": 3}, "got colour"),
    ]:
        with pytest.raises(OptionError, match=line):
            smoothcert.certify(network, **{"data": (x, y), **QUIET, **given})
    with pytest.raises(ModelError, match="eval mode"):
        smoothcert.certify(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), (x, y), 0.25, out=tmp_path / "run", **QUIET)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="must be a run or a new folder; it holds other things"):
        smoothcert.certify(network, (x, y), 0.25, out=tmp_path / "mine", **QUIET)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine", "notes.txt"]


def wide(x):
    """A linear classifier of features in their own units."""
    return torch.stack([x[:, 0] / 1000 + x[:, 1], torch.full((len(x),), 1.5)], 1)


class Wide(nn.Module):
    def forward(self, x):
        return wide(x)


@pytest.mark.parametrize("model", [wide, Wide().eval()], ids=["function", "network"])
@pytest.mark.parametrize("frame", [False, True])
def test_features_on_scales_of_their_own(model, frame, tmp_path):
    random = np.random.default_rng(0)
    x = np.stack([random.uniform(0, 2000, 60), random.uniform(0, 1, 60)], 1)
    y = (x[:, 0] / 1000 + x[:, 1] < 1.5).astype(np.int64)
    training, test = (pandas.DataFrame(part, columns=["a", "b"]) if frame else part for part in (x[:40], x[40:]))
    kept = {"scale": "standard", "scale_data": training}
    run = smoothcert.certify(model, (test, y[40:]), 0.25, out=tmp_path / "run", **kept, progress=False, n=2000)
    scale = run.asked.data.scale
    assert np.allclose(scale.width, x[:40].std(0)) and scale.names == (("a", "b") if frame else ())
    margin = abs(x[40:, 0] / 1000 + x[40:, 1] - 1.5) / np.hypot(scale.width[0] / 1000, scale.width[1])
    assert all(row.radius <= true + 1e-6 for row, true in zip(run.rows, margin, strict=True))
    assert sum(row.correct for row in run.rows) > 10 and run.verify(-1).problems == []
    assert "in units of the scale" in run._repr_html_()
    with pytest.raises(OptionError, match="noise with a scale must be gaussian or uniform; got discrete"):
        smoothcert.certify(model, (test, y[40:]), noise=smoothcert.Discrete(keep=0.8), **kept, progress=False, n=200)
    with pytest.raises(OptionError, match="scale standard must be fitted on training data"):
        smoothcert.certify(model, (test, y[40:]), 0.25, scale="standard", progress=False, n=200)
    with pytest.raises(DataError, match="got values from"):
        smoothcert.certify(model, (test, y[40:]), 0.25, progress=False, n=200)


def test_classes_by_name_and_channels_last(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 100, (6, 5, 5, 3)).astype(np.uint8)
    pixels[:3, :, :, 0] += 100
    pixels[3:, :, :, 2] += 100
    for name, part in (("red", pixels[:3]), ("blue", pixels[3:])):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number, one in enumerate(part):
            Image.fromarray(one).save(tmp_path / "photos" / name / f"{number}.png")
    model = Channels().eval()
    run = smoothcert.certify(model, tmp_path / "photos", 0.1, classes=["red", "green", "blue"], **QUIET)
    assert all(row.correct for row in run.rows) and {row.label for row in run.rows} == {0, 2}
    assert run.asked.data.class_names == ("red", "green", "blue")
    with pytest.raises(DataError, match="2 folders and 3 classes"):
        smoothcert.certify(model, tmp_path / "photos", 0.1, **QUIET)
    last = smoothcert.certify(model, (pixels, [0, 0, 0, 2, 2, 2]), 0.1, layout="nhwc", **QUIET)
    assert last.asked.shape == (3, 5, 5) and all(row.correct for row in last.rows)


class Channels(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))
