"""A smoothed classifier in Python: it certifies the weights that are there now, as the command line would."""

from __future__ import annotations

import warnings

import linear
import numpy as np
import pytest
import switches
import torch
from torch import nn

import smoothcert
from smoothcert.cli.main import run
from smoothcert.errors import DataError, ModelError, OptionError
from smoothcert.runs.store import read

NOISE, X = smoothcert.Gaussian(0.25), torch.tensor([0.9, 0.1, 0.8, 0.7])


def network() -> nn.Linear:
    """The first column wins everywhere in [0,1]⁴."""
    layer = nn.Linear(4, 2).eval()
    with torch.no_grad():
        layer.weight.copy_(torch.stack([torch.ones(4), torch.zeros(4)]))
        layer.bias.zero_()
    return layer


def swapped(layer: nn.Linear, how: str) -> None:
    """The second column wins instead; by several ways in which people change weights."""
    other = layer.weight.detach().flip(0).clone()
    with torch.no_grad():
        if how == "in place":
            layer.weight.copy_(other)
        elif how == "data":
            layer.weight.data[:] = other  # no version counter sees it
        elif how == "parameter":
            layer.weight = nn.Parameter(other)
        else:
            layer.load_state_dict({"weight": other, "bias": layer.bias})


@pytest.mark.parametrize("engine", ["auto", "torch"])
@pytest.mark.parametrize("how", ["in place", "data", "parameter", "load_state_dict"])
def test_weights_that_have_changed_are_certified_as_they_are(how, engine):
    layer = network()
    smoothed = smoothcert.Smoothed(layer, NOISE, engine=engine)
    assert smoothed.certify(X, n=200).label == smoothed.predict(X, n=100) == 0
    swapped(layer, how)
    assert smoothed.certify(X, n=200).label == smoothed.predict(X, n=100) == 1


@pytest.mark.parametrize(
    "model",
    [
        lambda layer: smoothcert.Ensemble([network(), layer, layer], "hard"),
        lambda layer: smoothcert.Ensemble([layer, layer], consensus=1),
        lambda layer: smoothcert.Denoised(nn.Identity().eval(), layer),
        lambda layer: smoothcert.Denoised(nn.Identity().eval(), smoothcert.Ensemble([layer])),
    ],
)
def test_networks_inside_are_looked_at_too(model):
    layer = network()
    smoothed = smoothcert.Smoothed(model(layer), NOISE)
    assert smoothed.predict(X, n=100) == 0
    swapped(layer, "in place")
    assert smoothed.predict(X, n=100) == 1
    layer.train()
    with pytest.raises(ModelError, match="must be in eval mode"):
        smoothed.predict(X, n=100)


def test_networks_of_a_composition_are_looked_at_too():
    layer, core = network(), network()
    selector = nn.Linear(4, 2).eval()
    with torch.no_grad():
        selector.weight.zero_()
        selector.bias.copy_(torch.tensor([-9.0, 9.0]))
    aces = smoothcert.Aces(layer, core, NOISE, 0.5, selector)
    assert aces.certify(X, n=300).label == 0
    swapped(layer, "data")
    assert aces.certify(X, n=300).label == 1
    core.train()
    with pytest.raises(ModelError, match="must be in eval mode"):
        aces.predict(X, n=100)


def test_train_mode_and_layers_that_were_exchanged_are_noticed():
    net = nn.Sequential(network(), nn.Identity()).eval()
    smoothed = smoothcert.Smoothed(net, NOISE)
    assert smoothed.predict(X, n=100) == 0

    class Minus(nn.Module):
        def forward(self, x):
            return -x

    net[1] = Minus().eval()
    assert smoothed.predict(X, n=100) == 1
    net.train()
    with pytest.raises(ModelError, match="must be in eval mode"):
        smoothed.certify(X, n=100)


def test_one_column_of_scores_is_refused():
    for model in (nn.Linear(4, 1).eval(), lambda x: x[:, :1]):
        with pytest.raises(ModelError, match=r"at least 2 classes; got one column.*torch.cat\(\[-s, s\], dim=1\)"):
            smoothcert.Smoothed(model, NOISE).certify(X, n=100)


def test_what_is_not_the_fastest_way_is_said_once():
    class Dynamic(nn.Module):
        def forward(self, x):
            return x[:, :2] if x.sum().item() > -1e9 else x[:, 2:]

    smoothed = smoothcert.Smoothed(Dynamic().eval(), NOISE)
    with pytest.warns(UserWarning, match="running on torch: not exportable to ONNX"):
        smoothed.predict(X, n=100)
    assert smoothed.notes[0].startswith("running on torch")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        smoothed.predict(X, n=100)
    assert smoothed.notes[0].startswith("running on torch")


@pytest.fixture
def bytes_(tmp_path, monkeypatch):
    """Twelve 8-bit inputs, two of them equal, in a file and as tensors."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).integers(0, 256, (12, 4)).astype(np.uint8)
    x[7] = x[3]
    np.savez("bytes.npz", x=x, y=np.zeros(12, dtype=np.int64))
    return [torch.from_numpy(one.astype(np.float32) / np.float32(255)) for one in x]


@pytest.mark.parametrize(
    ("options", "question"),
    [
        (["--n", "2000"], {"n": 2000}),
        (["--radius", "0.1"], {"radius": 0.1}),
        (["--radii", "0.05,0.1,0.2"], {"radius": (0.05, 0.1, 0.2)}),
        (["--n", "2000", "--arithmetic", "float"], {"n": 2000}),
    ],
)
def test_python_and_the_command_line_give_one_certificate(options, question, bytes_, tmp_path, capsys):
    assert run(["certify", "linear:score", "--data", "bytes.npz", "--sigma", "0.25", "--out", "run", *options]) == 0
    smoothed = smoothcert.Smoothed(linear.score, NOISE, arithmetic="float" if "float" in options else None)
    for row, found in zip(read(tmp_path / "run").rows, smoothed.certify_all(bytes_, **question), strict=True):
        looks = [answer.counts[0] for answer in row.answers if answer.purpose == "test"]
        assert (row.predicted, row.radius) == (found.label, found.radius)
        assert tuple(looks) == found.evidence.counts
        assert smoothed.certify(bytes_[row.index], **question) == found
    capsys.readouterr()


def test_a_composition_in_python_is_that_of_the_command_line(bytes_, tmp_path, capsys):
    words = ["--certify", "linear:score", "--core", "switches:core", "--select", "switches:select", "--theta", "0.5"]
    common = ["--data", "bytes.npz", "--sigma", "0.25", "--n", "600", "--out", "run"]
    assert run(["aces", "certify", *words, *common]) == 0
    aces = smoothcert.Aces(linear.score, switches.core, NOISE, 0.5, switches.select)
    found = aces.certify_all(bytes_, n=600)
    assert [(row.predicted, row.radius) for row in read(tmp_path / "run").rows] == [(c.label, c.radius) for c in found]
    capsys.readouterr()


def test_an_input_off_the_grid_is_named(bytes_):
    smoothed = smoothcert.Smoothed(linear.score, NOISE)
    exact = smoothed.certify(bytes_[0], n=500)
    assert smoothed.notes == ()
    off = torch.tensor([0.3, 0.0, 1.0, 0.0])
    inexact = smoothed.certify_all([bytes_[0], off], n=500)[0]
    (note,) = smoothed.notes
    assert note.endswith("input 1 has the value 0.3, which is no multiple of 1/255")
    assert inexact == smoothcert.Smoothed(linear.score, NOISE, arithmetic="float").certify(bytes_[0], n=500) != exact
    with pytest.raises(DataError, match=r"inputs with arithmetic exact must be multiples of 1/255.*input 0 has"):
        smoothcert.Smoothed(linear.score, NOISE, arithmetic="exact").certify(off)
    with pytest.raises(OptionError, match="arithmetic must be one of exact, float; got 'exakt'"):
        smoothcert.Smoothed(linear.score, NOISE, arithmetic="exakt")
    smoothed = smoothcert.Smoothed(linear.score, smoothcert.Gaussian(20.0))
    smoothed.certify(bytes_[0], n=100)
    assert "sigma 20 is above 11.7647" in smoothed.notes[0]


def test_a_number_is_the_level_of_gaussian_noise(bytes_):
    plain, named = smoothcert.Smoothed(linear.score, 0.25), smoothcert.Smoothed(linear.score, NOISE)
    assert plain.noise == NOISE and plain.certify(bytes_[0], n=300) == named.certify(bytes_[0], n=300)
    assert smoothcert.Smoothed(linear.score, np.float32(0.5)).noise == smoothcert.Gaussian(0.5)
    with pytest.raises(
        OptionError, match=r"noise must be a number, the σ of Gaussian noise, or a noise such as .* got Gaussian"
    ):
        smoothcert.Smoothed(linear.score, smoothcert.Gaussian)


def test_bytes_are_what_the_command_makes_of_them(bytes_):
    smoothed = smoothcert.Smoothed(linear.score, 0.25)
    stored = np.load("bytes.npz")["x"]
    assert [smoothed.certify(one, n=300) for one in stored] == smoothed.certify_all(bytes_, n=300)
    assert smoothed.notes == ()  # in exact arithmetic


@pytest.mark.parametrize("kind", [torch.stack, lambda some: np.stack([one.numpy() for one in some]), list, tuple])
def test_a_batch_gives_a_list_and_one_input_a_certificate(bytes_, kind):
    smoothed = smoothcert.Smoothed(linear.score, 0.25)
    several = smoothed.certify(kind(bytes_), n=300)
    assert several == smoothed.certify_all(bytes_, n=300) and len(several) == 12
    assert smoothed.certify(bytes_[2], n=300) == several[2] == smoothed.certify(bytes_[2].tolist(), n=300)
    assert smoothed.predict(kind(bytes_), n=200) == smoothed.predict_all(bytes_, n=200)
    assert smoothed.predict(bytes_[2], n=200) == smoothed.predict_all(kind(bytes_), n=200)[2]


@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 8, 8), (16,), (5, 6)])
def test_the_model_decides_what_one_input_is(shape):
    torch.manual_seed(0)
    size = int(np.prod(shape))
    model = nn.Sequential(nn.Flatten(), nn.Linear(size, 3)).eval() if len(shape) > 1 else nn.Linear(size, 3).eval()
    smoothed, x = smoothcert.Smoothed(model, 0.25, engine="torch"), torch.rand(4, *shape)
    assert len(smoothed.certify(x, n=100)) == 4
    fresh = smoothcert.Smoothed(model, 0.25, engine="torch")
    assert fresh.certify(x[0], n=100) == smoothed.certify(x[0], n=100)
    assert len(fresh.certify(x[:1], n=100)) == 1  # as it has been given such inputs before


@pytest.mark.parametrize(("shape", "single"), [((1, 16), False), ((1, 4, 4), True), ((1, 1, 4, 4), False)])
def test_an_array_that_could_be_both_is_what_such_arrays_mostly_are(shape, single):
    smoothed = smoothcert.Smoothed(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).eval(), 0.25, engine="torch")
    assert isinstance(smoothed.certify(torch.rand(shape), n=100), smoothcert.Certificate) == single


def test_errors_name_the_position_of_an_input(bytes_):
    smoothed = smoothcert.Smoothed(linear.score, 0.25)
    bad = [*bytes_[:3], bytes_[3] * float("nan")]
    with pytest.raises(DataError, match="input 3 must be finite"):
        smoothed.certify_all(bad)
    with pytest.raises(DataError, match=r"input 1 must be in \[0,1\]; got values from .* inside the model"):
        smoothed.predict_all([bytes_[0], bytes_[1] - 1.0])
    with pytest.raises(
        ModelError, match=r"^(input 1|among inputs 0 to 1): the classifier must return numbers; got NaN"
    ):
        smoothcert.Smoothed(spoilt, 0.25, arithmetic="float").certify_all([X, FAR], n=300)


FAR = torch.tensor([0.0, 1.0, 0.0, 0.0])


def spoilt(x):
    """NaN around FAR."""
    return torch.where((x - FAR).norm(dim=1, keepdim=True) > 0.3, linear.score(x), torch.nan)


def test_the_number_of_classes_is_checked_before_the_draws():
    asked = []

    def score(x):
        asked.append(len(x))
        return linear.score(x)

    with pytest.raises(ModelError, match=r"scores for 10 classes \(num_classes\); got 2"):
        smoothcert.Smoothed(score, 0.25, num_classes=10).certify(X)
    assert sum(asked) < 10


def test_help_describes_every_argument():
    import inspect

    for part in (smoothcert.Smoothed, smoothcert.Smoothed.certify, smoothcert.certify):
        said = inspect.getdoc(part)
        named = [name for name in inspect.signature(part).parameters if name != "self"]
        assert [name for name in named if name not in said] == []
