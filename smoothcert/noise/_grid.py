"""Inputs that are multiples of 1/grid, as whole numbers of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smoothcert.errors import DataError, OptionError

if TYPE_CHECKING:
    from torch import Tensor

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
Booleans: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

CLOSE = 1e-4  # of a step: above what float32 does to k/255, far below what 16-bit images would need
FINEST = 4095


def check_grid(grid: int, whose: str) -> None:
    """A grid has a whole number of steps from 0 to 1."""
    if isinstance(grid, bool) or not isinstance(grid, int) or not 1 <= grid <= FINEST:
        raise OptionError(f"grid of {whose} must be a whole number from 1 to {FINEST}; got {grid}")


def is_whole(x: Tensor, grid: int) -> bool:
    """Whether every value is a multiple of 1/grid in [0,1]."""
    return not _compared(x, grid)[2].any()


def steps(x: Tensor, grid: int, whose: str) -> Integers:
    """The input in steps, int64 [dim]; refused where it lies between them, for there nothing is proven."""
    values, whole, wrong = _compared(x, grid)
    if wrong.any():
        got = float(values[wrong][0]) / grid
        raise DataError(
            f"inputs of {whose} must be multiples of 1/{grid} in [0,1] (option grid); got one of value {got:g}"
        )
    return whole.astype(np.int64)


def _compared(x: Tensor, grid: int) -> tuple[Floats, Floats, Booleans]:
    """Values in steps, the whole numbers nearest to them, and where those are not what was meant."""
    values = x.reshape(-1).numpy().astype(np.float64) * grid
    whole = np.rint(values)
    return values, whole, ~(np.abs(values - whole) <= CLOSE) | (whole < 0) | (whole > grid)
