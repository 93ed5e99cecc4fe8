"""Networks: parameter counts of the papers, normalisation inside, weights of others, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from certus import catalog, data
from certus.architectures._normalise import BY_DATA
from certus.errors import ModelError, OptionError
from certus.training.foreign import read_bare

SHARED = Path(__file__).parents[3] / "shared" / "models"


def build(name, shape, classes=10, **options):
    return catalog.build("architectures", name, options).build(shape, classes).eval()


@pytest.mark.parametrize(("name", "options", "parameters"), [
    ("resnet20", {}, 272_474),
    ("resnet110", {}, 1_730_714),
    ("resnet20", {"shortcut": "pad"}, 269_722),
])  # fmt: skip
def test_residual_networks_have_the_published_sizes(name, options, parameters):
    assert sum(p.numel() for p in build(name, (3, 32, 32), **options).parameters()) == parameters


def test_lenet_has_its_classical_size():
    assert sum(p.numel() for p in build("lenet", (1, 28, 28)).parameters()) == 61_706


@pytest.mark.parametrize(("name", "shape"), [
    ("resnet8", (3, 32, 32)), ("resnet26", (1, 28, 28)), ("resnet32", (3, 33, 17)), ("resnet56", (3, 32, 32)),
    ("lenet", (1, 28, 28)), ("lenet5", (3, 32, 32)), ("lenet", (1, 13, 40)),
    ("digits_cnn", (1, 8, 8)), ("digits_cnn8", (3, 9, 5)),
    ("mlp", (5,)), ("mlp32", (8, 8)), ("mlp", (1, 8, 8)),
])  # fmt: skip
def test_scores_have_their_shape(name, shape):
    torch.manual_seed(0)
    network = build(name, shape, classes=7)
    x = torch.rand(3, *shape)
    scores = network(x)
    assert scores.shape == (3, 7) and scores.isfinite().all()
    assert torch.allclose(network(x[1:2]), scores[1:2], atol=1e-4)  # a function of one input


def test_both_shortcuts_work_at_odd_sizes():
    for shortcut in ("conv", "pad"):
        assert build("resnet8", (3, 31, 29), shortcut=shortcut)(torch.rand(2, 3, 31, 29)).shape == (2, 10)


@pytest.mark.parametrize("name", ["resnet8", "lenet", "mlp", "digits_cnn"])
def test_normalisation_is_the_first_thing_inside(name):
    shape = (3, 16, 16)
    mean, std = BY_DATA["cifar10"]
    torch.manual_seed(0)
    inside = build(name, shape, mean=mean, std=std)
    torch.manual_seed(0)
    outside = build(name, shape, mean=0.0, std=1.0)
    x = torch.rand(2, *shape)
    by_hand = (x - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    assert torch.allclose(inside(x), outside(by_hand), atol=1e-5)
    assert not torch.allclose(inside(x), outside(x), atol=1e-2)


@pytest.mark.parametrize("name", ["digits", "mnist", "fashion_mnist", "cifar10"])
def test_defaults_are_the_moments_of_the_training_split(name):
    if name != "digits" and not catalog.build("data", name).cached():
        pytest.skip(f"{name} is not cached")
    x = data.load(name, "train", skip=7).tensors()
    mean, std = BY_DATA[name]
    assert torch.allclose(x.mean(dim=(0, 2, 3)), torch.tensor(mean), atol=0.01)
    # Cohen's CIFAR-10 deviations are means over images of the deviation within one, hence the tolerance.
    assert torch.allclose(x.std(dim=(0, 2, 3)), torch.tensor(std), atol=0.07 if name == "cifar10" else 0.01)


@pytest.mark.parametrize(("name", "options", "words"), [
    ("resnet21", {}, "depth of resnet must be 6n"),
    ("resnet2", {}, "depth of resnet"),
    ("resnet20", {"shortcut": "cnov"}, "did you mean 'conv'"),
    ("resnet20", {"std": 0.0}, "std of resnet must be finite numbers above 0"),
    ("resnet20", {"mean": float("nan")}, "mean of resnet"),
    ("resnet20", {"mean": "grey"}, "mean of resnet"),
    ("mlp0", {}, "width of mlp"),
    ("mlp", {"hidden": 1.5}, "hidden of mlp"),
    ("digits_cnn", {"width": -1}, "width of digits_cnn"),
    ("lenet7", {}, "version of lenet must be 5"),
    ("lenet", {"depth": 3}, "option of lenet"),
    ("resnett20", {}, "architecture must be one of"),
])  # fmt: skip
def test_bad_options_are_refused(name, options, words):
    with pytest.raises(OptionError, match=words):
        build(name, (3, 32, 32), **options)


@pytest.mark.parametrize(("name", "shape"), [
    ("resnet20", (32, 32)), ("resnet20", (3, 2, 2)), ("lenet", (1, 8, 8)), ("digits_cnn", (64,)), ("mlp", ()),
])  # fmt: skip
def test_shapes_that_cannot_work_are_refused(name, shape):
    with pytest.raises(ModelError, match=r"inputs of \w+ must"):
        build(name, shape)


def test_normalisation_must_fit_the_channels():
    with pytest.raises(ModelError, match="mean of the network must have 1 or 1 numbers; got 3"):
        build("lenet", (1, 28, 28), mean=(0.5, 0.5, 0.5))
    with pytest.raises(OptionError, match="classes of mlp"):
        build("mlp", (4,), classes=0)


@pytest.mark.cached_data
@pytest.mark.skipif(not SHARED.exists(), reason="the shared networks are not here")
def test_published_weights_reach_their_accuracy():
    if not catalog.build("data", "cifar10").cached():
        pytest.skip("cifar10 is not cached")
    network, config = read_bare(SHARED / "cifar10-resnet20-clean.safetensors")
    assert config["arch"] == "resnet20" and config["arch_options"]["shortcut"] == "pad"
    inputs = data.load("cifar10", max=2000)
    x = inputs.tensors().contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        answers = torch.cat([network(part).argmax(dim=1) for part in x.split(250)])
    assert (answers == torch.from_numpy(inputs.labels)).float().mean().item() == pytest.approx(0.9165, abs=1e-6)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared networks are not here")
def test_depth_is_read_from_the_names_of_weights():
    assert read_bare(SHARED / "cifar10-resnet56-clean.safetensors")[1]["arch"] == "resnet56"
