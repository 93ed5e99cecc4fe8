"""What every file of `architectures/` must do. A new network only adds its line to EXAMPLES."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from smoothcert import catalog
from smoothcert.classifiers.onnx import from_network

EXAMPLES = [
    ("airbench", "airbench8", (3, 16, 16)),
    ("alexnet", "alexnet8", (3, 32, 32)),
    ("densenet", "densenet22", (3, 8, 8)),
    ("digits_cnn", "digits_cnn4", (1, 8, 8)),
    ("dncnn", "dncnn4", (3, 9, 7)),
    ("lenet", "lenet5", (1, 28, 28)),
    ("mlp", "mlp16", (1, 8, 8)),
    ("resnet", "resnet8", (3, 8, 8)),
    ("resnet", "resnet18", (3, 8, 8)),
    ("resnet", "resnet18", (3, 64, 64)),
    ("resnet", "resnet50", (1, 8, 8)),
    ("vgg", "vgg11", (3, 32, 32)),
]
CLASSES = 7


def test_every_network_has_an_example():
    assert sorted({file for file, _, _ in EXAMPLES}) == catalog.names("architectures")


@pytest.fixture(params=EXAMPLES, ids=lambda example: f"{example[1]}-{example[2][1]}")
def example(request):
    """A network with weights and running moments as if it had been trained a little, and the shape of its input."""
    _, name, shape = request.param
    torch.manual_seed(0)
    network = catalog.build("architectures", name).build(shape, CLASSES)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_(std=0.1)
                module.running_var.uniform_(0.5, 2)
    return network.eval(), shape


def test_scores_or_images_come_out_and_depend_on_what_goes_in(example):
    network, shape = example
    x = torch.rand(3, *shape)
    with torch.no_grad():
        out = network(x)
    wanted = shape if type(network).__name__ == "Denoiser" else (CLASSES,)
    assert out.shape == (3, *wanted) and bool(out.isfinite().all())
    assert not torch.allclose(out[0], out[1], atol=1e-6)


def test_inputs_of_another_shape_are_refused(example):
    network, shape = example
    channels, *sizes = shape
    for other in ((1 if channels == 3 else 3, *sizes), (channels, *(2 * size for size in sizes))):
        with pytest.raises(AssertionError, match="it is for inputs of shape"):
            network(torch.rand(2, *other))


def test_batch_mates_do_not_matter(example):
    network, shape = example
    x, mates, others = torch.rand(2, *shape), torch.rand(3, *shape), torch.rand(3, *shape)
    with torch.no_grad():
        among, elsewhere = network(torch.cat([x, mates])), network(torch.cat([x, others]))
    assert torch.equal(among[:2], elsewhere[:2]) and not torch.equal(among[2:], elsewhere[2:])


def test_gradients_reach_the_input_and_every_weight(example):
    network, shape = example
    x = torch.rand(4, *shape, requires_grad=True)
    network(x).square().sum().backward()
    for name, tensor in (("x", x), *network.named_parameters()):
        assert tensor.grad is not None and bool(tensor.grad.isfinite().all()), name
        assert bool((tensor.grad != 0).any()), name


def test_a_training_pass_moves_the_running_moments_and_nothing_else_is_random(example):
    network, shape = example
    before = {name: buffer.clone() for name, buffer in network.named_buffers() if name.endswith("running_mean")}
    x = torch.rand(4, *shape)
    first, second = network.train()(x), network(x)
    assert torch.equal(first, second)
    assert all(not torch.equal(before[name], network.get_buffer(name)) for name in before)


def test_onnx_runtime_gives_the_same_scores(example):
    network, shape = example
    exported = from_network(network, torch.rand(shape), threads=1)
    x = torch.rand(5, *shape)
    with torch.no_grad():
        wanted = network(x)
    assert torch.allclose(exported(x), wanted, atol=1e-4 * float(wanted.abs().max()))
