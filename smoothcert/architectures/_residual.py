"""Blocks of residual networks (He et al. 2015): convolutions beside a shortcut."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


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
            self.downsample = _projection(before, after, stride)
        elif before != after:
            self.downsample = Pad(before, after, stride)

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


class Pad(nn.Module):
    """The shortcut without parameters: every stride-th pixel, zeros in the new channels, half on either side."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.side = (after - before) // 2
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.side, self.side))


def _projection(before: int, after: int, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(before, after, kernel_size=1, stride=stride, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after))
