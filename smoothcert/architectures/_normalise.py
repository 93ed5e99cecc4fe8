"""The first layer of every network here: inputs come in [0,1], noise is added before it, and it centres and scales.

Inside the network, so that σ and radii are always in units of [0,1] (Cohen et al. 2019, §4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from smoothcert.errors import ModelError, OptionError

# Mean and standard deviation of each channel over the training split, in [0,1]. CIFAR-10's are those of Cohen's code,
# SVHN's those that the field uses.
BY_DATA: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "digits": ((0.305,), (0.376,)),
    "fashion_mnist": ((0.2860,), (0.3530,)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "mnist": ((0.1307,), (0.3081,)),
    "svhn": ((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)),
}


class Normalise(nn.Module):
    """(x − mean)/std by channel: [batch, channels, ...] → the same shape. One number serves all channels."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float], shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape
        for what, values in (("mean", mean), ("std", std)):
            if len(values) not in (1, shape[0]):
                raise ModelError(f"{what} of the network must have 1 or {shape[0]} numbers; got {len(values)}")
        view = (-1, *(1 for _ in shape[1:]))
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(view))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).view(view))

    def forward(self, x: Tensor) -> Tensor:
        # Without this, one channel would be taken three times, and global pooling takes images of any size.
        # `_assert` can be traced, which `if` cannot.
        told = f"it is for inputs of shape {list(self.shape)}"
        torch._assert(x.shape[1:] == self.shape, told)  # type: ignore[no-untyped-call]
        return (x - self.mean) / self.std


def checked(whom: str, mean: Sequence[float], std: Sequence[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and std as tuples of floats, after JSON or the command line gave them as something near it."""
    pair = []
    for what, values, least in (("mean", mean, -math.inf), ("std", std, 0.0)):
        listed = list(values) if isinstance(values, list | tuple) else [values]
        numbers = [value for value in listed if isinstance(value, int | float) and math.isfinite(value)]
        if not numbers or len(numbers) != len(listed) or any(value <= least for value in numbers):
            kind = "finite numbers above 0" if what == "std" else "finite numbers"
            raise OptionError(f"{what} of {whom} must be {kind}; got {values}")
        pair.append(tuple(float(value) for value in numbers))
    return pair[0], pair[1]


def require_image(whom: str, shape: tuple[int, ...], least: int) -> tuple[int, int, int]:
    """Shape (channels, height, width) of at least so many pixels a side."""
    if len(shape) != 3 or min(shape[1:]) < least or shape[0] < 1:
        raise ModelError(f"inputs of {whom} must be images [channels, ≥{least}, ≥{least}]; got shape {list(shape)}")
    return shape[0], shape[1], shape[2]


def require_positive(whom: str, **options: object) -> None:
    """Options that count something must be whole numbers from 1 upwards."""
    for option, value in options.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise OptionError(f"{option} of {whom} must be a whole number of at least 1; got {value}")
