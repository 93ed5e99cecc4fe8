"""The 1 797 handwritten digits of 8×8 pixels inside scikit-learn (Alpaydin and Kaynak, UCI 1998): needs no download.

The source's order follows its writers, so the split is shuffled. The order is that of sha256("digits <row>"), which
no version of any random generator can change: the first 500 are the test split, the other 1 297 the training split.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from smoothcert.data._sets import Array, DataSet


@dataclass(frozen=True)
class Digits(DataSet):
    """Embedded: `smoothcert data get` has nothing to do."""

    embedded = True
    shape = (1, 8, 8)
    sizes = {"train": 1297, "test": 500}
    scale = (0.0, 16.0)
    normalisation = (0.305,), (0.376,)

    def load(self, split: str) -> tuple[Array, Array]:
        """Values 0…16, uint8 [N, 1, 8, 8], and labels, int64 [N]."""
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        order = sorted(range(len(labels)), key=lambda row: hashlib.sha256(f"digits {row}".encode()).digest())
        rows = order[: self.sizes["test"]] if split == "test" else order[self.sizes["test"] :]
        return pixels[rows].reshape(-1, *self.shape).astype(np.uint8), labels[rows].astype(np.int64)
