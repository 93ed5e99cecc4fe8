"""Residual networks for small images (He et al. 2015, §4.2): depth 6n+2, 16/32/64 channels.

Shortcuts that change the shape are convolutions with batch norm ("conv", as in Cohen's code: 272,474 parameters at
depth 20, 1,730,714 at 110) or subsampling with zero channels ("pad", option A of the paper: 269,722 at depth 20).
Names of weights: conv1, bn1, layer{1-3}.{i}.{conv1,bn1,conv2,bn2,downsample}, linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from certus.architectures._normalise import Normalise, checked, require_image, require_positive
from certus.errors import OptionError, unknown

_SHORTCUTS = ("conv", "pad")


@dataclass(frozen=True)
class Resnet:
    """`resnet20` is Resnet(depth=20)."""

    depth: int = 20
    shortcut: str = "conv"
    mean: Sequence[float] = (0.5,)
    std: Sequence[float] = (0.5,)

    def __post_init__(self) -> None:
        if not isinstance(self.depth, int) or self.depth < 8 or self.depth % 6 != 2:
            raise OptionError(f"depth of resnet must be 6n+2 (8, 20, 26, 32, 56, 110, …); got {self.depth}")
        if self.shortcut not in _SHORTCUTS:
            raise unknown("shortcut of resnet", str(self.shortcut), _SHORTCUTS)
        mean, std = checked("resnet", self.mean, self.std)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "std", std)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Inputs [batch, *shape] in [0,1] → scores [batch, classes]."""
        require_positive("resnet", classes=classes)
        channels, _, _ = require_image("resnet", shape, least=4)
        blocks = (self.depth - 2) // 6
        return ResidualNetwork(Normalise(self.mean, self.std, shape), channels, blocks, self.shortcut, classes)


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
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(self.normalise(x))))
        x = self.layer3(self.layer2(self.layer1(x)))
        return cast(Tensor, self.linear(x.mean(dim=(2, 3))))


class Block(nn.Module):
    """Two convolutions beside a shortcut: [batch, before, h, w] → [batch, after, h/stride, w/stride]."""

    def __init__(self, before: int, after: int, stride: int, shortcut: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample: nn.Module = nn.Identity()
        if before != after and shortcut == "conv":
            convolution = nn.Conv2d(before, after, kernel_size=1, stride=stride, bias=False)
            self.downsample = nn.Sequential(convolution, nn.BatchNorm2d(after))
        elif before != after:
            self.downsample = Pad(before, after, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.downsample(x))


class Pad(nn.Module):
    """The shortcut without parameters: every stride-th pixel, zeros in the new channels, half on either side."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.side = (after - before) // 2
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.side, self.side))


def _stage(before: int, after: int, blocks: int, shortcut: str) -> nn.Sequential:
    first = Block(before, after, 1 if before == after else 2, shortcut)
    return nn.Sequential(first, *(Block(after, after, 1, shortcut) for _ in range(blocks - 1)))
