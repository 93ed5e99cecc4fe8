"""Callables: functions of tensors and of arrays, factories, classes, bound methods."""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

import smoothcert
from smoothcert.classifiers import digest, load, wrap
from smoothcert.cli.main import run
from smoothcert.errors import ModelError

X = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))
WEIGHT = np.random.default_rng(0).normal(size=(4, 3))
EXPECTED = torch.from_numpy(X.numpy() @ WEIGHT).float()


class Foreign:
    """An array of another library."""

    def __init__(self, values):
        self.values = values
        self.shape = values.shape

    def __array__(self, dtype=None, copy=None):
        return self.values


class Shared(Foreign):
    """One that only shares its memory."""

    __array__ = None

    def __dlpack__(self, **how):
        return self.values.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def on_arrays(x):
    if not isinstance(x, np.ndarray):
        raise TypeError("not an array")
    return x @ WEIGHT


ARRAYS = {
    "array": on_arrays,
    "foreign": lambda x: Foreign(on_arrays(x)),
    "shared": lambda x: Shared(on_arrays(x)),
    "halves": lambda x: on_arrays(x).astype(np.float16),
    "frozen": lambda x: np.broadcast_to(on_arrays(x), (len(x), 3)),
    "in place": lambda x: on_arrays(np.add(x, 0, out=x)),
    "table": lambda x: {"logits": on_arrays(x)},
}


@pytest.mark.parametrize("function", ARRAYS.values(), ids=ARRAYS)
def test_a_function_of_arrays_gets_arrays_and_says_so(function):
    found = wrap(function)
    assert torch.allclose(found(X), EXPECTED, rtol=1e-2, atol=1e-2)
    assert found.note.startswith("called with NumPy arrays: on a torch tensor it raised TypeError")
    smoothed = smoothcert.Smoothed(function, smoothcert.Gaussian(0.25), num_classes=3)
    smoothed.certify(X[0], n=100)
    assert any(note.startswith("called with NumPy arrays") for note in smoothed.notes)


def test_a_function_of_tensors_is_not_called_with_arrays():
    seen = []

    def function(x):
        seen.append(type(x))
        return x @ torch.from_numpy(WEIGHT).float()

    found = wrap(function)
    assert torch.allclose(found(X), EXPECTED, atol=1e-5) and found.note == ""
    assert set(seen) == {torch.Tensor}
    for output in (lambda x: function(x).numpy(), lambda x: function(x).double(), lambda x: (function(x), None)):
        assert torch.allclose(wrap(output)(X), EXPECTED, atol=1e-5)


def test_what_means_something_else_for_a_tensor_is_refused():
    """Standard deviations of torch divide by n − 1, those of NumPy by n: which of them was meant, nobody can know."""

    def function(x):
        return np.stack([np.asarray(x.std(1)), np.full(len(x), 0.3)], axis=1)

    with pytest.raises(ModelError, match="must give the same scores for a torch tensor as for a NumPy array"):
        wrap(function)(X)
    assert wrap(lambda x: function(x.numpy()))(X).shape == (6, 2)


REFUSED = {
    "labels": (lambda x: x.argmax(1), r"got one number an input, \[6\] \(make scores of labels: .*one_hot"),
    "a logit": (lambda x: x.sum(1), r"one number an input.*torch.stack\(\[-s, s\], dim=1\)"),
    "array labels": (lambda x: on_arrays(x).argmax(1), "make scores of labels"),
    "list": (lambda x: on_arrays(np.asarray(x)).tolist(), "got list .write numpy.asarray"),
    "words": (lambda x: np.array([["a", "b"]] * len(x)), "must return an array of numbers"),
    "complex": (lambda x: x * 1j, "must return real scores"),
    "nothing": (lambda x: None, "must return a tensor of scores .*; got NoneType"),
    "raises": (lambda x: 1 / 0, "it raised ZeroDivisionError: division by zero"),
    "raises on arrays": (lambda x: on_arrays(x[:, :2]), "not an array; on a NumPy array ValueError: matmul"),
    "two arguments": (lambda x, y: x, "must take one argument.*it takes x, y .*functools.partial"),
}


@pytest.mark.parametrize(("function", "message"), REFUSED.values(), ids=REFUSED)
def test_what_gives_no_scores_is_refused_with_the_fix(function, message):
    with pytest.raises(ModelError, match=message) as error:
        wrap(function)(X)
    assert len(str(error.value)) < 400


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, 3).eval()


def test_partials_and_bound_methods():
    model = network()
    expected = model(X).detach()
    for function in (functools.partial(model), model.forward, functools.partial(lambda net, x: net(x), model)):
        assert torch.equal(wrap(function)(X), expected)
    with pytest.raises(ModelError, match="network of forward must be in eval mode"):
        wrap(model.train().forward)


@pytest.mark.parametrize(("model", "message"), [
    (nn.Linear, r"the class Linear, and a fresh instance has random weights \(write model = Linear\(\); model.load"),
    (LogisticRegression, r"the class LogisticRegression, which is not fitted \(write model = LogisticRegression\(\)"),
    (Foreign, r"got the class Foreign \(make an instance"),
    (3, "a fitted estimator or a callable; got int"),
])  # fmt: skip
def test_what_is_no_model_is_refused_with_the_line_to_write(model, message):
    with pytest.raises(ModelError, match=message):
        smoothcert.Smoothed(model, smoothcert.Gaussian(0.25))


def test_a_name_is_no_model_but_can_be_loaded():
    with pytest.raises(ModelError, match=r"got str \(smoothcert.load\('model.onnx'\) opens it\)"):
        wrap("model.onnx")


def test_a_factory_is_called_and_that_is_said():
    found = wrap(network)
    assert torch.equal(found(X), network()(X).detach()) and found.note == "the model is what network() returns"
    assert wrap(lambda: on_arrays)(X).shape == (6, 3)
    assert wrap(lambda depth=2, **more: network())(X).shape == (6, 3)


@pytest.mark.parametrize(("factory", "message"), [
    (lambda: nn.Linear(4, 3).eval(), "must make the same model every time; two calls gave other weights"),
    (lambda: network().train(), "must be in eval mode"),
    (lambda: nn.Linear, "it returned type"),
    (lambda: 3, r"it returned int \(a classifier takes one argument"),
    (lambda: network, "it returned function"),
    (lambda: 1 / 0, "it raised ZeroDivisionError"),
])  # fmt: skip
def test_factories_that_make_no_model_are_refused(factory, message):
    with pytest.raises(ModelError, match=message):
        wrap(factory)


FILE = """
import torch
from torch import nn

def make():
    net = nn.Linear(4, 2)
    net.load_state_dict(torch.load("w.pt"))
    return net.eval()

def fresh():
    return nn.Linear(4, 2).eval()

class Net(nn.Module):
    pass
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made_nets.py").write_text(FILE)
    np.savez("x.npz", x=X.numpy(), y=np.zeros(6, dtype=np.int64))

    def again(value: float) -> None:
        torch.save({"weight": torch.full((2, 4), value), "bias": torch.zeros(2)}, "w.pt")
        sys.modules.pop("made_nets", None)

    again(1.0)
    yield again
    sys.modules.pop("made_nets", None)


def test_what_a_factory_made_is_hashed(place):
    found = []
    for value in (1.0, 2.0, 1.0):
        place(value)
        load("made_nets:make")
        found.append(digest("made_nets:make"))
    assert found[0] == found[2] != found[1] and found[0].covers == "weights"


def test_factories_from_the_shell(place, capsys):
    words = ["--data", "x.npz", "--sigma", "0.25", "--n", "100", "--out", "run"]
    assert run(["certify", "made_nets:make", *words]) == 0
    assert "the model is what made_nets:make() returns" in capsys.readouterr().err
    assert run(["verify", "run", "--redraw", "all", "--trust-code"]) == 0
    place(2.0)
    assert run(["certify", "made_nets:make", *words]) == 2 and "model_digest" in capsys.readouterr().err
    assert run(["verify", "run", "--trust-code"]) == 1  # another model: a finding
    for name, message in (("fresh", "must make the same model every time"), ("Net", "got the class Net")):
        assert run(["certify", f"made_nets:{name}", *words[:-1], "other"]) == 2
        assert message in capsys.readouterr().err
