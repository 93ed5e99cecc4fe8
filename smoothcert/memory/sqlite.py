"""Regions on disk: one SQLite file, safe with several processes at once.

`memory` says whose it is, `basis` holds the directions that coordinates are taken in, `regions` the small columns that
an index needs, `vectors` the centres, float32 as they came. Every admission is one transaction that locks the file for
writing before it looks (BEGIN IMMEDIATE), so that nobody decides on less than all that is stored; it is on the disk
when it returns (WAL, synchronous FULL).
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from smoothcert.contracts import Floats
from smoothcert.errors import OutputError, RunError, reason
from smoothcert.foreign import WHOLE, guarded, is_regular, other_tables
from smoothcert.memory import cells
from smoothcert.memory.index import Balls, Basis
from smoothcert.memory.regions import Accept, MemoryStore, NewRegion, Owner, Vector

CHUNK = 1024  # rows at a time: bounds memory, not results
APPLICATION = 0x6365726D  # "cerm": marks the database as a memory
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

    def __init__(self, path: Path, connection: sqlite3.Connection, identity: str, owner: Owner) -> None:
        self.place, self._path, self._connection = str(path), path, connection
        self.identity, self.owner = identity, owner

    @classmethod
    def open(cls, path: Path, frozen: bool) -> Self:
        return cls(path, *_connect(path, frozen))

    @classmethod
    def make(cls, path: Path, contents: cells.Contents, accept: Accept) -> bool:
        """Make a memory, all of it or nothing. False: a database is there already, and stays as it is.

        Of several processes that make it at once one does, and the others find it made.
        """
        if path.exists() and not is_regular(path):
            raise OutputError(f"{path} must be a file for a memory; got something else")
        with _errors(path), contextlib.closing(_open(path, "rwc")) as connection:
            if _tables(connection):
                return False
            _write_ahead(connection)
            with _transaction(connection, "IMMEDIATE"):
                if _tables(connection):
                    return False
                for statement in SCHEMA.split(";"):
                    connection.execute(statement)
                connection.execute("INSERT INTO memory VALUES (?, ?, ?, ?)", contents.first_row())
                for basis in contents.bases():
                    _write_basis(connection, basis)
                made = cls(path, connection, contents.identity, contents.owner)
                for region in contents.regions:
                    made.insert(region)
                accept(made)
                connection.execute(f"PRAGMA application_id={APPLICATION}")
                connection.execute(f"PRAGMA user_version={cells.VERSION}")
        return True

    @staticmethod
    def discard(path: Path) -> None:
        """Remove a memory without regions, or what is left of making one, unless somebody else has it open."""
        with contextlib.suppress(sqlite3.Error), contextlib.closing(_open(path, "rw", patience=0.0)) as connection:
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")  # granted to none but the only one who has it open
            connection.execute("BEGIN EXCLUSIVE")
            if not _tables(connection) or connection.execute("SELECT count(*) FROM regions").fetchone() == (0,):
                for name in (f"{path.name}-wal", path.name):  # the file last: as soon as it is gone another may be made
                    path.with_name(name).unlink(missing_ok=True)

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
        number = int(self._one("SELECT ifnull(max(id), 0) FROM basis"))
        if number == known:
            return None
        with cells.damage(self._path, "directions"):
            mean, directions = self._connection.execute(
                "SELECT mean, directions FROM basis ORDER BY id DESC LIMIT 1"
            ).fetchone()
            return number, cells.read_basis(mean, directions, self.owner.dim)

    def regions(self, after: int) -> Iterator[tuple[Balls, Floats]]:
        columns = "id, label, radius, certified, coordinates"
        lowest = after or -WHOLE  # a number below 1 is damage, and is not to be passed over
        cursor = self._connection.execute(f"SELECT {columns} FROM regions WHERE id > ? ORDER BY id", (lowest,))
        while rows := cursor.fetchmany(CHUNK):
            with cells.damage(self._path, f"regions after {after}"):
                balls, offered = cells.read_regions(rows, after, self.owner.dim)
            yield balls, offered
            after += len(rows)

    def vectors(self, numbers: Sequence[int]) -> Vector:
        found = np.empty((len(numbers), self.owner.dim), dtype=np.float32)
        with _errors(self._path, reading=True):
            for row, number in enumerate(numbers):
                with cells.damage(self._path, f"centre of region {number}"):
                    (x,) = self._connection.execute("SELECT x FROM vectors WHERE id = ?", (number,)).fetchone()
                    found[row] = cells.read_vector(x, self.owner.dim)
        return found

    def insert(self, region: NewRegion) -> int:
        insert = "INSERT INTO regions (label, radius, certified, coordinates) VALUES (?, ?, ?, ?) RETURNING id"
        (number,) = self._connection.execute(insert, cells.pack_region(region)).fetchone()
        self._connection.execute("INSERT INTO vectors VALUES (?, ?)", (number, cells.pack_vector(region.x)))
        return int(number)

    def turn(self, basis: Basis, coordinates: Iterable[tuple[Sequence[int], Floats]]) -> None:
        _write_basis(self._connection, basis)
        for numbers, rows in coordinates:
            changes = ((cells.pack(z), number) for z, number in zip(rows, numbers, strict=True))
            self._connection.executemany("UPDATE regions SET coordinates = ? WHERE id = ?", changes)

    def size(self) -> int:
        """Bytes of the file, its journal merged."""
        with _errors(self._path, reading=True):
            return int(self._one("PRAGMA page_count")) * int(self._one("PRAGMA page_size"))

    def _one(self, statement: str) -> Any:
        return self._connection.execute(statement).fetchone()[0]


def _connect(path: Path, frozen: bool) -> tuple[sqlite3.Connection, str, Owner]:
    """Open a memory, and read which it is and whose."""
    before = path.stat().st_ino if is_regular(path) else None
    if before is None:
        raise RunError(f"{path} must be a memory; there is no such file")
    with _errors(path, reading=frozen):
        connection = _open_to_read(path) if frozen else _open(path, "rw")
        try:
            _refuse_others(path, connection)
            identity, owner = _read_owner(path, connection)
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        finally:
            _refuse_removed(path, before)
    return connection, identity, owner


def _refuse_removed(path: Path, number: int) -> None:
    """A memory that its maker discarded while it was being opened; once it has been read, `discard` leaves it."""
    if not path.exists() or path.stat().st_ino != number:
        raise RunError(f"{path} must stay where it is; it was removed by the process that made it")


def _write_basis(connection: sqlite3.Connection, basis: Basis) -> None:
    connection.execute("INSERT INTO basis (mean, directions) VALUES (?, ?)", cells.pack_basis(basis))


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
            raise RunError(f"{path} must be readable; got: {reason(error)}") from error
        raise OutputError(f"{path} must be writable; got: {reason(error)} (regions already stored are safe)") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite's own words may quote what is no text
        raise RunError(f"{path} must be a memory of smoothcert; got: {reason(error)}") from error


def _open(path: Path, mode: str, patience: float | None = None) -> sqlite3.Connection:
    address, wait = f"{path.resolve().as_uri()}?mode={mode}", PATIENCE if patience is None else patience
    return sqlite3.connect(address, uri=True, timeout=wait, isolation_level=None)


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Readers and writers do not wait for each other from now on. SQLite itself does not wait to be granted this."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


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


def _refuse_others(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse what is not a memory, or one of a later form, or has a view or a trigger where its tables should be."""
    guarded(connection)
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION:
        got = "another" if _tables(connection) else "an empty"
        raise RunError(f"{path} must be a memory of smoothcert; got {got} database")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != cells.VERSION:
        raise RunError(f"{path} must be a memory of version {cells.VERSION}; got version {version}")
    if wrong := other_tables(connection, SCHEMA):
        raise RunError(f"{path} must hold the tables of a memory and nothing else; {wrong}")
    connection.set_progress_handler(None, 0)  # plain tables end, and a memory may be open for days


def _read_owner(path: Path, connection: sqlite3.Connection) -> tuple[str, Owner]:
    with cells.damage(path, "owner"):
        return cells.read_first_rows(connection.execute("SELECT * FROM memory LIMIT 2").fetchall())


def _tables(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
