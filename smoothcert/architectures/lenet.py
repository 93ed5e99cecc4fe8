"""LeNet-5 (LeCun et al. 1998) with rectifiers and max-pooling, as it is used today; made for 1×28×28."""

from dataclasses import dataclass

from torch import nn

from smoothcert.architectures import Architecture, Normalise, sequential
from smoothcert.errors import OptionError


@dataclass(frozen=True)
class Lenet(Architecture):
    """Two convolutions of 5×5 and three linear layers; `lenet` and `lenet5` are the same."""

    smallest = 12

    version: int = 5

    def __post_init__(self) -> None:
        if self.version != 5:
            raise OptionError(f"version of lenet must be 5; got {self.version}")
        super().__post_init__()

    def network(self, normalise: Normalise, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, height, width = shape
        pixels = ((height // 2 - 4) // 2) * ((width // 2 - 4) // 2)  # left after both convolutions and poolings
        return sequential(
            normalise=normalise,
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
