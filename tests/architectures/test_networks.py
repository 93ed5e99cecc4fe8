"""Networks: parameter counts of the papers, normalisation inside, weights of others, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from smoothcert import catalog, data
from smoothcert.architectures import cost
from smoothcert.errors import ModelError, OptionError
from smoothcert.training.checkpoints import fill, read_bare

SHARED = Path(__file__).parents[3] / "shared" / "models"
SMALL, LARGE = (3, 32, 32), (3, 224, 224)


def build(name, shape, classes=10, **options):
    return catalog.build("architectures", name, options).build(shape, classes).eval()


@pytest.mark.parametrize(("name", "options", "shape", "classes", "parameters"), [
    ("resnet20", {}, SMALL, 10, 272_474),
    ("resnet110", {}, SMALL, 10, 1_730_714),
    ("resnet20", {"shortcut": "pad"}, SMALL, 10, 269_722),
    ("resnet18", {}, SMALL, 10, 11_173_962),
    ("resnet34", {}, SMALL, 10, 21_282_122),
    ("resnet50", {}, SMALL, 10, 23_520_842),
    ("resnet18", {}, LARGE, 1000, 11_689_512),
    ("resnet34", {}, LARGE, 1000, 21_797_672),
    ("resnet50", {}, LARGE, 1000, 25_557_032),
    ("lenet", {}, (1, 28, 28), 10, 61_706),
    ("alexnet", {}, SMALL, 10, 2_472_266),
    ("vgg16", {}, SMALL, 10, 14_728_266),
    ("vgg19", {}, SMALL, 10, 20_040_522),
    ("densenet100", {}, SMALL, 10, 769_162),
    ("dncnn", {}, SMALL, 10, 558_400),
    ("dncnn", {}, (1, 32, 32), 10, 556_096),
])  # fmt: skip
def test_networks_have_the_published_sizes(name, options, shape, classes, parameters):
    assert sum(p.numel() for p in build(name, shape, classes, **options).parameters()) == parameters


@pytest.mark.parametrize(("name", "published"), [
    ("resnet20", 41.21), ("resnet26", 55.48), ("resnet32", 69.75), ("resnet110", 255.27),
])  # fmt: skip
def test_small_residual_networks_do_as_much_as_published(name, published):
    """SWEEN, Table 2. Its figures are for "conv" shortcuts and count two operations for each value of a batch norm."""
    counted = cost(build(name, SMALL), SMALL).multiply_adds
    assert int(counted / 1e4) / 100 == published  # cut, not rounded, as the table has it


def test_convolutions_products_and_batch_norms_are_counted():
    network = nn.Sequential(nn.Conv2d(3, 5, 3, bias=False), nn.BatchNorm2d(5), nn.Flatten(), nn.Linear(20, 7))
    assert cost(network, (3, 4, 4)) == (135 + 10 + 147, 5 * 4 * 27 + 2 * 20 + 140)


@pytest.mark.parametrize(("depth", "blocks", "convolutions"), [
    (18, (2, 2, 2, 2), 2), (34, (3, 4, 6, 3), 2), (50, (3, 4, 6, 3), 3),
])  # fmt: skip
def test_large_residual_networks_take_torchvisions_weights(depth, blocks, convolutions):
    names = [*_layer("conv1", "bn1"), "fc.weight", "fc.bias"]
    for stage, count in enumerate(blocks, start=1):
        for block in range(count):
            at = f"layer{stage}.{block}"
            for number in range(1, convolutions + 1):
                names += _layer(f"{at}.conv{number}", f"{at}.bn{number}")
            if block == 0 and (stage > 1 or depth == 50):
                names += _layer(f"{at}.downsample.0", f"{at}.downsample.1")
    network = build(f"resnet{depth}", LARGE, 1000)
    held = {name: tensor for name, tensor in network.state_dict().items() if not name.startswith("normalise.")}
    assert sorted(held) == sorted(names)
    theirs = {name: torch.full_like(tensor, 1) for name, tensor in held.items()}
    fill(network, theirs, "theirs", optional=("normalise.mean", "normalise.std"))
    assert all(torch.equal(network.state_dict()[name], tensor) for name, tensor in theirs.items())


def _layer(convolution, norm):
    moments = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    return [f"{convolution}.weight", *(f"{norm}.{moment}" for moment in moments)]


@pytest.mark.parametrize(("shape", "size"), [((3, 63, 200), 3), ((3, 64, 64), 7), ((1, 28, 28), 3)])
def test_the_stem_follows_the_images_size(shape, size):
    network = build("resnet18", shape)
    assert network.conv1.kernel_size == (size, size)
    assert isinstance(network.maxpool, nn.MaxPool2d) == (size == 7)


def test_an_untrained_denoiser_gives_back_its_input_and_a_trained_one_subtracts_what_it_finds():
    network, x = build("dncnn5", (3, 8, 8), width=4), torch.rand(2, 3, 8, 8)
    assert torch.equal(network(x), x)
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert len(convolutions) == 5
    nn.init.ones_(convolutions[-1].weight)
    assert torch.equal(network(x), x - network.dncnn(x)) and not torch.equal(network(x), x)


@pytest.mark.parametrize(("name", "shape"), [
    ("resnet8", (3, 32, 32)), ("resnet26", (1, 28, 28)), ("resnet32", (3, 33, 17)), ("resnet56", (3, 32, 32)),
    ("lenet", (1, 28, 28)), ("lenet5", (3, 32, 32)), ("lenet", (1, 13, 40)),
    ("digits_cnn", (1, 8, 8)), ("digits_cnn8", (3, 9, 5)),
    ("resnet18", (1, 28, 28)), ("resnet50", (3, 65, 80)), ("alexnet8", (1, 70, 29)), ("vgg11", (1, 32, 70)),
    ("densenet10", (3, 9, 5)), ("airbench4", (3, 9, 9)), ("airbench4", (1, 28, 33)),
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


@pytest.mark.parametrize(
    "name", ["resnet8", "resnet18", "densenet10", "lenet", "mlp", "digits_cnn", "alexnet8", "vgg11", "airbench8"]
)
def test_normalisation_is_the_first_thing_inside(name):
    shape = (3, 32, 32)
    mean, std = catalog.build("data", "cifar10").normalisation
    torch.manual_seed(0)
    inside = build(name, shape, mean=mean, std=std)
    torch.manual_seed(0)
    outside = build(name, shape, mean=0.0, std=1.0)
    x = torch.rand(2, *shape)
    by_hand = (x - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    assert torch.allclose(inside(x), outside(by_hand), atol=1e-5)
    assert not torch.allclose(inside(x), outside(x), atol=1e-2)


@pytest.mark.parametrize("name", ["digits", "mnist", "fashion_mnist", "cifar10", "svhn"])
def test_defaults_are_the_moments_of_the_training_split(name):
    if name != "digits" and not catalog.build("data", name).cached():
        pytest.skip(f"{name} is not cached")
    x = data.load(name, "train", skip=7).tensors()
    mean, std = catalog.build("data", name).normalisation
    assert torch.allclose(x.mean(dim=(0, 2, 3)), torch.tensor(mean), atol=0.01)
    # Cohen's CIFAR-10 deviations are means over images of the deviation within one, hence the tolerance.
    assert torch.allclose(x.std(dim=(0, 2, 3)), torch.tensor(std), atol=0.07 if name == "cifar10" else 0.01)


@pytest.mark.parametrize(("name", "options", "words"), [
    ("resnet21", {}, "depth of resnet must be 6n"),
    ("resnet2", {}, "depth of resnet"),
    ("resnet", {"depth": "18"}, "depth of resnet must be .* or 18, 34, 50; got 18"),
    ("resnet18", {"shortcut": "pad"}, "shortcut of resnet18 must be conv; got pad"),
    ("vgg12", {}, "depth of vgg must be 11, 13, 16 or 19; got 12"),
    ("densenet121", {}, "depth of densenet must be 6n.4 .*; got 121"),
    ("densenet100", {"growth": 0}, "growth of densenet"),
    ("alexnet0", {}, "width of alexnet"),
    ("airbench0", {}, "width of airbench"),
    ("alexnet", {"std": -1.0}, "std of alexnet"),
    ("dncnn1", {}, "depth of dncnn must be at least 2; got 1"),
    ("dncnn", {"width": 0}, "width of dncnn"),
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
    ("resnet18", (3, 3, 9)), ("alexnet", (3, 28, 28)), ("vgg16", (3, 31, 32)), ("densenet100", (3, 3, 3)),
    ("dncnn", (64,)), ("airbench8", (3, 8, 32)),
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
