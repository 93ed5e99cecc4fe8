"""③ How many draws, and what they prove: one file for each scheme. Here is what `smoothcert plan` asks of them.

A scheme that a plan shall compare has `planned`. For radii known in advance it also has `boundaries` (a `Tabled` one),
and where the largest radius is looked for, `foreseen`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from numpy.random import Generator

    from smoothcert.bounds import Floats, Integers
    from smoothcert.contracts import Noise, Sampling


class Budget(NamedTuple):
    """What a plan is about, and the most it may spend on an input."""

    radii: tuple[float, ...]  # known in advance, rising; none: the largest is looked for
    alpha: float
    beta: float
    cap: int  # draws, where radii are known
    n: int  # draws of one look


@runtime_checkable
class Plannable(Protocol):
    """A scheme that a plan compares with others."""

    @classmethod
    def planned(cls, budget: Budget) -> Mapping[str, Sampling]:
        """The scheme within this budget, by the name it is shown under; none where it has nothing to offer."""


@runtime_checkable
class Foreseen(Protocol):
    """A scheme for the largest radius, whose course can be simulated."""

    def foreseen(self, noise: Noise, p: Floats, dim: int, rng: Generator) -> tuple[Integers, Floats]:
        """Draws, and radius, for an input of each probability of the class that is tested."""
