"""`--arithmetic`: whether Gaussian noise is added in whole steps of 8-bit images or in floating point.

In floats x + noise keeps traces of x in its last bits, and a network could read them: a certificate could then be false
(`smoothcert/noise/gaussian_grid.py`). Whole steps cost next to nothing (`benchmarks/arithmetic.py`), so they are what
8-bit data get unless floats are asked for. Which of them it was is the noise of the record, `gaussian_grid` or
`gaussian`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.errors import DataError, OptionError, unknown

if TYPE_CHECKING:
    from pathlib import Path

    from smoothcert.contracts import Noise
    from smoothcert.data import Inputs

CHOICES = ("exact", "float")
GRID = 255
CHUNK = 256  # inputs looked at together

Option = Annotated[
    str | None,
    typer.Option(
        "--arithmetic", help="exact (Gaussian noise in whole steps of 1/255) or float.  [default: exact for 8-bit data]"
    ),
]


def check(arithmetic: str | None, noise: Noise) -> None:
    """Refuse an arithmetic that this noise cannot have, before anything is loaded."""
    from smoothcert.noise import described

    name = str(described(noise)["name"])
    if arithmetic is not None and arithmetic not in CHOICES:
        raise unknown("--arithmetic", arithmetic, CHOICES)
    if arithmetic == "float" and noise.exact:
        raise OptionError(f"--arithmetic of {name} noise must be exact, as it always is; got float")
    if arithmetic == "exact" and not noise.exact and name != "gaussian":
        raise OptionError(f"--arithmetic of {name} noise must be float (exact in l1: splitting); got exact")


def settled(noise: Noise, arithmetic: str | None, inputs: Inputs, out: Path) -> Noise:
    """Gaussian noise in whole steps where inputs allow it, unless floats are asked for; any other noise as it is.

    A run that was begun in floats goes on in floats.
    """
    from smoothcert.noise.gaussian import Gaussian
    from smoothcert.noise.gaussian_grid import LARGEST
    from smoothcert.recipe import Recipe, describe

    if not isinstance(noise, Gaussian) or arithmetic == "float":
        return noise
    recipe = out / "recipe.toml"
    if arithmetic is None and recipe.exists() and Recipe.read(recipe).question.noise == describe(noise):
        return noise
    if eight_bit(inputs) and (arithmetic == "exact" or noise.sigma <= LARGEST / GRID):
        return in_steps(noise)
    if arithmetic == "exact":
        raise DataError(
            f"inputs with --arithmetic exact must be multiples of 1/{GRID}, as 8-bit images are; {inputs.name} are not "
            "(for other steps: --noise gaussian_grid --set grid=…)"
        )
    return noise


def in_steps(noise: Noise) -> Noise:
    """Gaussian noise in whole steps of 8-bit images; any other as it is."""
    from smoothcert.noise.gaussian import Gaussian
    from smoothcert.noise.gaussian_grid import GaussianGrid

    return GaussianGrid(noise.sigma, GRID) if isinstance(noise, Gaussian) else noise


def eight_bit(inputs: Inputs) -> bool:
    """Whether every value of every input is a multiple of 1/255."""
    import numpy as np

    from smoothcert.noise import on_grid

    starts = range(0, len(inputs), CHUNK)
    parts = (np.arange(start, min(start + CHUNK, len(inputs))) for start in starts)
    return all(on_grid(inputs.tensors(part), GRID) for part in parts)
