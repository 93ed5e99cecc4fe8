"""Regions on disk: one SQLite file, safe with several processes at once.

`memory` says whose it is, `basis` holds the directions that coordinates are taken in, `regions` the small columns that
an index needs, `vectors` the centres, float32 as they came. Every admission is one transaction that locks the file for
writing before it looks (BEGIN IMMEDIATE), so that nobody decides on less than all that is stored; it is on the disk
when it returns (WAL, synchronous FULL).
"""

from __future__ import annotations

import contextlib
import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.contracts import Floats
from smoothcert.errors import OutputError, RunError, SmoothcertError
from smoothcert.memory.index import DIRECTIONS, Balls, Basis, random
from smoothcert.memory.regions import MemoryStore, NewRegion, Owner, Vector

CHUNK = 1024  # rows at a time: bounds memory, not results
APPLICATION = 0x6365726D  # "cerm": marks the database as a memory
VERSION = 2  # of the tables
PATIENCE = 60.0  # seconds to wait for another process's transaction
SCHEMA = """
CREATE TABLE memory (
    identity TEXT NOT NULL, classifier TEXT NOT NULL, norm TEXT NOT NULL, shape TEXT NOT NULL
) STRICT;
CREATE TABLE basis (id INTEGER PRIMARY KEY, mean BLOB NOT NULL, directions BLOB NOT NULL) STRICT;
CREATE TABLE regions (
    id INTEGER PRIMARY KEY, label INTEGER NOT NULL, radius REAL NOT NULL, certified REAL NOT NULL,
    coordinates BLOB NOT NULL
) STRICT;
CREATE TABLE vectors (id INTEGER PRIMARY KEY, x BLOB NOT NULL) STRICT
"""


class SqliteStore(MemoryStore):
    """An open file."""

    def __init__(self, path: Path, frozen: bool) -> None:
        self.place, self._path = str(path), path
        self._connection, self.identity, self.owner = _connect(path, frozen)

    @staticmethod
    def create(path: Path, owner: Owner) -> None:
        """Make an empty memory, all of it or nothing; a file that is already one is refused."""
        with _errors(path), contextlib.closing(sqlite3.connect(path, timeout=PATIENCE)) as connection:
            connection.isolation_level = None
            if _tables(connection) == 0:
                connection.execute("PRAGMA journal_mode=WAL")
            with _transaction(connection, "IMMEDIATE"):
                if _tables(connection):
                    raise OutputError(f"{path} must not exist yet; got a database that is in use")
                for statement in SCHEMA.split(";"):
                    connection.execute(statement)
                values = (secrets.token_hex(16), owner.classifier, owner.norm, json.dumps(list(owner.shape)))
                connection.execute("INSERT INTO memory VALUES (?, ?, ?, ?)", values)
                _write_basis(connection, random(owner.dim))
                connection.execute(f"PRAGMA application_id={APPLICATION}")
                connection.execute(f"PRAGMA user_version={VERSION}")

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        with _errors(self._path, reading=True), _transaction(self._connection, "DEFERRED"):
            yield

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        with _errors(self._path), _transaction(self._connection, "IMMEDIATE"):
            yield

    def stamp(self) -> int:
        with _errors(self._path, reading=True):
            return int(self._one("PRAGMA data_version"))

    def directions(self, known: int) -> tuple[int, Basis] | None:
        number, dim = int(self._one("SELECT ifnull(max(id), 0) FROM basis")), self.owner.dim
        if number == known:
            return None
        with _damage(self._path, "directions"):
            mean, directions = self._connection.execute(
                "SELECT mean, directions FROM basis ORDER BY id DESC LIMIT 1"
            ).fetchone()
            return number, Basis(_floats(mean, (dim,)), _floats(directions, (dim, min(dim, DIRECTIONS))))

    def regions(self, after: int) -> Iterator[tuple[Balls, Floats]]:
        columns = "id, label, radius, certified, coordinates"
        cursor = self._connection.execute(f"SELECT {columns} FROM regions WHERE id > ? ORDER BY id", (after,))
        while rows := cursor.fetchmany(CHUNK):
            with _damage(self._path, f"regions after {after}"):
                numbers, labels, radii, certified, coordinates = zip(*rows, strict=True)
                if numbers != tuple(range(after + 1, after + 1 + len(rows))):
                    raise ValueError("a number is missing")
                centres = _floats(b"".join(coordinates), (len(rows), min(self.owner.dim, DIRECTIONS) + 1))
                balls = Balls.of(centres, np.array(radii, dtype=np.float64), np.array(labels, dtype=np.int64))
            yield balls, np.array(certified, dtype=np.float64)
            after += len(rows)

    def vectors(self, numbers: Sequence[int]) -> Vector:
        found = np.empty((len(numbers), self.owner.dim), dtype=np.float32)
        with _errors(self._path, reading=True):
            for row, number in enumerate(numbers):
                with _damage(self._path, f"centre of region {number}"):
                    (x,) = self._connection.execute("SELECT x FROM vectors WHERE id = ?", (number,)).fetchone()
                    found[row] = np.frombuffer(x, dtype="<f4").reshape(self.owner.dim)
        return found

    def insert(self, region: NewRegion) -> int:
        values = (region.label, region.radius, region.certified, region.coordinates.astype("<f8").tobytes())
        insert = "INSERT INTO regions (label, radius, certified, coordinates) VALUES (?, ?, ?, ?) RETURNING id"
        (number,) = self._connection.execute(insert, values).fetchone()
        self._connection.execute("INSERT INTO vectors VALUES (?, ?)", (number, region.x.astype("<f4").tobytes()))
        return int(number)

    def turn(self, basis: Basis, coordinates: Iterable[tuple[Sequence[int], Floats]]) -> None:
        _write_basis(self._connection, basis)
        for numbers, rows in coordinates:
            changes = ((z.tobytes(), number) for z, number in zip(rows.astype("<f8"), numbers, strict=True))
            self._connection.executemany("UPDATE regions SET coordinates = ? WHERE id = ?", changes)

    def size(self) -> int:
        """Bytes of the file, its journal merged."""
        with _errors(self._path, reading=True):
            return int(self._one("PRAGMA page_count")) * int(self._one("PRAGMA page_size"))

    def _one(self, statement: str) -> Any:
        return self._connection.execute(statement).fetchone()[0]


def _floats(raw: bytes, shape: tuple[int, ...]) -> Floats:
    return np.frombuffer(raw, dtype="<f8").reshape(shape)


def _connect(path: Path, frozen: bool) -> tuple[sqlite3.Connection, str, Owner]:
    """Open a memory, and read which it is and whose."""
    if not path.is_file():
        raise RunError(f"{path} must be a memory; there is no such file")
    with _errors(path, reading=frozen):
        connection = _open_to_read(path) if frozen else _open(path, "rw")
        try:
            identity, owner = _read_owner(path, connection)
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
    return connection, identity, owner


def _write_basis(connection: sqlite3.Connection, basis: Basis) -> None:
    values = [part.astype("<f8").tobytes() for part in (basis.mean, basis.directions)]
    connection.execute("INSERT INTO basis (mean, directions) VALUES (?, ?)", values)


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    """All of what is done inside, or nothing."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def _errors(path: Path, reading: bool = False) -> Iterator[None]:
    """SQLite's refusals as one line."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if reading:
            raise RunError(f"{path} must be readable; got: {error}") from error
        raise OutputError(f"{path} must be writable; got: {error} (regions already stored are safe)") from error
    except sqlite3.DatabaseError as error:
        raise RunError(f"{path} must be a memory of smoothcert; got: {error}") from error


@contextlib.contextmanager
def _damage(path: Path, what: str) -> Iterator[None]:
    """A value that is missing, or not of its form, means that the file was damaged."""
    try:
        yield
    except (ValueError, TypeError, SmoothcertError) as error:
        raise RunError(f"{what} in {path} must be whole; got damaged or missing values") from error


def _open(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, timeout=PATIENCE, isolation_level=None)


def _open_to_read(path: Path) -> sqlite3.Connection:
    """Where nothing may be written, not even the file that readers share, the database is opened as one that rests."""
    connection = _open(path, "ro")
    try:
        _tables(connection)
    except sqlite3.OperationalError:
        connection.close()
        journal = path.with_name(f"{path.name}-wal")
        if journal.exists() and journal.stat().st_size:
            raise RunError(
                f"{path} must be closed before it is read where nothing can be written; got an open journal"
            ) from None
        connection = _open(path, "ro&immutable=1")
    return connection


def _read_owner(path: Path, connection: sqlite3.Connection) -> tuple[str, Owner]:
    """Refuse what is not a memory, or one of a later form."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION:
        raise RunError(f"{path} must be a memory of smoothcert; got another database")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        raise RunError(f"{path} must be a memory of version {VERSION}; got version {version}")
    with _damage(path, "owner"):
        identity, classifier, norm, shape = connection.execute("SELECT * FROM memory").fetchone()
        return str(identity), Owner(classifier, norm, tuple(json.loads(shape)))


def _tables(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
