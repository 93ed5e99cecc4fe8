"""AlexNet (Krizhevsky et al. 2012; layers of Krizhevsky 2014) fitted to 32×32 as the field does: one linear layer."""

from dataclasses import dataclass

from torch import nn

from smoothcert.architectures import Architecture, Normalise, sequential, start


@dataclass(frozen=True)
class Alexnet(Architecture):
    """Five convolutions and three poolings; `width` channels in the first, 64 in the published one (2,472,266)."""

    smallest = 29

    width: int = 64

    def network(self, normalise: Normalise, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, height, width = shape
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
        linear = nn.Linear(4 * one * pixels, classes)
        network = sequential(normalise=normalise, features=features, flatten=nn.Flatten(), classifier=linear)
        start(network)  # it has no batch norm: with torch's own weights signals all but vanish on their way
        return network
