"""The 1 797 handwritten digits of 8×8 pixels inside scikit-learn (Alpaydin and Kaynak, UCI 1998): needs no download.

The source's order follows its writers, so the split is shuffled. The order is that of sha256("digits <row>"), which
no version of any random generator can change: the first 500 are the test split, the other 1 297 the training split.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    from smoothcert.data import Array


@dataclass(frozen=True)
class Digits:
    """Embedded: `smoothcert data get` has nothing to do."""

    embedded: ClassVar[bool] = True
    shape: ClassVar[tuple[int, ...]] = (1, 8, 8)
    classes: ClassVar[int] = 10
    sizes: ClassVar[dict[str, int]] = {"train": 1297, "test": 500}
    scale: ClassVar[tuple[float, float]] = (0.0, 16.0)

    def load(self, split: str) -> tuple[Array, Array]:
        """Values 0…16, uint8 [N, 1, 8, 8], and labels, int64 [N]."""
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        order = sorted(range(len(labels)), key=lambda row: hashlib.sha256(f"digits {row}".encode()).digest())
        rows = order[: self.sizes["test"]] if split == "test" else order[self.sizes["test"] :]
        return pixels[rows].reshape(-1, *self.shape).astype(np.uint8), labels[rows].astype(np.int64)
