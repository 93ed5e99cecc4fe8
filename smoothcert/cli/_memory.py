"""A memory of regions beside a run: the options of certify and predict, and what they become."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.errors import OptionError, SmoothcertError, unknown

if TYPE_CHECKING:
    from smoothcert.contracts import Noise
    from smoothcert.data import Inputs
    from smoothcert.memory import Memory
    from smoothcert.runs.remember import Remember
    from smoothcert.spec import Spec

File = Annotated[
    Path | None,
    typer.Option(help="Memory of regions that never disagree, made if missing; its promises become the certificates."),
]
Order = Annotated[
    str | None,
    typer.Option(
        help="How inputs are offered to it: index, reverse, radius (largest first), random.  [default: index]"
    ),
]
Frozen = Annotated[
    bool,
    typer.Option(
        "--frozen",
        help="Draw nothing, add nothing: answer from regions already in --memory, and abstain outside them. The "
        "certificate is then of a function that no longer changes, inside its regions.",
    ),
]
Asked = Annotated[
    Path | None,
    typer.Option(
        "--memory", help="Inside a region of this memory its label is the answer, without a draw; nothing is added."
    ),
]


def check(file: Path | None, order: str | None, frozen: bool, noise: Noise, own_levels: bool, against: str) -> None:
    """Refuse what does not go together, before anything is loaded."""
    from smoothcert.memory import NORMS
    from smoothcert.runs.remember import ORDERS

    if file is None:
        for option in ("--order",) * (order is not None) + ("--frozen",) * frozen:
            raise OptionError(f"{option} belongs to --memory; got it without")
        return
    if noise.norm not in NORMS:
        raise unknown("norm of a noise with --memory", noise.norm, NORMS)
    if against == "labels":
        raise OptionError("--against must not be labels with --memory, which would be told the true labels; got labels")
    if order is not None and order not in ORDERS:
        raise unknown("--order", order, ORDERS)
    if frozen and (order is not None or own_levels):
        option = "--order" if order is not None else "--sigma-per-input"
        raise OptionError(f"{option} must not be given with --frozen, which draws and adds nothing; got both")


def remember(file: Path | None, spec: Spec, inputs: Inputs, noise: Noise, order: str | None) -> Remember | None:
    """The memory that certificates are offered to, in this order; made if there is none."""
    from smoothcert.memory import Memory
    from smoothcert.runs.remember import Remember

    if file is None:
        return None
    if not file.exists():
        Memory.create(file, spec.model_digest, noise.norm, inputs.shape).close()
        print(f"smoothcert: {file} is a new memory", file=sys.stderr)
    return Remember(_opened(file, False, spec, inputs, noise), str(file.resolve()), order or "index")


def recall(file: Path | None, spec: Spec, inputs: Inputs, noise: Noise, alone: bool) -> Remember | None:
    """The memory as it is now, which is only asked; alone: nobody else is."""
    from smoothcert.runs.remember import Remember

    if file is None:
        return None
    return Remember(_opened(file, True, spec, inputs, noise), str(file.resolve()), None, alone)


def _opened(file: Path, frozen: bool, spec: Spec, inputs: Inputs, noise: Noise) -> Memory:
    from smoothcert.memory import Memory

    memory = Memory.open(file, frozen)
    try:
        memory.require(spec.model_digest, noise.norm, inputs.shape)
    except SmoothcertError:
        memory.close()
        raise
    return memory
