"""A network in 8-bit integers is a classifier like any other: it loads, it is a function, and it says what it is."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
import typer
from onnx import numpy_helper
from onnx_files import stuck, write
from torch import nn

from smoothcert import catalog
from smoothcert.classifiers import digest, load, quantise, wrap
from smoothcert.classifiers.adapted import Adaptation, adapted
from smoothcert.classifiers.onnx import Onnx, from_network
from smoothcert.cli import quantise as cli
from smoothcert.cli.main import run
from smoothcert.data import load as load_data
from smoothcert.engine.batch_check import check_batches
from smoothcert.errors import DataError, ModelError, OptionError
from smoothcert.training.checkpoints import publish

SIGMA = 0.25


def noisy(x: torch.Tensor, sigma: float = SIGMA, seed: int = 0) -> torch.Tensor:
    return x + sigma * torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def trained() -> nn.Module:
    """A small network that knows the digits under noise: its margins are those of a real one."""
    torch.manual_seed(0)
    network = catalog.build("architectures", "digits_cnn").build((1, 8, 8), 10)
    data = load_data("digits", "train")
    x, y = data.tensors(), torch.from_numpy(data.labels)
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    for step in range(120):
        batch = torch.randint(len(x), (128,), generator=torch.Generator().manual_seed(step))
        loss = nn.functional.cross_entropy(network(noisy(x[batch], seed=step)), y[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return network.eval()


@pytest.fixture(scope="module")
def pair(trained) -> tuple[Onnx, Onnx]:
    calibration = noisy(load_data("digits", "train", max=256).tensors())
    before = from_network(trained, calibration[0])
    return before, quantise.quantise(before, calibration, "int8 quantisation of a test")


@pytest.fixture(scope="module")
def checkpoint(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "digits"
    folder.mkdir()
    config = {"arch": "digits_cnn", "arch_options": {}, "shape": [1, 8, 8], "classes": 10}
    publish(folder, {name: value.contiguous() for name, value in trained.state_dict().items()}, config)
    return folder


def command(*words: object) -> None:
    app = typer.Typer()
    app.command()(cli.command)
    app([str(word) for word in words], standalone_mode=False)


def test_labels_under_noise_hardly_change_but_scores_do(pair):
    data = load_data("digits", "test")
    x = noisy(data.tensors(), seed=1)
    found = quantise.compare(*pair, x, torch.from_numpy(data.labels))
    assert found.inputs == len(data) and found.before > 0.8  # else there would be nothing to lose
    # Of ~360 labels: seven may move, and accuracy by as much.
    assert found.same > 0.98 and abs(found.before - found.after) < 0.02
    before, after = pair
    assert not torch.equal(before(x), after(x))


def test_the_comparison_sees_a_network_that_lost_its_wits(pair):
    data = load_data("digits", "test")
    flat = quantise.quantise(pair[0], torch.zeros(64, 1, 8, 8), "calibrated on nothing")
    found = quantise.compare(pair[0], flat, noisy(data.tensors(), seed=1), torch.from_numpy(data.labels))
    assert found.same < 0.9 and found.after < found.before


def test_it_is_a_function_of_one_input_at_any_batch_and_thread_count(pair):
    probe = noisy(load_data("digits", "test", max=200).tensors(), seed=2)
    after = pair[1]
    assert after.rows is None
    assert check_batches(after, probe, 64).note == ""
    whole = after.with_threads(1)(probe)
    assert torch.equal(whole, after.with_threads(2)(probe))
    assert torch.equal(whole, torch.cat([after(x.unsqueeze(0)) for x in probe]))


def test_weights_are_integers_that_no_processor_clips(pair):
    model = onnx.load_from_string(pair[1].content)
    weights = [numpy_helper.to_array(value) for value in model.graph.initializer]
    matrices = [value for value in weights if value.dtype == np.int8 and value.ndim > 1]
    assert len(matrices) >= 3
    # Two products of 255 with a weight are added in 16 bits where there is no VNNI: 2·255·64 < 2^15 − 1.
    assert max(int(np.abs(value.astype(int)).max()) for value in matrices) <= 64
    scales = [value for value in weights if value.dtype == np.float32 and value.ndim == 1 and len(value) > 1]
    assert scales  # one for each channel


def test_ranges_are_those_of_the_noisy_inputs(pair):
    def reach(sigma):
        x = noisy(load_data("digits", "train", max=64).tensors(), sigma)
        model = onnx.load_from_string(quantise.quantise(pair[0], x, "").content)
        first = next(node for node in model.graph.node if node.op_type == "QuantizeLinear")
        values = {value.name: numpy_helper.to_array(value) for value in model.graph.initializer}
        return 255 * float(values[first.input[1]])

    assert reach(1.0) > 1.5 * reach(0.1)


def test_a_frozen_batch_size_stays(tmp_path, trained):
    path, options = tmp_path / "frozen.onnx", {"dynamo": True, "external_data": False, "verbose": False}
    torch.onnx.export(stuck(trained, 3, 1, 8, 8), (torch.rand(3, 1, 8, 8),), str(path), **options)
    after = quantise.quantise(quantise.as_onnx(load(path), torch.rand(1, 8, 8)), torch.rand(8, 1, 8, 8), "")
    assert after.rows == 3 and after(torch.rand(3, 1, 8, 8)).shape == (3, 10)
    with pytest.raises(DataError, match="exactly 3 rows needs at least 3 inputs; got 2"):
        quantise.quantise(load(path), torch.rand(2, 1, 8, 8), "")
    torch.onnx.export(trained, (torch.rand(3, 1, 8, 8),), str(path), **options)
    after = quantise.quantise(load(path), torch.rand(8, 1, 8, 8), "")  # this one was made free
    assert after.rows is None and after(torch.rand(5, 1, 8, 8)).shape == (5, 10)


def test_a_network_of_channels_last_is_calibrated_on_what_it_is_fed(tmp_path):
    x = torch.rand(16, 3, 5, 6)
    before = load(write(tmp_path / "last.onnx", (5, 6, 3)))
    after = quantise.quantise(quantise.as_onnx(before, x[0]), x, "")
    assert float((after(x) - before(x)).abs().max()) < 0.1 * float(before(x).abs().max())


def test_a_model_that_is_called_in_another_way_is_refused(tmp_path):
    network = adapted(load(write(tmp_path / "m.onnx")), Adaptation(output="scores"))
    with pytest.raises(ModelError, match="must be the ONNX file itself; got one with output of its own"):
        quantise.as_onnx(network, torch.rand(1, 4, 4))


def test_the_command_writes_a_model_that_the_others_take(checkpoint, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(quantise, "SECONDS", 0.02)
    out = tmp_path / "int8.onnx"
    command(checkpoint, "--data", "digits", "--max", 128, "--out", out, "--threads", 1)
    said = capsys.readouterr().out
    origin = quantise.origin_of(load(out))
    assert origin.startswith(f"int8 quantisation of {digest(checkpoint)}, calibrated on 128 inputs of digits (train")
    assert origin in said and "accuracy float 0." in said and "int8 ÷ float" in said
    assert [path.name for path in tmp_path.iterdir()] == ["int8.onnx"]
    words = ["certify", out, "--data", "digits", "--max", 5, "--sigma", SIGMA, "--n", 500, "--threads", 1]
    assert run([str(word) for word in [*words, "--out", tmp_path / "run"]]) == 0
    capsys.readouterr()
    first = out.read_bytes()
    command(checkpoint, "--data", "digits", "--max", 128, "--out", out, "--threads", 1)
    assert out.read_bytes() == first  # the same seed, the same network
    with pytest.raises(ModelError, match="must be a network of floats; got int8 quantisation of"):
        command(out, "--data", "digits", "--out", tmp_path / "again.onnx")
    capsys.readouterr()


def test_ranges_are_those_under_the_noise_that_is_named(checkpoint, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(quantise, "SECONDS", 0.01)
    out, short = tmp_path / "int8.onnx", ["--data", "digits", "--max", 64, "--threads", 1]
    command(checkpoint, *short, "--noise", "discrete", "--set", "keep=0.8", "--set", "values=17", "--out", out)
    assert "with discrete noise (l0), keep 0.8, values 17, seed 0" in quantise.origin_of(load(out))
    with pytest.raises(OptionError, match="uniform needs a value for sigma"):
        command(checkpoint, *short, "--noise", "uniform", "--out", out)
    capsys.readouterr()


def test_a_file_of_one_split_is_compared_on_inputs_it_was_not_calibrated_on(tmp_path):
    x = np.random.default_rng(0).random((10, 1, 8, 8), dtype=np.float32)
    np.savez(tmp_path / "x.npz", x=x, y=np.arange(10))
    calibration, every = load_data(str(tmp_path / "x.npz"), "train", max=6), load_data(str(tmp_path / "x.npz"))
    values, labels = quantise.held_out(calibration, every, 3)
    assert labels.tolist() == [6, 7, 8] and torch.equal(values, torch.from_numpy(x[6:9]))
    with pytest.raises(DataError, match=r"that were not calibrated on; got none"):
        quantise.held_out(every, every, 3)


@pytest.mark.parametrize(
    ("model", "data", "out", "kind", "message"),
    [
        ("linear:score", "digits", "a.onnx", ModelError, "must be a checkpoint or an ONNX file; got a callable"),
        ("nowhere.onnx", "digits", "a.onnx", ModelError, "there is no such file"),
        (None, "nowhere.npz", "a.onnx", DataError, "must be an .npz file; got no such file"),
        (None, "digit", "a.onnx", OptionError, "did you mean 'digits'"),
        (None, "{wide}", "a.onnx", ModelError, r"must accept inputs of shape \[1, 9, 9\]"),
        (None, "digits", "a.tflite", OptionError, "must be a file name that ends in .onnx"),
        (None, "digits", "no/folder/a.onnx", OptionError, "must be in a folder that exists"),
    ],
)
def test_refusals_are_one_line_and_leave_nothing(
    checkpoint, tmp_path, model, data, out, kind, message, monkeypatch, capsys
):
    monkeypatch.setattr(quantise, "SECONDS", 0.01)
    place = tmp_path / "out"
    place.mkdir()
    np.savez(tmp_path / "wide.npz", x=np.zeros((600, 1, 9, 9), dtype=np.float32), y=np.zeros(600, dtype=int))
    data = data.format(wide=tmp_path / "wide.npz")
    with pytest.raises(kind, match=message) as error:
        command(model or checkpoint, "--data", data, "--max", 64, "--out", place / out, "--threads", 1)
    assert "\n" not in str(error.value)
    assert list(place.iterdir()) == [] and capsys.readouterr().out == ""


def test_a_network_without_layers_to_quantise_is_refused():
    class Plain(nn.Module):
        def forward(self, x):
            return torch.tanh(x.flatten(1))

    network = quantise.as_onnx(wrap(Plain().eval()), torch.rand(1, 2, 2))
    with pytest.raises(ModelError, match="must have layers that can be quantised; got none"):
        quantise.quantise(network, torch.rand(8, 1, 2, 2), "")
