"""Blocks: a copy shows a square part of an image, and the certificate is against patches.

There are as many places as pixels, and a patch of a × b pixels meets at most (a + side − 1)·(b + side − 1) of them
(Levine, Feizi, NeurIPS 2020).
"""

from __future__ import annotations

from dataclasses import dataclass

from smoothcert.errors import OptionError, require_count
from smoothcert.noise._ablation import Ablation, Axis


@dataclass(frozen=True)
class Block(Ablation):
    """Show a block of `side` × `side` pixels of an image, and hide the others."""

    side: int

    def __post_init__(self) -> None:
        require_count("block", side=self.side)
        super().__post_init__()

    @property
    def level(self) -> str:
        among = "" if self.image is None else f" of {self.image[0]} × {self.image[1]}"
        return f"{self.side} × {self.side} pixels shown{among}"

    def axes_of(self, rows: int, columns: int) -> tuple[Axis, Axis]:
        if self.side > min(rows, columns):
            most = min(rows, columns)
            raise OptionError(f"side of block must be at most {most}, the shorter side of an image; got {self.side}")
        return Axis(rows, self.side, rows), Axis(columns, self.side, columns)
