"""Regions on disk: one SQLite file, safe with several processes at once.

`memory` says whose it is, `basis` holds the directions that coordinates are taken in, `regions` the small columns that
an index needs, `vectors` the centres, float32 as they came. Regions are only ever added, numbered 1, 2, 3, …; a row is
never changed but for its coordinates, when better directions are chosen. Every admission is one transaction that locks
the file for writing before it looks (BEGIN IMMEDIATE), so that nobody decides on less than all that is stored; it is
on the disk when it returns (WAL, synchronous FULL).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from smoothcert.memory import _basis
from smoothcert.memory._basis import Basis
from smoothcert.memory._file import connect, damage, database_errors, transaction, write_basis
from smoothcert.memory.index import Balls
from smoothcert.memory.rule import Floats

CHUNK = 1024  # rows at a time: bounds memory, not results
FIRST, AGAIN = 64, 16  # directions are chosen at 64 regions, and whenever there are 16 times as many


class Row(NamedTuple):
    """A region on its way into the file."""

    label: int
    radius: float  # kept
    certified: float  # offered by certification
    coordinates: Floats  # [width]
    x: np.ndarray[Any, np.dtype[np.float32]]  # [dim]


class Labelled(NamedTuple):
    """The regions of one label, counted."""

    label: int
    regions: int
    shrunk: int  # that had to make room
    smallest: float  # radius
    largest: float


class Store:
    """An open file. Several statements that belong together run inside `reading` or `writing`."""

    def __init__(self, path: Path, frozen: bool) -> None:
        self.path = path
        self._connection, self.identity, self.owner = connect(path, frozen)

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Everything read inside is of one moment."""
        with database_errors(self.path, reading=True), transaction(self._connection, "DEFERRED"):
            yield

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Nobody else writes meanwhile; what was written is on the disk afterwards, or none of it."""
        with database_errors(self.path), transaction(self._connection, "IMMEDIATE"):
            yield

    def stamp(self) -> int:
        """Differs from the last one seen if another connection has committed in between."""
        with database_errors(self.path, reading=True):
            return int(self._one("PRAGMA data_version"))

    def basis_number(self) -> int:
        return int(self._one("SELECT ifnull(max(id), 0) FROM basis"))

    def basis(self) -> Basis:
        """The directions in use."""
        dim = self.owner.dim
        with damage(self.path, "directions"):
            mean, directions = self._connection.execute(
                "SELECT mean, directions FROM basis ORDER BY id DESC LIMIT 1"
            ).fetchone()
            return Basis(_floats(mean, (dim,)), _floats(directions, (dim, min(dim, _basis.DIRECTIONS))))

    def regions(self, after: int, width: int) -> Iterator[Balls]:
        """The regions with higher numbers than `after`, in order, some at a time; coordinates [n, width]."""
        cursor = self._connection.execute(
            "SELECT id, label, radius, coordinates FROM regions WHERE id > ? ORDER BY id", (after,)
        )
        while rows := cursor.fetchmany(CHUNK):
            with damage(self.path, f"regions after {after}"):
                numbers, labels, radii, coordinates = zip(*rows, strict=True)
                if numbers != tuple(range(after + 1, after + 1 + len(rows))):
                    raise ValueError("a number is missing")
                centres = _floats(b"".join(coordinates), (len(rows), width))
                balls = Balls.of(centres, np.array(radii, dtype=np.float64), np.array(labels, dtype=np.int64))
            yield balls
            after += len(rows)

    def vectors(self, numbers: Sequence[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
        """The centres of these regions, float32 [n, dim]."""
        found = np.empty((len(numbers), self.owner.dim), dtype=np.float32)
        with database_errors(self.path, reading=True):
            for row, number in enumerate(numbers):
                with damage(self.path, f"centre of region {number}"):
                    (x,) = self._connection.execute("SELECT x FROM vectors WHERE id = ?", (number,)).fetchone()
                    found[row] = np.frombuffer(x, dtype="<f4").reshape(self.owner.dim)
        return found

    def insert(self, row: Row) -> int:
        """Store a region; its number."""
        values = (row.label, row.radius, row.certified, row.coordinates.astype("<f8").tobytes())
        insert = "INSERT INTO regions (label, radius, certified, coordinates) VALUES (?, ?, ?, ?) RETURNING id"
        (number,) = self._connection.execute(insert, values).fetchone()
        self._connection.execute("INSERT INTO vectors VALUES (?, ?)", (number, row.x.astype("<f4").tobytes()))
        return int(number)

    def choose_directions(self, count: int) -> bool:
        """Principal directions and coordinates in them, where so many regions are due for it; whether they were."""
        due = FIRST
        while due < count:
            due *= AGAIN
        if due != count:
            return False
        sample = np.linspace(1, count, min(count, _basis.sample_size(self.owner.dim))).astype(np.int64)
        basis = _basis.principal(self.vectors(sample.tolist()))
        write_basis(self._connection, basis)
        for first in range(1, count + 1, CHUNK):
            numbers = range(first, min(first + CHUNK, count + 1))
            rows = basis.coordinates(self.vectors(numbers)).astype("<f8")
            changes = ((z.tobytes(), number) for z, number in zip(rows, numbers, strict=True))
            self._connection.executemany("UPDATE regions SET coordinates = ? WHERE id = ?", changes)
        return True

    def labelled(self) -> list[Labelled]:
        """The regions by label."""
        columns = "label, count(*), sum(radius < certified), min(radius), max(radius)"
        with database_errors(self.path, reading=True):
            rows = self._connection.execute(f"SELECT {columns} FROM regions GROUP BY label ORDER BY label")
            return [Labelled(*row) for row in rows]

    def size(self) -> int:
        """Bytes of the file, its journal merged."""
        with database_errors(self.path, reading=True):
            return int(self._one("PRAGMA page_count")) * int(self._one("PRAGMA page_size"))

    def oversized(self) -> list[int]:
        """Regions whose radius no certification has offered."""
        rows = self._connection.execute("SELECT id FROM regions WHERE NOT (radius > 0 AND radius <= certified)")
        return [number for (number,) in rows]

    def _one(self, statement: str) -> Any:
        return self._connection.execute(statement).fetchone()[0]


def _floats(raw: bytes, shape: tuple[int, ...]) -> Floats:
    return np.frombuffer(raw, dtype="<f8").reshape(shape)
