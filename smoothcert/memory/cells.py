"""The values of a memory as every store keeps them: bytes in little endian, checked when they are read."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from smoothcert.contracts import Floats, Integers
from smoothcert.errors import RunError, SmoothcertError
from smoothcert.foreign import parse_json, typed
from smoothcert.memory.index import DIRECTIONS, Balls, Basis, random
from smoothcert.memory.regions import LARGEST, NewRegion, Owner, Vector

VERSION = 2  # of the tables


class Contents(NamedTuple):
    """All that a memory is made with."""

    identity: str
    owner: Owner
    basis: Basis | None = None  # None: the directions of a memory that knows no inputs yet
    regions: Iterable[NewRegion] = ()

    @staticmethod
    def empty(owner: Owner) -> Contents:
        """Of a new memory."""
        return Contents(secrets.token_hex(16), owner)

    def first_row(self) -> tuple[str, str, str, str]:
        """The row that says which memory it is and whose."""
        return self.identity, self.owner.classifier, self.owner.norm, json.dumps(list(self.owner.shape))

    def bases(self) -> list[Basis]:
        """In the order of their numbers."""
        return [random(self.owner.dim), *([self.basis] if self.basis else [])]


@contextlib.contextmanager
def damage(place: object, what: str) -> Iterator[None]:
    """A value that is missing, or not of its form, means that the memory was damaged."""
    try:
        yield
    except (ValueError, TypeError, SmoothcertError) as error:
        raise RunError(f"{what} in {place} must be whole; got damaged or missing values") from error


def read_first_rows(rows: Sequence[Sequence[Any]]) -> tuple[str, Owner]:
    """Which memory it is and whose; it says so once."""
    ((identity, classifier, norm, shape),) = rows
    sizes = typed(tuple[int, ...], parse_json(shape, "shape"))
    return typed(str, identity), Owner(typed(str, classifier), norm, sizes)


def read_basis(mean: bytes, directions: bytes, dim: int) -> Basis:
    return Basis(_floats(mean, (dim,)), _floats(directions, (dim, min(dim, DIRECTIONS))))


def read_regions(rows: Sequence[Sequence[Any]], after: int, dim: int) -> tuple[Balls, Floats]:
    """Rows of number, label, radius, certified, coordinates, the numbers following on `after`."""
    numbers, labels, radii, certified, coordinates = zip(*rows, strict=True)
    if numbers != tuple(range(after + 1, after + 1 + len(rows))):
        raise ValueError("a number is missing")
    centres = _floats(b"".join(coordinates), (len(rows), min(dim, DIRECTIONS) + 1))
    kept, offered = (_radii(column) for column in (radii, certified))
    return Balls.of(centres, kept, _labels(labels)), offered


def read_vector(raw: bytes, dim: int) -> Vector:
    return _finite(np.frombuffer(raw, dtype="<f4").reshape(dim))


def pack_basis(basis: Basis) -> tuple[bytes, bytes]:
    return pack(basis.mean), pack(basis.directions)


def pack_region(region: NewRegion) -> tuple[int, float, float, bytes]:
    """Label, radius, certified, coordinates."""
    return region.label, region.radius, region.certified, pack(region.coordinates)


def pack_vector(x: Vector) -> bytes:
    return x.astype("<f4").tobytes()


def pack(values: Floats) -> bytes:
    return values.astype("<f8").tobytes()


def _floats(raw: bytes, shape: tuple[int, ...]) -> Floats:
    return _finite(np.frombuffer(raw, dtype="<f8").reshape(shape))


def _finite(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if not np.isfinite(values).all():
        raise ValueError("a value is no number")
    return values


def _radii(column: Sequence[Any]) -> Floats:
    found = _finite(np.array(typed(tuple[float, ...], column), dtype=np.float64))
    if not ((found > 0) & (found <= LARGEST)).all():
        raise ValueError("a radius is out of bounds")
    return found


def _labels(column: Sequence[Any]) -> Integers:
    found = np.array(typed(tuple[int, ...], column), dtype=np.int64)
    if found.min() < 0:
        raise ValueError("a label is no class")
    return found
