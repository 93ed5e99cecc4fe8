"""Inputs that lie in memory as one array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from smoothcert.data import Array


@dataclass(frozen=True)
class ArrayStore:
    """An array [N, *shape] whose values low…high stand for 0…1; kept as it is and turned into floats when taken."""

    values: Array
    low: float = 0.0
    high: float = 1.0

    def take(self, positions: Array) -> Array:
        taken = self.values[positions]
        if (self.low, self.high) == (0.0, 1.0):
            return np.ascontiguousarray(taken, dtype=np.float32)
        if taken.dtype == np.uint8:
            # A table of 256 floats is much faster than dividing: a training set is looked up in each epoch.
            table: Array = self._mapped(np.arange(256))
            return np.take(table, np.ascontiguousarray(taken))
        return self._mapped(taken)

    def _mapped(self, values: Array) -> Array:
        """In double precision, rounded once: k/255 is then the float32 nearest to it, as in the field's loaders."""
        mapped = (values.astype(np.float64) - self.low) / (self.high - self.low)
        return np.clip(mapped, 0.0, 1.0).astype(np.float32)
