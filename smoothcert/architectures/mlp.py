"""A multi-layer perceptron for inputs of any shape."""

import math
from collections import OrderedDict
from dataclasses import dataclass

from torch import nn

from smoothcert.architectures import Architecture, Normalise
from smoothcert.errors import ModelError, require_count


@dataclass(frozen=True)
class Mlp(Architecture):
    """`mlp64` is Mlp(width=64); `hidden` layers of that width."""

    width: int = 256
    hidden: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("mlp", width=self.width, hidden=self.hidden)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        if not shape or min(shape) < 1:
            raise ModelError(f"inputs of mlp must have at least one value; got shape {list(shape)}")

    def network(self, normalise: Normalise, shape: tuple[int, ...], classes: int) -> nn.Module:
        layers: OrderedDict[str, nn.Module] = OrderedDict(normalise=normalise, flatten=nn.Flatten())
        width = math.prod(shape)
        for number in range(1, self.hidden + 1):
            layers[f"linear{number}"] = nn.Linear(width, self.width)
            layers[f"relu{number}"] = nn.ReLU()
            width = self.width
        layers["linear"] = nn.Linear(width, classes)
        return nn.Sequential(layers)
