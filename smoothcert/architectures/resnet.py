"""Residual networks (He et al. 2015): one family for small images, one made for ImageNet.

Depth 6n+2 (§4.2): three stages of 16/32/64 channels. Shortcuts that change the shape are convolutions with batch norm
("conv", as in Cohen's code: 272,474 parameters at depth 20, 1,730,714 at 110) or subsampling with zero channels ("pad",
option A of the paper: 269,722 at depth 20).
Names of weights: conv1, bn1, layer{1-3}.{i}.{conv1,bn1,conv2,bn2,downsample}, linear.

Depth 18, 34, 50 (§4.1): four stages of 64/128/256/512 channels, 25,557,032 parameters at depth 50 with 1000 classes.
Images with a side below 64 pixels get the stem of the CIFAR networks, 3×3 without pooling: 11,173,962 parameters at
depth 18 with 10 classes. Weights have torchvision's names: conv1, bn1, layer{1-4}.{i}.{conv,bn}{1-3}, downsample, fc.
"""

from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.architectures import Architecture, Normalise, start
from smoothcert.errors import OptionError, unknown

_SHORTCUTS = ("conv", "pad")
_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}  # in each of the four stages
_SMALL = 64  # pixels: a shorter side would be all but gone after a stem that divides it by four


@dataclass(frozen=True)
class Resnet(Architecture):
    """`resnet20` is Resnet(depth=20)."""

    depth: int = 20
    shortcut: str = "conv"

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
        super().__post_init__()

    def network(self, normalise: Normalise, shape: tuple[int, ...], classes: int) -> nn.Module:
        if self.depth in _BLOCKS:
            return FourStages(normalise, shape[0], self.depth, min(shape[1:]) < _SMALL, classes)
        return ResidualNetwork(normalise, shape[0], (self.depth - 2) // 6, self.shortcut, classes)


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


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut: [batch, before, h, w] → [batch, after, h/stride, w/stride]."""

    def __init__(self, before: int, after: int, stride: int, shortcut: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample: nn.Module = nn.Identity()
        if before != after and shortcut == "conv":
            self.downsample = _projection(before, after, stride)
        elif before != after:
            self.downsample = PadShortcut(before, after, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.downsample(x))


class Bottleneck(nn.Module):
    """Convolutions 1×1, 3×3, 1×1 beside a shortcut: [batch, before, h, w] → [batch, 4·inner, h/stride, w/stride].

    The 3×3 convolution has the stride, as in torchvision; in the paper the first one has it.
    """

    def __init__(self, before: int, inner: int, stride: int) -> None:
        super().__init__()
        after = 4 * inner
        self.conv1 = nn.Conv2d(before, inner, kernel_size=1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, after, kernel_size=1, bias=False)
        self.bn3 = nn.BatchNorm2d(after)
        self.downsample: nn.Module = nn.Identity() if before == after else _projection(before, after, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return F.relu(out + self.downsample(x))


class PadShortcut(nn.Module):
    """The shortcut without parameters: every stride-th pixel, zeros in the new channels, half on either side."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.side = (after - before) // 2
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.side, self.side))


def _stage(before: int, after: int, blocks: int, shortcut: str) -> nn.Sequential:
    first = ResidualBlock(before, after, 1 if before == after else 2, shortcut)
    return nn.Sequential(first, *(ResidualBlock(after, after, 1, shortcut) for _ in range(blocks - 1)))


def _wide_stage(width: int, blocks: int, first: bool) -> nn.Sequential:
    return _stage(width if first else width // 2, width, blocks, "conv")


def _narrow_stage(width: int, blocks: int, first: bool) -> nn.Sequential:
    """Bottlenecks from 64 channels, or from the twice `width` that the stage before ends in, to four times `width`."""
    opening = Bottleneck(width if first else 2 * width, width, 1 if first else 2)
    return nn.Sequential(opening, *(Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)))


def _projection(before: int, after: int, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(before, after, kernel_size=1, stride=stride, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after))
