"""① A distribution, and the certificate its theorem buys: one file each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@runtime_checkable
class Stretched(Protocol):
    """A noise that is added to any input alike, and that its level sigma only stretches.

    So a level has a slope, and an attack can climb through it: searches for a level and attacks in training need that.
    """

    @property
    def sigma(self) -> float: ...

    def unit(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        """Noise of level 1 of this shape, for training; certificates have streams of their own."""


EXACT = ("discrete", "gaussian_grid", "splitting")  # nothing is rounded that a network could read


def described(noise: Any) -> dict[str, Any]:
    """A noise as plain values: the name of its file, and its options."""
    return {"name": type(noise).__module__.rsplit(".", 1)[-1], **dataclasses.asdict(noise)}


def at_level(noise: Any, sigma: float) -> Any:
    """The same kind of noise at another level; a half-width follows the level."""
    others = {"lam": 0.0} if "lam" in {field.name for field in dataclasses.fields(noise)} else {}
    return dataclasses.replace(noise, sigma=sigma, **others)
