"""`--arithmetic`: whether Gaussian noise is added in whole steps of 8-bit images or in floating point."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from smoothcert.arithmetic import ChosenNoise
    from smoothcert.contracts import Noise
    from smoothcert.data import Inputs

Option = Annotated[
    str | None,
    typer.Option(
        "--arithmetic", help="exact (Gaussian noise in whole steps of 1/255) or float.  [default: exact for 8-bit data]"
    ),
]


def check(arithmetic: str | None, noise: Noise) -> None:
    """Refuse an arithmetic that this noise cannot have, before anything is loaded."""
    from smoothcert import arithmetic as rule

    rule.check(arithmetic, noise, "--arithmetic")


def settled(
    noise: Noise, arithmetic: str | None, inputs: Inputs, out: Path, others: Sequence[Noise | None] = ()
) -> ChosenNoise:
    """Noise, and others beside it, in the arithmetic asked for or the best; says why that is not the exact one.

    A run that was begun in floats goes on in floats.
    """
    from smoothcert import arithmetic as rule
    from smoothcert.spec import Recipe

    recipe = out / "recipe.toml"
    if arithmetic is None and recipe.exists() and Recipe.read(recipe).spec.noise == noise:
        arithmetic = "float"
    numbered = ((int(index), inputs.tensor(place)) for place, index in enumerate(inputs.indices))
    found = rule.choose(noise, arithmetic, numbered, others, "--arithmetic")
    if found.reason:
        print(f"smoothcert: {found.reason}", file=sys.stderr)
    return found
