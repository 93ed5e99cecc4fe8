"""A multi-layer perceptron for inputs of any shape."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from smoothcert.architectures._normalise import Normalise, checked, require_positive
from smoothcert.errors import ModelError


@dataclass(frozen=True)
class Mlp:
    """`mlp64` is Mlp(width=64); `hidden` layers of that width."""

    width: int = 256
    hidden: int = 2
    mean: Sequence[float] = (0.5,)
    std: Sequence[float] = (0.5,)

    def __post_init__(self) -> None:
        require_positive("mlp", width=self.width, hidden=self.hidden)
        mean, std = checked("mlp", self.mean, self.std)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "std", std)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Inputs [batch, *shape] in [0,1] → scores [batch, classes]."""
        require_positive("mlp", classes=classes)
        if not shape or min(shape) < 1:
            raise ModelError(f"inputs of mlp must have at least one value; got shape {list(shape)}")
        layers: OrderedDict[str, nn.Module] = OrderedDict(
            normalise=Normalise(self.mean, self.std, shape), flatten=nn.Flatten()
        )
        width = math.prod(shape)
        for number in range(1, self.hidden + 1):
            layers[f"linear{number}"] = nn.Linear(width, self.width)
            layers[f"relu{number}"] = nn.ReLU()
            width = self.width
        layers["linear"] = nn.Linear(width, classes)
        return nn.Sequential(layers)
