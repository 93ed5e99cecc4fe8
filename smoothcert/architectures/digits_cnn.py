"""A small convolutional network for the 8×8 digits: trains in seconds on a CPU."""

from dataclasses import dataclass

from torch import nn

from smoothcert.architectures import Architecture, Normalise, sequential


@dataclass(frozen=True)
class DigitsCnn(Architecture):
    """Three convolutions with batch norm, the second and third halving the sides."""

    width: int = 16

    def network(self, normalise: Normalise, shape: tuple[int, ...], classes: int) -> nn.Module:
        layers: dict[str, nn.Module] = {"normalise": normalise}
        before, height, width = shape
        for number, (after, stride) in enumerate([(self.width, 1), (2 * self.width, 2), (4 * self.width, 2)], start=1):
            layers[f"conv{number}"] = nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1, bias=False)
            layers[f"bn{number}"] = nn.BatchNorm2d(after)
            layers[f"relu{number}"] = nn.ReLU()
            before, height, width = after, -(-height // stride), -(-width // stride)
        linear = nn.Linear(before * height * width, classes)
        return sequential(**layers, flatten=nn.Flatten(), linear=linear)
