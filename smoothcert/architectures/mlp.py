"""A multi-layer perceptron for inputs of any shape."""

import math
from dataclasses import dataclass

from torch import nn

from smoothcert.architectures import Architecture, Normalise, sequential
from smoothcert.errors import ModelError


@dataclass(frozen=True)
class Mlp(Architecture):
    """`mlp64` is Mlp(width=64); `hidden` layers of that width."""

    width: int = 256
    hidden: int = 2

    def check_shape(self, shape: tuple[int, ...]) -> None:
        if not shape or min(shape) < 1:
            raise ModelError(f"inputs of mlp must have at least one value; got shape {list(shape)}")

    def network(self, normalise: Normalise, shape: tuple[int, ...], classes: int) -> nn.Module:
        layers: dict[str, nn.Module] = {"normalise": normalise, "flatten": nn.Flatten()}
        width = math.prod(shape)
        for number in range(1, self.hidden + 1):
            layers[f"linear{number}"] = nn.Linear(width, self.width)
            layers[f"relu{number}"] = nn.ReLU()
            width = self.width
        return sequential(**layers, linear=nn.Linear(width, classes))
