"""Bands: a copy shows some neighbouring columns (or rows) of an image, and the certificate is against patches.

There are as many places as columns, and a patch b columns wide meets at most b + width − 1 of them, however high it is
(Levine, Feizi, NeurIPS 2020: with bands 4 wide, of 10 000 CIFAR-10 images 57.7 % certified against 5 × 5 patches).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from smoothcert.errors import OptionError, require_count, unknown
from smoothcert.noise._ablation import Ablation, Axis

WAYS = ("columns", "rows")


@dataclass(frozen=True)
class Band(Ablation):
    """Show `width` neighbouring columns of an image, or rows, and hide the others."""

    width: int
    of: Literal["columns", "rows"] = "columns"

    def __post_init__(self) -> None:
        require_count("band", width=self.width)
        if self.of not in WAYS:
            raise unknown("of of band", str(self.of), WAYS)
        super().__post_init__()

    @property
    def level(self) -> str:
        return f"{self.width} {self.of} shown{self._among}"

    @property
    def _among(self) -> str:
        return "" if self.image is None else f" of {self.image[self.of == 'columns']}"

    def axes_of(self, rows: int, columns: int) -> tuple[Axis, Axis]:
        pixels = columns if self.of == "columns" else rows
        if self.width > pixels:
            raise OptionError(f"width of band must be at most {pixels}, the {self.of} of an image; got {self.width}")
        band = Axis(pixels, self.width, pixels)
        return (Axis(rows, rows, 1), band) if self.of == "columns" else (band, Axis(columns, columns, 1))
