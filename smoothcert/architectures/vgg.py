"""VGG networks (Simonyan and Zisserman 2015) with batch norm, fitted to 32×32 as the field does: one linear layer.

Sizes with 10 classes: 14,728,266 parameters at depth 16, 20,040,522 at depth 19 (biases before batch norm included, as
in the published weights).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from smoothcert.architectures._normalise import Normalise, checked, require_image, require_positive
from smoothcert.architectures._start import start
from smoothcert.errors import OptionError

_WIDTHS = (64, 128, 256, 512, 512)
_CONVOLUTIONS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}  # at each width


@dataclass(frozen=True)
class Vgg:
    """`vgg16` is Vgg(depth=16)."""

    depth: int = 16
    mean: Sequence[float] = (0.5,)
    std: Sequence[float] = (0.5,)

    def __post_init__(self) -> None:
        if not isinstance(self.depth, int) or self.depth not in _CONVOLUTIONS:
            raise OptionError(f"depth of vgg must be 11, 13, 16 or 19; got {self.depth}")
        mean, std = checked("vgg", self.mean, self.std)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "std", std)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Inputs [batch, *shape] in [0,1] → scores [batch, classes]."""
        require_positive("vgg", classes=classes)
        channels, height, width = require_image("vgg", shape, least=32)
        features: list[nn.Module] = []
        before = channels
        for after, convolutions in zip(_WIDTHS, _CONVOLUTIONS[self.depth], strict=True):
            for _ in range(convolutions):
                features += [nn.Conv2d(before, after, kernel_size=3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
                before = after
            features.append(nn.MaxPool2d(2))
        layers: OrderedDict[str, nn.Module] = OrderedDict(
            normalise=Normalise(self.mean, self.std, shape),
            features=nn.Sequential(*features),
            flatten=nn.Flatten(),
            classifier=nn.Linear(before * (height // 32) * (width // 32), classes),
        )
        network = nn.Sequential(layers)
        start(network)
        return network
