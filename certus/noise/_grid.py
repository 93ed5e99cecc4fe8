"""Inputs that are multiples of 1/grid, as whole numbers of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from certus.errors import DataError, OptionError

if TYPE_CHECKING:
    from torch import Tensor

CLOSE = 1e-4  # of a step: above what float32 does to k/255, far below what 16-bit images would need
FINEST = 4095


def check_grid(grid: int, whose: str) -> None:
    """A grid has a whole number of steps from 0 to 1."""
    if isinstance(grid, bool) or not isinstance(grid, int) or not 1 <= grid <= FINEST:
        raise OptionError(f"grid of {whose} must be a whole number from 1 to {FINEST}; got {grid}")


def steps(x: Tensor, grid: int, whose: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The input in steps, int64 [dim]; refused where it lies between them, for there nothing is proven."""
    values = x.reshape(-1).numpy().astype(np.float64) * grid
    whole = np.rint(values)
    wrong = ~(np.abs(values - whole) <= CLOSE) | (whole < 0) | (whole > grid)
    if wrong.any():
        got = float(values[wrong][0]) / grid
        raise DataError(
            f"inputs of {whose} must be multiples of 1/{grid} in [0,1] (option grid); got one of value {got:g}"
        )
    return whole.astype(np.int64)
