"""Whether Gaussian noise is added in whole steps of 8-bit images ("exact") or in floating point ("float").

In floats x + noise keeps traces of x in its last bits, and a network could read them: a certificate could then be false
(`smoothcert/noise/gaussian_grid.py`). Whole steps cost next to nothing (`benchmarks/arithmetic.py`), so they are what
8-bit data get unless floats are asked for, in Python as on the command line. Which of them it was is the noise of the
record, `gaussian_grid` or `gaussian`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from smoothcert.contracts import Noise
from smoothcert.errors import DataError, OptionError, unknown
from smoothcert.noise import described, on_grid

if TYPE_CHECKING:
    from torch import Tensor

CHOICES = ("exact", "float")
GRID = 255


class ChosenNoise(NamedTuple):
    """Noises in the arithmetic they will have, and why it is not the exact one (empty where nothing was chosen)."""

    noise: Noise
    others: list[Noise | None]
    reason: str = ""


def check(arithmetic: str | None, noise: Noise, option: str = "arithmetic") -> None:
    """Refuse an arithmetic that this noise cannot have."""
    name = str(described(noise)["name"])
    if arithmetic is not None and arithmetic not in CHOICES:
        raise unknown(option, arithmetic, CHOICES)
    if arithmetic == "float" and noise.exact:
        raise OptionError(f"{option} of {name} noise must be exact, as it always is; got float")
    if arithmetic == "exact" and not noise.exact and name != "gaussian":
        raise OptionError(f"{option} of {name} noise must be float (exact in l1: splitting); got exact")


def choose(
    noise: Noise,
    arithmetic: str | None,
    inputs: Iterable[tuple[int, Tensor]],
    others: Sequence[Noise | None] = (),
    option: str = "arithmetic",
) -> ChosenNoise:
    """Gaussian noise, and others beside it, in whole steps where all (numbered) inputs allow it, else in floats."""
    from smoothcert.noise.gaussian import Gaussian
    from smoothcert.noise.gaussian_grid import LARGEST, GaussianGrid

    plain = ChosenNoise(noise, list(others))
    if arithmetic == "float" or not isinstance(noise, Gaussian):
        return plain
    widest = max(one.sigma for one in (noise, *others) if isinstance(one, Gaussian))
    reason = f"sigma {widest:g} is above {LARGEST / GRID:g}, the most that steps of 1/{GRID} allow"
    if arithmetic == "exact" or widest <= LARGEST / GRID:
        reason = _off_grid(inputs)
    if not reason:
        beside = [GaussianGrid(one.sigma, GRID) if isinstance(one, Gaussian) else one for one in others]
        return ChosenNoise(GaussianGrid(noise.sigma, GRID), beside)
    if arithmetic == "exact":
        raise DataError(
            f"inputs with {option} exact must be multiples of 1/{GRID}, as those of 8-bit images are; {reason} "
            "(for other steps: gaussian_grid noise with another grid)"
        )
    return plain._replace(reason=f"noise is added in floating point to all inputs: {reason}")


def _off_grid(inputs: Iterable[tuple[int, Tensor]]) -> str:
    """The first input that has no place on the grid, in words; empty where all have."""
    for number, x in inputs:
        if not on_grid(x, GRID):
            steps = x.reshape(-1).double() * GRID
            value = float(x.reshape(-1)[(steps - steps.round()).abs().argmax()])
            return f"input {number} has the value {value:g}, which is no multiple of 1/{GRID}"
    return ""
