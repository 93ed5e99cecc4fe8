"""A small convolutional network for the 8×8 digits: trains in seconds on a CPU."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from smoothcert.architectures._normalise import Normalise, checked, require_image, require_positive


@dataclass(frozen=True)
class DigitsCnn:
    """Three convolutions with batch norm, the second and third halving the sides."""

    width: int = 16
    mean: Sequence[float] = (0.5,)
    std: Sequence[float] = (0.5,)

    def __post_init__(self) -> None:
        require_positive("digits_cnn", width=self.width)
        mean, std = checked("digits_cnn", self.mean, self.std)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "std", std)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Inputs [batch, *shape] in [0,1] → scores [batch, classes]."""
        require_positive("digits_cnn", classes=classes)
        channels, height, width = require_image("digits_cnn", shape, least=4)
        layers: OrderedDict[str, nn.Module] = OrderedDict(normalise=Normalise(self.mean, self.std, shape))
        before = channels
        for number, (after, stride) in enumerate([(self.width, 1), (2 * self.width, 2), (4 * self.width, 2)], start=1):
            layers[f"conv{number}"] = nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1, bias=False)
            layers[f"bn{number}"] = nn.BatchNorm2d(after)
            layers[f"relu{number}"] = nn.ReLU()
            before, height, width = after, -(-height // stride), -(-width // stride)
        layers["flatten"] = nn.Flatten()
        layers["linear"] = nn.Linear(before * height * width, classes)
        return nn.Sequential(layers)
