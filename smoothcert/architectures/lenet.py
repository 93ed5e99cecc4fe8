"""LeNet-5 (LeCun et al. 1998) with rectifiers and max-pooling, as it is used today; made for 1×28×28."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from smoothcert.architectures._normalise import Normalise, checked, require_image, require_positive
from smoothcert.errors import OptionError


@dataclass(frozen=True)
class Lenet:
    """Two convolutions of 5×5 and three linear layers; `lenet` and `lenet5` are the same."""

    version: int = 5
    mean: Sequence[float] = (0.5,)
    std: Sequence[float] = (0.5,)

    def __post_init__(self) -> None:
        if self.version != 5:
            raise OptionError(f"version of lenet must be 5; got {self.version}")
        mean, std = checked("lenet", self.mean, self.std)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "std", std)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Inputs [batch, *shape] in [0,1] → scores [batch, classes]."""
        require_positive("lenet", classes=classes)
        channels, height, width = require_image("lenet", shape, least=12)
        pixels = ((height // 2 - 4) // 2) * ((width // 2 - 4) // 2)  # left after both convolutions and poolings
        layers: OrderedDict[str, nn.Module] = OrderedDict(
            normalise=Normalise(self.mean, self.std, shape),
            conv1=nn.Conv2d(channels, 6, kernel_size=5, padding=2),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(6, 16, kernel_size=5),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            linear1=nn.Linear(16 * pixels, 120),
            relu3=nn.ReLU(),
            linear2=nn.Linear(120, 84),
            relu4=nn.ReLU(),
            linear=nn.Linear(84, classes),
        )
        return nn.Sequential(layers)
