"""① A distribution, and the certificate its theorem buys: one file each. Here is what they share.

Inputs of some noises are multiples of 1/grid, taken as whole numbers of steps. Levels of the l1 noises are told by λ,
their half-width, or by the standard deviation σ = λ/√3.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from smoothcert.contracts import (
    PROBE,
    Floats,
    Integers,
    Moments,
    Noise,
    Norm,
    Stream,
    StreamRows,
    Tensor,
    TorchGenerator,
)
from smoothcert.errors import DataError, OptionError, is_number

CLOSE = 1e-4  # of a step: above what float32 does to k/255, far below what 16-bit images would need
FINEST = 4095
BROADEST = 2**20  # pixels of a side
HIDDEN = -1.0  # in the place of a pixel that a noise hides: outside [0,1], so that a network can tell
ROOT = math.sqrt(3.0)
WIDEST = 1000.0  # level of noise


@runtime_checkable
class ScalableNoise(Protocol):
    """A noise that is added to any input alike, and that its level sigma only stretches.

    So a level has a slope, and an attack can climb through it: searches for a level and attacks in training need that.
    """

    @property
    def sigma(self) -> float: ...

    def unit(self, shape: Sequence[int], generator: TorchGenerator) -> Tensor:
        """Noise of level 1 of this shape, for training; certificates have streams of their own."""


def as_noise(noise: Any) -> Noise:
    """A noise; a plain number is the σ of Gaussian noise."""
    from smoothcert.noise.gaussian import Gaussian

    if is_number(noise) or isinstance(noise, np.floating | np.integer):
        return Gaussian(float(noise))
    if isinstance(noise, type) or not all(hasattr(noise, name) for name in ("fill", "radius", "p_needed")):
        got = noise.__name__ if isinstance(noise, type) else f"{noise!r}"[:60]
        raise OptionError(
            f"noise must be a number, the σ of Gaussian noise, or a noise such as Uniform(sigma=0.5); got {got}"
        )
    found: Noise = noise
    return found


def described(noise: Any) -> dict[str, Any]:
    """A noise as plain values: the name of its file, and its options."""
    return {"name": type(noise).__module__.rsplit(".", 1)[-1], **dataclasses.asdict(noise)}


def at_level(noise: Any, sigma: float) -> Any:
    """The same kind of noise at another level; a half-width follows the level."""
    others = {"lam": 0.0} if "lam" in {field.name for field in dataclasses.fields(noise)} else {}
    return dataclasses.replace(noise, sigma=sigma, **others)


@dataclass(frozen=True)
class NoNoise(Noise):
    """In the place of a noise: how a network is asked about the clean input, in the same batches as about noisy ones.

    A probe is filled by that noise: equal rows would not show that batch mates matter.
    """

    instead: Noise

    @property
    def norm(self) -> Norm:
        return self.instead.norm

    @property
    def level(self) -> str:
        return ""

    def fill(self, out: Tensor, x: Tensor, stream: Stream, first: int) -> None:
        if stream.purpose == PROBE:
            self.instead.fill(out, x, stream, first)
        else:
            out[:] = x

    def fill_rows(self, out: Tensor, x: Tensor, rows: StreamRows) -> None:
        if rows.purpose == PROBE:
            self.instead.fill_rows(out, x, rows)
        else:
            out.copy_(x)

    def radius(self, p_top: Tensor, p_next: Tensor, dim: int) -> Tensor:
        return p_top * 0

    def p_needed(self, radius: float, dim: int) -> float:
        return 1.0


def check_grid(grid: int, whose: str) -> None:
    """A grid has a whole number of steps from 0 to 1."""
    if isinstance(grid, bool) or not isinstance(grid, int) or not 1 <= grid <= FINEST:
        raise OptionError(f"grid of {whose} must be a whole number from 1 to {FINEST}; got {grid}")


def on_grid(x: Tensor, grid: int) -> bool:
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
    return whole.astype("int64")


def _compared(x: Tensor, grid: int) -> tuple[Floats, Floats, Any]:
    """Values in steps, the whole numbers nearest to them, and where those are not what was meant."""
    values = x.reshape(-1).numpy().astype(np.float64) * grid
    whole = np.rint(values)
    return values, whole, ~(np.abs(values - whole) <= CLOSE) | (whole < 0) | (whole > grid)


def check_level(value: object, option: str, whose: str, least: float = math.ulp(0.0), widest: float = WIDEST) -> None:
    """A level of noise is of the size of inputs; far beyond it nothing of them is left, and numbers overflow."""
    if not is_number(value) or not least <= value < math.inf:
        raise OptionError(f"{option} of {whose} must be a positive number, for inputs in [0,1]; got {value}")
    if value > widest:
        raise OptionError(f"{option} of {whose} must be at most {widest:g}, for inputs in [0,1]; got {value}")


def half_width(whose: str, lam: float, sigma: float, widest: float = WIDEST) -> float:
    """λ, from whichever of λ and σ was given; 0 stands for an option that was not."""
    for option, value in (("lam", lam), ("sigma", sigma)):
        check_level(value, option, whose, 0.0, widest)
    if lam == 0.0 and sigma == 0.0:
        raise OptionError(f"{whose} needs a value for sigma, its standard deviation, or for lam = sigma·√3; got none")
    if lam > 0.0 and sigma > 0.0 and not math.isclose(lam, sigma * ROOT, rel_tol=1e-9):
        raise OptionError(f"lam of {whose} must be sigma·√3, here {sigma * ROOT:g}, or given alone; got {lam:g}")
    return float(lam) or sigma * ROOT


def needed_within(radius: float, lam: float) -> float:
    """½ + r/(2λ), rounded up; above 1 where the radius is out of reach."""
    return math.nextafter(0.5 + radius / (2 * lam) * (1 + 1e-15), math.inf)


def sizes(value: Any, what: str) -> tuple[int, int]:
    """Rows and columns, from a pair, from words as 3x7, or from one number for both."""
    found: Any = (value, value) if isinstance(value, int) else value
    if isinstance(value, str):
        match = re.fullmatch(r"(\d{1,7})x(\d{1,7})", value, re.ASCII)
        found = tuple(map(int, match.groups())) if match else ()
    whole = isinstance(found, Sequence) and len(found) == 2
    if not (whole and all(isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= BROADEST for n in found)):
        raise OptionError(f"{what} must be rows x columns, whole numbers from 1 to {BROADEST}, as in 3x7; got {value}")
    return found[0], found[1]


def added(x: Tensor, spread: float, fourth: float) -> Moments:
    """The moments of x plus independent noise of this standard deviation and fourth moment."""
    centre = x.numpy().reshape(-1).astype(np.float64)
    return Moments(centre, np.full(centre.shape, spread), np.full(centre.shape, fourth))


def moments_of(values: Floats, weights: Floats) -> Moments:
    """The moments of numbers that take these values [m, cases] with these weights."""
    centre = (values * weights).sum(axis=1)
    off = values - centre[:, None]
    variance, fourth = (((off**power) * weights).sum(axis=1) for power in (2, 4))
    variance[variance < 1e-24] = 0.0
    relative = np.divide(fourth, variance**2, out=np.ones_like(fourth), where=variance > 0)
    return Moments(centre, np.sqrt(variance), relative)
