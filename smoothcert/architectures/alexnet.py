"""AlexNet (Krizhevsky et al. 2012; layers of Krizhevsky 2014) fitted to 32×32 as the field does: one linear layer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from smoothcert.architectures._normalise import Normalise, checked, require_image, require_positive
from smoothcert.architectures._start import start


@dataclass(frozen=True)
class Alexnet:
    """Five convolutions and three poolings; `width` channels in the first, 64 in the published one (2,472,266)."""

    width: int = 64
    mean: Sequence[float] = (0.5,)
    std: Sequence[float] = (0.5,)

    def __post_init__(self) -> None:
        require_positive("alexnet", width=self.width)
        mean, std = checked("alexnet", self.mean, self.std)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "std", std)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Inputs [batch, *shape] in [0,1] → scores [batch, classes]."""
        require_positive("alexnet", classes=classes)
        channels, height, width = require_image("alexnet", shape, least=29)
        pixels = ((height + 3) // 4 // 8) * ((width + 3) // 4 // 8)  # a stride of 4, then three halvings
        one = self.width
        features = nn.Sequential(
            nn.Conv2d(channels, one, kernel_size=11, stride=4, padding=5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(one, 3 * one, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(3 * one, 6 * one, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(6 * one, 4 * one, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(4 * one, 4 * one, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        layers: OrderedDict[str, nn.Module] = OrderedDict(
            normalise=Normalise(self.mean, self.std, shape),
            features=features,
            flatten=nn.Flatten(),
            classifier=nn.Linear(4 * one * pixels, classes),
        )
        network = nn.Sequential(layers)
        start(network)  # it has no batch norm: with torch's own weights signals all but vanish on their way
        return network
