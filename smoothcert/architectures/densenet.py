"""Densely connected networks for small images (Huang et al. 2017): DenseNet-BC, every layer sees all before it.

Three dense blocks of (depth − 4)/6 bottleneck layers; between blocks half the channels and half the sides are kept.
Depth 100 with growth 12 has 769,162 parameters with 10 classes.
Names of weights: conv1, dense{1-3}.{i}.{bn1,conv1,bn2,conv2}, trans{1-2}.{bn1,conv1}, bn, fc.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.architectures import Architecture, Normalise, start
from smoothcert.errors import OptionError


@dataclass(frozen=True)
class Densenet(Architecture):
    """`densenet100` is Densenet(depth=100); each layer adds `growth` channels."""

    depth: int = 100
    growth: int = 12

    def __post_init__(self) -> None:
        if not isinstance(self.depth, int) or self.depth < 10 or self.depth % 6 != 4:
            raise OptionError(f"depth of densenet must be 6n+4 (10, 22, 40, 100, 190, …); got {self.depth}")
        super().__post_init__()

    def network(self, normalise: Normalise, shape: tuple[int, ...], classes: int) -> nn.Module:
        return DenseNetwork(normalise, shape[0], (self.depth - 4) // 6, self.growth, classes)


class DenseNetwork(nn.Module):
    """Three dense blocks of so many layers, then the mean over pixels and a linear layer."""

    def __init__(self, normalise: Normalise, channels: int, layers: int, growth: int, classes: int) -> None:
        super().__init__()
        added, first = layers * growth, 2 * growth
        second = (first + added) // 2
        third = (second + added) // 2
        self.normalise = normalise
        self.conv1 = nn.Conv2d(channels, first, kernel_size=3, padding=1, bias=False)
        self.dense1 = _dense(first, layers, growth)
        self.trans1 = Transition(first + added, second)
        self.dense2 = _dense(second, layers, growth)
        self.trans2 = Transition(second + added, third)
        self.dense3 = _dense(third, layers, growth)
        self.bn = nn.BatchNorm2d(third + added)
        self.fc = nn.Linear(third + added, classes)
        start(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.trans1(self.dense1(self.conv1(self.normalise(x))))
        x = F.relu(self.bn(self.dense3(self.trans2(self.dense2(x)))))
        return cast(Tensor, self.fc(x.mean(dim=(2, 3))))


class DenseLayer(nn.Module):
    """What came in with `growth` new channels behind it: [batch, before, h, w] → [batch, before + growth, h, w]."""

    def __init__(self, before: int, growth: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, 4 * growth, kernel_size=1, bias=False)
        self.bn2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, kernel_size=3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1(F.relu(self.bn1(x)))
        out = self.conv2(F.relu(self.bn2(out)))
        return torch.cat((x, out), dim=1)


class Transition(nn.Module):
    """Fewer channels and half the sides: [batch, before, h, w] → [batch, after, h/2, w/2]."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, after, kernel_size=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(self.conv1(F.relu(self.bn1(x))), 2)


def _dense(before: int, layers: int, growth: int) -> nn.Sequential:
    return nn.Sequential(*(DenseLayer(before + number * growth, growth) for number in range(layers)))
