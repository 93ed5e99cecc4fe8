"""Residual networks (He et al. 2015): one family for small images, one made for ImageNet.

Depth 6n+2 (§4.2): three stages of 16/32/64 channels. Shortcuts that change the shape are convolutions with batch norm
("conv", as in Cohen's code: 272,474 parameters at depth 20, 1,730,714 at 110) or subsampling with zero channels ("pad",
option A of the paper: 269,722 at depth 20).
Names of weights: conv1, bn1, layer{1-3}.{i}.{conv1,bn1,conv2,bn2,downsample}, linear.

Depth 18, 34, 50 (§4.1): four stages of 64/128/256/512 channels, 25,557,032 parameters at depth 50 with 1000 classes.
Images with a side below 64 pixels get the stem of the CIFAR networks, 3×3 without pooling: 11,173,962 parameters at
depth 18 with 10 classes. Weights have torchvision's names: conv1, bn1, layer{1-4}.{i}.{conv,bn}{1-3}, downsample, fc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.architectures._normalise import Normalise, checked, require_image, require_positive
from smoothcert.architectures._residual import Block, Bottleneck
from smoothcert.architectures._start import start
from smoothcert.errors import OptionError, unknown

_SHORTCUTS = ("conv", "pad")
_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}  # in each of the four stages
_SMALL = 64  # pixels: a shorter side would be all but gone after a stem that divides it by four


@dataclass(frozen=True)
class Resnet:
    """`resnet20` is Resnet(depth=20)."""

    depth: int = 20
    shortcut: str = "conv"
    mean: Sequence[float] = (0.5,)
    std: Sequence[float] = (0.5,)

    def __post_init__(self) -> None:
        known = isinstance(self.depth, int) and (self.depth in _BLOCKS or (self.depth >= 8 and self.depth % 6 == 2))
        if not known:
            raise OptionError(
                f"depth of resnet must be 6n+2 (8, 20, 26, 32, 56, 110, …) or 18, 34, 50; got {self.depth}"
            )
        if self.shortcut not in _SHORTCUTS:
            raise unknown("shortcut of resnet", str(self.shortcut), _SHORTCUTS)
        if self.depth in _BLOCKS and self.shortcut != "conv":
            raise OptionError(f"shortcut of resnet{self.depth} must be conv; got {self.shortcut}")
        mean, std = checked("resnet", self.mean, self.std)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "std", std)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Inputs [batch, *shape] in [0,1] → scores [batch, classes]."""
        require_positive("resnet", classes=classes)
        channels, height, width = require_image("resnet", shape, least=4)
        normalise = Normalise(self.mean, self.std, shape)
        if self.depth in _BLOCKS:
            return FourStages(normalise, channels, self.depth, min(height, width) < _SMALL, classes)
        return ResidualNetwork(normalise, channels, (self.depth - 2) // 6, self.shortcut, classes)


class ResidualNetwork(nn.Module):
    """Three stages of `blocks` residual blocks each, then the mean over pixels and a linear layer."""

    def __init__(self, normalise: Normalise, channels: int, blocks: int, shortcut: str, classes: int) -> None:
        super().__init__()
        self.normalise = normalise
        self.conv1 = nn.Conv2d(channels, 16, kernel_size=3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = _stage(16, 16, blocks, shortcut)
        self.layer2 = _stage(16, 32, blocks, shortcut)
        self.layer3 = _stage(32, 64, blocks, shortcut)
        self.linear = nn.Linear(64, classes)
        start(self)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(self.normalise(x))))
        x = self.layer3(self.layer2(self.layer1(x)))
        return cast(Tensor, self.linear(x.mean(dim=(2, 3))))


class FourStages(nn.Module):
    """A stem, four stages of residual blocks (bottlenecks at depth 50), the mean over pixels and a linear layer."""

    def __init__(self, normalise: Normalise, channels: int, depth: int, small: bool, classes: int) -> None:
        super().__init__()
        self.normalise = normalise
        size, stride = (3, 1) if small else (7, 2)
        self.conv1 = nn.Conv2d(channels, 64, kernel_size=size, stride=stride, padding=size // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        stage = _narrow_stage if depth == 50 else _wide_stage
        self.layer1, self.layer2, self.layer3, self.layer4 = (
            stage(64 * 2**number, blocks, first=number == 0) for number, blocks in enumerate(_BLOCKS[depth])
        )
        self.fc = nn.Linear(2048 if depth == 50 else 512, classes)
        start(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(F.relu(self.bn1(self.conv1(self.normalise(x)))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return cast(Tensor, self.fc(x.mean(dim=(2, 3))))


def _stage(before: int, after: int, blocks: int, shortcut: str) -> nn.Sequential:
    first = Block(before, after, 1 if before == after else 2, shortcut)
    return nn.Sequential(first, *(Block(after, after, 1, shortcut) for _ in range(blocks - 1)))


def _wide_stage(width: int, blocks: int, first: bool) -> nn.Sequential:
    return _stage(width if first else width // 2, width, blocks, "conv")


def _narrow_stage(width: int, blocks: int, first: bool) -> nn.Sequential:
    """Bottlenecks from 64 channels, or from the twice `width` that the stage before ends in, to four times `width`."""
    opening = Bottleneck(width if first else 2 * width, width, 1 if first else 2)
    return nn.Sequential(opening, *(Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)))
