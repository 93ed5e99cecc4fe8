"""The regions of a file with an index over them, kept up to date with what other processes store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from smoothcert.memory._basis import Basis, slack
from smoothcert.memory.index import Ask, Balls, Index
from smoothcert.memory.rule import Floats, Near
from smoothcert.memory.sqlite import Row, Store

Vector: TypeAlias = "np.ndarray[Any, np.dtype[np.float32]]"  # an input, flat
ROWS = 256  # centres in memory at a time


class Regions:
    """What is stored, and which of it is near."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.forget()

    def __len__(self) -> int:
        return len(self._index)

    @property
    def basis(self) -> Basis:
        return self._basis

    def forget(self) -> None:
        """What was held of the file may be wrong: read all of it again when next asked."""
        self._stamp, self._number = -1, -1
        self._index = Index(1, 0.0)

    @property
    def behind(self) -> bool:
        """Whether another process has stored something since."""
        return self.store.stamp() != self._stamp

    def catch_up(self) -> None:
        """Take in what others have stored; inside a transaction, so that it is of one moment."""
        if not self.behind:
            return
        number = self.store.basis_number()
        if number != self._number:
            self._basis = self.store.basis()
            self._index = Index(self._basis.width, slack(self.store.owner.dim))
        self._index.add(*self.store.regions(len(self._index), self._basis.width))
        self._stamp, self._number = self.store.stamp(), number

    def near(self, x: Vector, reach: float, label: int) -> tuple[list[int], Near]:
        """Numbers of the regions that contain x or, of other labels, meet the ball `reach` around it; and the balls."""
        found = self._index.near(Ask(self._basis.coordinates(x[None])[0], reach, label))
        numbers = (found.positions + 1).tolist()
        return numbers, Near(self._distances(x, numbers), found.radii, found.labels)

    def keep(self, x: Vector, label: int, radius: float, certified: float) -> int:
        """Store a region; its number."""
        z = self._basis.coordinates(x[None])
        number = self.store.insert(Row(label, radius, certified, z[0], x))
        if self.store.choose_directions(number):
            self.forget()
            self.catch_up()
        else:
            self._index.add(Balls.of(z, np.array([radius]), np.array([label])))
        return number

    def _distances(self, x: Vector, numbers: Sequence[int]) -> Floats:
        parts = [numbers[first : first + ROWS] for first in range(0, len(numbers), ROWS)]
        found = [distances(self.store.vectors(part), x, self.store.owner.norm) for part in parts]
        return np.concatenate([*found, np.empty(0)])


def distances(rows: np.ndarray[Any, np.dtype[np.float32]], x: Vector, norm: str) -> Floats:
    """Distances of rows [n, dim] from x [dim], in float64 differences: what the margins of the rule are made for."""
    difference = rows.astype(np.float64) - x.astype(np.float64)
    if norm == "l1":
        return np.asarray(np.abs(difference).sum(axis=1))
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", difference, difference)))
