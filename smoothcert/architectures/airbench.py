"""A network that learns in few epochs: that of CIFAR-10 Airbench (Jordan 2024, "94% on CIFAR-10 in 3.29 seconds").

A stem of 2×2 convolutions, then three blocks of w, 4w and 4w channels: a 3×3 convolution, its maxima over 2×2 pixels,
and a second convolution at the smaller size. Pooling first leaves batch norm and rectifier a quarter of the values,
and wide layers on few pixels are what processors are fastest at. At w = 64, 118 M multiply-adds an input of 3×32×32.

Not as published: the stem learns, where theirs whitens patches of the training images by frozen weights (a network is
built here before it sees data), rectifiers stand for GELU, and batch norm has learnt scales.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from smoothcert.architectures import Architecture, Normalise, sequential, start

_STEM = 24  # channels behind the 2×2 convolution: twice the values of a patch of 3 colours
_WIDER = (1, 4, 4)  # of the blocks


@dataclass(frozen=True)
class Airbench(Architecture):
    """`airbench64` has blocks of 64, 256 and 256 channels."""

    smallest = 9

    width: int = 64

    def network(self, normalise: Normalise, shape: tuple[int, ...], classes: int) -> nn.Module:
        stem = nn.Sequential(nn.Conv2d(shape[0], _STEM, kernel_size=2), nn.ReLU())
        blocks, before = [], _STEM
        for times in _WIDER:
            blocks.append(_block(before, times * self.width))
            before = times * self.width
        network = sequential(
            normalise=normalise, stem=stem, blocks=nn.Sequential(*blocks), largest=Largest(),
            linear=nn.Linear(before, classes, bias=False),
        )  # fmt: skip
        start(network)
        return network


class Largest(nn.Module):
    """The largest value of each channel: [batch, channels, h, w] → [batch, channels]."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.amax(x, dim=(2, 3))


def _block(before: int, after: int) -> nn.Sequential:
    return sequential(
        conv1=nn.Conv2d(before, after, kernel_size=3, padding=1, bias=False), pool=nn.MaxPool2d(2),
        norm1=nn.BatchNorm2d(after), relu1=nn.ReLU(),
        conv2=nn.Conv2d(after, after, kernel_size=3, padding=1, bias=False),
        norm2=nn.BatchNorm2d(after), relu2=nn.ReLU(),
    )  # fmt: skip
