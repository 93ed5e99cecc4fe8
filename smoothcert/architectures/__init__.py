"""Networks by name: shape and number of classes → module.

A network is one file of this folder: a class that is an `Architecture`. Its first layer is always `Normalise`: inputs
come in [0,1], noise is added before it, and it centres and scales. It is inside the network, so that σ and radii are
always in units of [0,1] (Cohen et al. 2019, §4).
"""

import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from smoothcert.errors import ModelError, OptionError, require_count, require_fields


class Normalise(nn.Module):
    """(x − mean)/std by channel: [batch, channels, ...] → the same shape. One number serves all channels."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float], shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape
        view = (-1, *(1 for _ in shape[1:]))
        for what, values in (("mean", mean), ("std", std)):
            if len(values) not in (1, shape[0]):
                raise ModelError(f"{what} of the network must have 1 or {shape[0]} numbers; got {len(values)}")
            self.register_buffer(what, torch.tensor(values, dtype=torch.float32).view(view))

    def forward(self, x: Tensor) -> Tensor:
        # Without this, one channel would be taken three times, and global pooling takes images of any size.
        # `_assert` can be traced, which `if` cannot.
        told = f"it is for inputs of shape {list(self.shape)}"
        torch._assert(x.shape[1:] == self.shape, told)  # type: ignore[no-untyped-call]
        return (x - self.mean) / self.std


@dataclass(frozen=True, kw_only=True)
class Architecture(ABC):
    """What a network's file offers. A number behind its name is its first field: `resnet20` is Resnet(depth=20)."""

    denoises: ClassVar[bool] = False  # gives images of the input's shape instead of scores
    smallest: ClassVar[int] = 4  # pixels that an image must have a side

    mean: Sequence[float] = (0.5,)  # of each channel, or one for all
    std: Sequence[float] = (0.5,)

    def __post_init__(self) -> None:
        require_fields(self.name, self)
        for what, least in (("mean", -math.inf), ("std", 0.0)):
            values = getattr(self, what)
            listed = list(values) if isinstance(values, list | tuple) else [values]  # JSON and commands give these
            fine = [isinstance(value, int | float) and math.isfinite(value) and value > least for value in listed]
            if not listed or not all(fine):
                kind = "finite numbers above 0" if what == "std" else "finite numbers"
                raise OptionError(f"{what} of {self.name} must be {kind}; got {values}")
            object.__setattr__(self, what, tuple(float(value) for value in listed))

    @property
    def name(self) -> str:
        return type(self).__module__.rsplit(".", 1)[-1]

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Inputs [batch, *shape] in [0,1] → scores [batch, classes]; of a denoiser, images [batch, *shape]."""
        require_count(self.name, classes=classes)
        self.check_shape(shape)
        return self.network(Normalise(self.mean, self.std, shape), shape, classes)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse inputs that the network cannot take."""
        if len(shape) != 3 or min(shape[1:]) < self.smallest or shape[0] < 1:
            sides = f"[channels, ≥{self.smallest}, ≥{self.smallest}]"
            raise ModelError(f"inputs of {self.name} must be images {sides}; got shape {list(shape)}")

    @abstractmethod
    def network(self, normalise: Normalise, shape: tuple[int, ...], classes: int) -> nn.Module:
        """The layers behind `normalise`, with it, for inputs of a shape that was checked."""


def sequential(**layers: nn.Module) -> nn.Sequential:
    """Layers one behind the other, by name."""
    return nn.Sequential(OrderedDict(layers))


def start(network: nn.Module) -> None:
    """Draw convolutions' weights so that gradients keep their size through rectifiers (He et al. 2015); biases 0."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


class NetworkCost(NamedTuple):
    """Numbers for one input; an addition to a product counts once, as the field counts."""

    parameters: int
    multiply_adds: int

    def __str__(self) -> str:
        return f"{self.parameters:,} parameters, {self.multiply_adds / 1e6:,.1f} M multiply-adds an input"


def cost(network: nn.Module, shape: tuple[int, ...]) -> NetworkCost:
    """Counted in one forward pass, in eval mode: convolutions and products, and 2 for each value of a batch norm."""
    from torch.utils.flop_counter import FlopCounterMode

    normalised = 0

    def count(_: nn.Module, __: Any, answer: Tensor) -> None:
        nonlocal normalised
        normalised += 2 * answer.numel()

    layers = [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    was = network.training
    network.eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, *shape))
    network.train(was)
    for hook in hooks:
        hook.remove()
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return NetworkCost(parameters, counter.get_total_flops() // 2 + normalised)
