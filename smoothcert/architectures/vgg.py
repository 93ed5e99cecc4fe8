"""VGG networks (Simonyan and Zisserman 2015) with batch norm, fitted to 32×32 as the field does: one linear layer.

Sizes with 10 classes: 14,728,266 parameters at depth 16, 20,040,522 at depth 19 (biases before batch norm included, as
in the published weights).
"""

from dataclasses import dataclass

from torch import nn

from smoothcert.architectures import Architecture, Normalise, sequential, start
from smoothcert.errors import OptionError

_WIDTHS = (64, 128, 256, 512, 512)
_CONVOLUTIONS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}  # at each width


@dataclass(frozen=True)
class Vgg(Architecture):
    """`vgg16` is Vgg(depth=16)."""

    smallest = 32

    depth: int = 16

    def __post_init__(self) -> None:
        if not isinstance(self.depth, int) or self.depth not in _CONVOLUTIONS:
            raise OptionError(f"depth of vgg must be 11, 13, 16 or 19; got {self.depth}")
        super().__post_init__()

    def network(self, normalise: Normalise, shape: tuple[int, ...], classes: int) -> nn.Module:
        before, height, width = shape
        features: list[nn.Module] = []
        for after, convolutions in zip(_WIDTHS, _CONVOLUTIONS[self.depth], strict=True):
            for _ in range(convolutions):
                features += [nn.Conv2d(before, after, kernel_size=3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
                before = after
            features.append(nn.MaxPool2d(2))
        linear = nn.Linear(before * (height // 32) * (width // 32), classes)
        network = sequential(
            normalise=normalise, features=nn.Sequential(*features), flatten=nn.Flatten(), classifier=linear
        )
        start(network)
        return network
