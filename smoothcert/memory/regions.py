"""Where regions lie, what a store of them must do, and the index over them that keeps up with other processes.

Regions are only ever added, numbered 1, 2, 3, …; one is never changed but for its coordinates, when better directions
are chosen. `sqlite.py` is such a store, in one file; `postgres.py` is one for servers that share a memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from smoothcert.contracts import Floats, Norm
from smoothcert.errors import OptionError, RunError, unknown
from smoothcert.memory.index import DIRECTIONS, Ask, Balls, Basis, Index, principal, sample_size, slack
from smoothcert.memory.rule import Near, margin

Vector: TypeAlias = "np.ndarray[Any, np.dtype[np.float32]]"  # an input, flat; or several [n, dim]
NORMS = ("l1", "l2")
LARGEST = 1e38  # radius: far beyond any data, and its square is still a number
WIDEST = 10**9 // (8 * DIRECTIONS)  # values of an input: a database holds no more than 10⁹ bytes of directions
ROWS, CHUNK = 256, 1024  # centres in memory at a time, regions rewritten at a time: bounds memory, not results
FIRST, AGAIN = 64, 16  # directions are chosen at 64 regions, and whenever there are 16 times as many


@dataclass(frozen=True)
class Owner:
    """What a memory belongs to; elsewhere its regions mean nothing."""

    classifier: str  # digest
    norm: Norm
    shape: tuple[int, ...]  # of one input

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise unknown("norm of a memory", str(self.norm), NORMS)
        if not self.classifier:
            raise OptionError("classifier of a memory must be the digest of one; got none")
        if not all(isinstance(size, int) and size > 0 for size in self.shape):
            raise OptionError(f"shape of a memory must be positive whole numbers; got {self.shape}")
        if self.dim > WIDEST:
            raise OptionError(f"shape of a memory must hold at most {WIDEST} values; got {self.dim}")

    @property
    def dim(self) -> int:
        return math.prod(self.shape)


class NewRegion(NamedTuple):
    """A region on its way into the store."""

    label: int
    radius: float  # kept
    certified: float  # offered by certification
    coordinates: Floats  # [width]
    x: Vector


class StoreLostError(RunError):
    """The way to a store broke off, and nothing of what was begun is there: whoever begins again finds it, or hears."""


class MemoryStore(Protocol):
    """An open store of regions. Calls that belong together are made inside `reading` or `writing`.

    A store that others serve may raise `StoreLostError` anywhere; the next call that is not inside finds it again.
    """

    place: str  # as messages name it
    identity: str  # given at its creation; no other store has it
    owner: Owner

    def reading(self) -> AbstractContextManager[None]:
        """Everything read inside is of one moment."""

    def writing(self) -> AbstractContextManager[None]:
        """Nobody else writes meanwhile; what was written is safe afterwards, or none of it is there."""

    def stamp(self) -> int:
        """Differs from the last one seen if another connection has written in between."""

    def directions(self, known: int) -> tuple[int, Basis] | None:
        """The number of the directions in use, and the directions; None where they are those that are known."""

    def regions(self, after: int) -> Iterator[tuple[Balls, Floats]]:
        """The regions with higher numbers, in order, some at a time; and the radii that certification offered [n]."""

    def vectors(self, numbers: Sequence[int]) -> Vector:
        """The centres of these regions, float32 [n, dim]."""

    def insert(self, region: NewRegion) -> int:
        """Store a region; its number."""

    def turn(self, basis: Basis, coordinates: Iterable[tuple[Sequence[int], Floats]]) -> None:
        """Use these directions from now on, with the coordinates of all regions in them, some numbers at a time."""

    def size(self) -> int:
        """Bytes on disk."""

    def close(self) -> None: ...


Accept: TypeAlias = Callable[[MemoryStore], None]  # looks at a store that is about to be made, and may refuse it


class Regions:
    """What is stored, and which of it is near."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.forget()

    def __len__(self) -> int:
        return len(self._index)

    @property
    def basis(self) -> Basis:
        return self._basis

    def forget(self) -> None:
        """What was held of the store may be wrong: read all of it again when next asked."""
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
        if (turned := self.store.directions(self._number)) is not None:
            self._number, self._basis = turned
            self._index = Index(self._basis.width, slack(self.store.owner.dim))
        self._index.add(*(balls for balls, _ in self.store.regions(len(self._index))))
        self._stamp = self.store.stamp()

    def near(self, x: Vector, reach: float, label: int) -> tuple[list[int], Near]:
        """Numbers of the regions that contain x or, of other labels, meet the ball `reach` around it; and the balls."""
        found = self._index.near(Ask(self._basis.coordinates(x[None])[0], reach, label))
        numbers = (found.positions + 1).tolist()
        return numbers, Near(self._distances(x, numbers), found.radii, found.labels)

    def keep(self, x: Vector, label: int, radius: float, certified: float) -> int:
        """Store a region; its number."""
        z = self._basis.coordinates(x[None])
        number = self.store.insert(NewRegion(label, radius, certified, z[0], x))
        if self._due(number):
            self._choose_directions(number)
        else:
            self._index.add(Balls.of(z, np.array([radius]), np.array([label])))
        return number

    def certified(self, number: int) -> float:
        """The radius that certification offered for a region."""
        _, offered = next(self.store.regions(number - 1))
        return float(offered[0])

    def check(self) -> list[str]:
        """What is wrong, a line each. None: balls of different labels are disjoint in real numbers, and can be found.

        Whether another ball is near is asked of the index, which is right only where coordinates are: they are made
        again.
        """
        wrong, oversized, done = list[str](), list[str](), 0
        for balls, certified in self.store.regions(0):
            numbers = range(done + 1, done + 1 + len(certified))
            vectors = self.store.vectors(numbers)
            z, stored = self._basis.coordinates(vectors), np.hstack([balls.leading, balls.rest])
            allowed = 2 * slack(self.store.owner.dim) * np.linalg.norm(z, axis=1)
            astray = ~(np.linalg.norm(z - stored, axis=1) <= allowed)
            large = ~((balls.radii > 0) & (balls.radii <= certified))
            oversized += [
                f"region {numbers[i]} must be no larger than what was certified" for i in np.flatnonzero(large)
            ]
            wrong += [f"coordinates of region {numbers[i]} must be its centre's" for i in np.flatnonzero(astray)]
            for x, radius, label in zip(vectors, balls.radii.tolist(), balls.labels.tolist(), strict=True):
                done += 1
                wrong += self._overlaps(done, x, radius, label)
        return oversized + wrong

    def _overlaps(self, number: int, x: Vector, radius: float, label: int) -> list[str]:
        """Earlier regions of another label that a region is not proven to leave alone."""
        numbers, near = self.near(x, radius, label)
        # Admission leaves a margin of e; half of it proves the pair disjoint in real numbers all the same.
        sure = near.distances * (1 - margin(len(x)) / 2) >= near.radii + radius
        return [
            f"regions {other} and {number} of labels {its_label} and {label} must not overlap"
            for other, its_label, apart in zip(numbers, near.labels.tolist(), sure.tolist(), strict=True)
            if other < number and its_label != label and not apart
        ]

    def _due(self, count: int) -> bool:
        """Whether principal directions are chosen at so many regions."""
        due = FIRST
        while due < count:
            due *= AGAIN
        return due == count

    def _choose_directions(self, count: int) -> None:
        sample = np.linspace(1, count, min(count, sample_size(self.store.owner.dim))).astype(np.int64)
        basis = principal(self.store.vectors(sample.tolist()))
        chunks = (range(first, min(first + CHUNK, count + 1)) for first in range(1, count + 1, CHUNK))
        self.store.turn(basis, ((numbers, basis.coordinates(self.store.vectors(numbers))) for numbers in chunks))
        self.forget()
        self.catch_up()

    def _distances(self, x: Vector, numbers: Sequence[int]) -> Floats:
        parts = [numbers[first : first + ROWS] for first in range(0, len(numbers), ROWS)]
        found = [distances(self.store.vectors(part), x, self.store.owner.norm) for part in parts]
        return np.concatenate([*found, np.empty(0)])


def check(store: MemoryStore) -> list[str]:
    """What is wrong with a store, read anew inside a transaction; a line each."""
    regions = Regions(store)
    regions.catch_up()
    return regions.check()


def distances(rows: Vector, x: Vector, norm: str) -> Floats:
    """Distances of rows [n, dim] from x [dim], in float64 differences: what the margins of the rule are made for."""
    difference = rows.astype(np.float64) - x.astype(np.float64)
    if norm == "l1":
        return np.asarray(np.abs(difference).sum(axis=1))
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", difference, difference)))
