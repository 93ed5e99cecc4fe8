"""Anything becomes a classifier, or is refused in one line."""

from __future__ import annotations

import hashlib
import sys

import numpy as np
import pytest
import torch
from onnx_files import stuck
from torch import nn

from smoothcert.classifiers import digest, load, ready, wrap
from smoothcert.classifiers.onnx import Onnx, from_network
from smoothcert.engine.batch_check import check_batches
from smoothcert.errors import ModelError, OptionError


class Dynamic(nn.Module):
    """Cannot be exported: what it does depends on the values it is given."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x.flatten(1).sum(1)
        if total[0].item() > -1e9:
            return torch.stack([total, -total], dim=1)
        return torch.stack([-total, total], dim=1)


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


def test_a_network_runs_on_onnx_runtime_with_the_same_scores():
    network, x = small(), torch.rand(16)
    prepared = ready(wrap(network), x.view(1, 4, 4))
    assert prepared.engine == "onnxruntime" and isinstance(prepared.classifier, Onnx) and prepared.note == ""
    batch = torch.rand(9, 1, 4, 4)
    with torch.no_grad():
        assert torch.allclose(prepared.classifier(batch), network(batch), atol=1e-5)


def test_a_network_that_cannot_be_exported_falls_back_to_torch_and_says_so():
    prepared = ready(wrap(Dynamic().eval()), torch.rand(1, 4, 4))
    assert prepared.engine == "torch"
    assert prepared.note.startswith("running on torch: not exportable to ONNX (")
    assert "\n" not in prepared.note
    with pytest.raises(ModelError, match="not exportable"):
        ready(wrap(Dynamic().eval()), torch.rand(1, 4, 4), engine="onnxruntime")


def test_train_mode_is_refused_wherever_it_hides():
    network = small()
    network[2].train()
    with pytest.raises(ModelError, match="must be in eval mode"):
        wrap(network)
    with pytest.raises(ModelError, match="must be in eval mode"):
        wrap(nn.Linear(2, 2).train())


def test_a_stochastic_network_is_refused():
    class Stochastic(nn.Module):
        def forward(self, x):
            return nn.functional.dropout(x.flatten(1), 0.5, training=True)

    with pytest.raises(ModelError, match="must give the same scores for the same input"):
        check_batches(wrap(Stochastic().eval()), torch.rand(64, 4), 64)


def test_a_network_of_another_shape_is_told_so():
    with pytest.raises(ModelError, match=r"must accept inputs of shape \[1, 5, 5\]"):
        ready(wrap(small()), torch.rand(1, 5, 5))


def test_onnx_files(tmp_path):
    network = small()
    path = tmp_path / "a.onnx"
    torch.onnx.export(
        network, (torch.rand(2, 1, 4, 4),), str(path), dynamo=True, input_names=["x"], external_data=False,
        dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False,
    )  # fmt: skip
    loaded = load(path)
    assert loaded.rows is None
    x = torch.rand(5, 1, 4, 4)
    assert torch.allclose(loaded(x), network(x), atol=1e-5)
    with pytest.raises(ModelError, match=r"takes inputs of shape \[1, 4, 4\]; got \[1, 5, 5\]"):
        loaded(torch.rand(5, 1, 5, 5))


def test_a_frozen_batch_size_is_served(tmp_path):
    network, path = small(), tmp_path / "frozen.onnx"
    torch.onnx.export(
        stuck(network, 3, 1, 4, 4),
        (torch.rand(3, 1, 4, 4),),
        str(path),
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    loaded = load(path)
    assert loaded.rows == 3
    probe = torch.rand(64, 1, 4, 4)
    settled = check_batches(loaded, probe, 64)
    assert "exactly 3 rows" in settled.note
    assert torch.allclose(settled.call(probe), network(probe), atol=1e-5)
    torch.onnx.export(network, (torch.rand(3, 1, 4, 4),), str(path), dynamo=True, external_data=False, verbose=False)
    assert load(path).rows is None and torch.allclose(load(path)(probe), network(probe), atol=1e-5)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere.onnx", "must be an ONNX file; there is no such file"),
        ("nowhere", "or a name that `smoothcert zoo` lists; there is no 'nowhere'"),
        ("linear:absent", "model must name a callable that can be imported"),
        ("no_such_module:f", "model must name a callable that can be imported"),
        ("linear:not_callable", "model must name a callable or an estimator; 'linear:not_callable' is of type int"),
    ],
)
def test_bad_models(spec, message):
    with pytest.raises(ModelError) as error:
        load(spec)
    assert message in str(error.value)


def test_a_foreign_onnx_file_is_refused(tmp_path):
    path = tmp_path / "foreign.onnx"
    path.write_bytes(b"not a network")
    with pytest.raises(ModelError, match="must be a network that ONNX Runtime can load"):
        load(path)


def test_engine_and_threads_are_checked():
    with pytest.raises(OptionError, match="engine must be one of"):
        ready(wrap(small()), torch.rand(1, 4, 4), engine="gpu")
    with pytest.raises(OptionError, match="threads of a forward pass must be a whole number of at least 1"):
        ready(wrap(small()), torch.rand(1, 4, 4), threads=0)


def test_exported_scores_are_compared_before_they_are_believed():
    """A network whose second call differs from its first, as one with hidden state: the comparison must object."""

    class Liar(nn.Module):
        def forward(self, x):
            return x.flatten(1) * (2.0 if torch.compiler.is_compiling() else 1.0)

    with pytest.raises(ModelError, match="scores differ"):
        from_network(Liar().eval(), torch.rand(1, 4, 4))


def test_batch_norm_is_folded_into_the_torch_fallback():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)).eval()
    network[1].running_mean.normal_()
    network[1].running_var.uniform_(0.5, 2)
    prepared = ready(wrap(network), torch.rand(1, 4, 4), engine="torch")
    assert not any(isinstance(part, nn.BatchNorm2d) for part in prepared.classifier.network.modules())
    x = torch.rand(5, 1, 4, 4)
    with torch.no_grad():
        assert torch.allclose(prepared.classifier(x), network(x), atol=1e-5)


def test_a_device_is_named_with_the_engine_and_refused_when_absent():
    prepared = ready(wrap(small()), torch.rand(1, 4, 4), engine="torch:cpu")
    assert prepared.engine == "torch:cpu" and prepared.classifier.device == "cpu"
    if not torch.cuda.is_available():
        with pytest.raises(OptionError, match="engine must name a device that torch has here; got 'torch:cuda'"):
            ready(wrap(small()), torch.rand(1, 4, 4), engine="torch:cuda")


def test_the_arrangement_of_threads_is_measured_once_and_remembered(tmp_path, monkeypatch):
    from smoothcert.classifiers import arrange

    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path))
    network, x = from_network(small(), torch.rand(1, 4, 4)), torch.rand(1, 4, 4)
    first = arrange.fastest(network, x, 2)
    assert first in (arrange.Arrangement(1, 2), arrange.Arrangement(2, 1))
    other = arrange.Arrangement(*reversed(first))
    text = (tmp_path / "threads.json").read_text()
    (tmp_path / "threads.json").write_text(text.replace(str(list(first)), str(list(other))))
    assert arrange.fastest(network, x, 2) == other  # remembered, not measured again
    for damaged in ("", "[]", text.replace("[", "[0,"), "{"):
        (tmp_path / "threads.json").write_text(damaged)
        assert arrange.fastest(network, x, 2) in (first, other)
    assert arrange.fastest(network, x, 1) == arrange.Arrangement(1, 1)


def test_weights_beside_an_onnx_file_are_part_of_the_model(tmp_path):
    path, beside = tmp_path / "net.onnx", tmp_path / "net.onnx.data"
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 300), nn.ReLU(), nn.Linear(300, 3)).eval()
    torch.onnx.export(network, (torch.rand(2, 1, 4, 4),), str(path), dynamo=True, external_data=True, verbose=False)
    before = digest(path)
    assert beside.exists() and load(str(path))(torch.rand(2, 1, 4, 4)).shape == (2, 3)
    other = bytearray(beside.read_bytes())
    other[5000] ^= 1
    beside.write_bytes(other)
    assert digest(path) != before
    alone = tmp_path / "alone.onnx"
    torch.onnx.export(network, (torch.rand(2, 1, 4, 4),), str(alone), dynamo=True, external_data=False, verbose=False)
    assert digest(alone).hex == hashlib.sha256(alone.read_bytes()).hexdigest()
    alone.write_bytes(alone.read_bytes()[:-7] + b"location")
    assert digest(alone).hex == hashlib.sha256(alone.read_bytes()).hexdigest()  # damaged: it has a hash like any file


def test_callables_of_one_file_are_different_models():
    specs = ("lines:a", "lines:b", "lines:c", "linear:score")
    for spec in specs:
        load(spec)
    assert len({digest(spec) for spec in specs}) == 4


NETWORK_FILE = """
import functools, torch
from torch import nn

class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.register_buffer("shift", torch.zeros(2), persistent=False)
    def forward(self, x):
        return self.layer(x.flatten(1)) + self.shift

class Holder:
    def __init__(self, network):
        self.network = network
    def score(self, x):
        return self.network(x)
    __call__ = score

net = Small().eval()
net.load_state_dict(torch.load("w.pt", weights_only=True))
method, holder, partial = net.forward, Holder(net), functools.partial(net)
held = holder.score
def named(x):
    return net(x)
def plain(x):
    return torch.stack([x.sum(1), -x.sum(1)], dim=1)
"""


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """A module whose weights lie in w.pt; called, it is imported afresh with other weights."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outside_net.py").write_text(NETWORK_FILE)

    def again(value: float) -> None:
        torch.save({"layer.weight": torch.full((2, 4), value), "layer.bias": torch.zeros(2)}, "w.pt")
        sys.modules.pop("outside_net", None)

    yield again
    sys.modules.pop("outside_net", None)


@pytest.mark.parametrize("name", ["net", "method", "holder", "held", "partial", "named"])
def test_weights_outside_a_callables_source_are_part_of_the_model(name, outside):
    found = []
    for value in (1.0, 2.0, 1.0):
        outside(value)
        load(f"outside_net:{name}")
        found.append(digest(f"outside_net:{name}"))
    assert found[0] == found[2] != found[1]
    assert found[0].covers == ("weights" if name in ("net", "method") else "source")


def test_buffers_that_no_state_holds_are_part_of_the_model(outside):
    outside(1.0)
    network = load("outside_net:net").network
    before = digest("outside_net:net")
    network.shift += 1
    assert digest("outside_net:net") != before


def test_a_digest_says_what_it_covers(outside, tmp_path):
    outside(1.0)
    load("outside_net:plain")
    assert digest("outside_net:plain").covers == digest("linear:score").covers == "source"
    path = tmp_path / "net.onnx"
    torch.onnx.export(small(), (torch.rand(2, 1, 4, 4),), str(path), dynamo=True, external_data=False, verbose=False)
    assert digest(path).covers == digest("cifar10-resnet8-gaussian-0").covers == "weights"
    found = digest("linear:score")
    assert len(found.hex) == 64 and str(found) == found.hex


def test_a_run_is_not_resumed_with_other_weights(outside, tmp_path, capsys):
    from smoothcert.cli.main import run

    np.savez("data.npz", x=np.random.default_rng(0).random((4, 4)).astype(np.float32), y=np.zeros(4, dtype=np.int64))
    words = ["certify", "outside_net:net", "--data", "data.npz", "--sigma", "0.25", "--n", "100", "--out", "run"]
    outside(1.0)
    assert run([*words, "--max", "2"]) == 0 and run([*words, "--max", "2"]) == 0
    outside(2.0)
    capsys.readouterr()
    assert run([*words, "--max", "2"]) == 2
    assert "model_digest" in capsys.readouterr().err
