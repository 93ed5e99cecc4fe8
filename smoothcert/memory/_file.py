"""The SQLite file of a memory: made, opened, refused, and its errors in plain words."""

from __future__ import annotations

import contextlib
import json
import math
import secrets
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from smoothcert.contracts import Norm
from smoothcert.errors import OptionError, OutputError, RunError, SmoothcertError, unknown
from smoothcert.memory import _basis
from smoothcert.memory._basis import Basis

APPLICATION = 0x6365726D  # "cerm": marks the database as a memory
VERSION = 2  # of the tables
PATIENCE = 60.0  # seconds to wait for another process's transaction
NORMS = ("l1", "l2")
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

    @property
    def dim(self) -> int:
        return math.prod(self.shape)


def create(path: Path, owner: Owner) -> None:
    """Make an empty memory, all of it or nothing; a file that is already one is refused."""
    with database_errors(path), contextlib.closing(sqlite3.connect(path, timeout=PATIENCE)) as connection:
        connection.isolation_level = None
        if _tables(connection) == 0:
            connection.execute("PRAGMA journal_mode=WAL")
        with transaction(connection, "IMMEDIATE"):
            if _tables(connection):
                raise OutputError(f"{path} must not exist yet; got a database that is in use")
            for statement in SCHEMA.split(";"):
                connection.execute(statement)
            values = (secrets.token_hex(16), owner.classifier, owner.norm, json.dumps(list(owner.shape)))
            connection.execute("INSERT INTO memory VALUES (?, ?, ?, ?)", values)
            write_basis(connection, _basis.random(owner.dim))
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={VERSION}")


def connect(path: Path, frozen: bool) -> tuple[sqlite3.Connection, str, Owner]:
    """Open a memory, and read which it is and whose."""
    if not path.is_file():
        raise RunError(f"{path} must be a memory; there is no such file")
    with database_errors(path, reading=frozen):
        connection = _open_to_read(path) if frozen else _open(path, "rw")
        try:
            identity, owner = _read_owner(path, connection)
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
    return connection, identity, owner


def write_basis(connection: sqlite3.Connection, basis: Basis) -> None:
    values = [part.astype("<f8").tobytes() for part in (basis.mean, basis.directions)]
    connection.execute("INSERT INTO basis (mean, directions) VALUES (?, ?)", values)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
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
def database_errors(path: Path, reading: bool = False) -> Iterator[None]:
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
def damage(path: Path, what: str) -> Iterator[None]:
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
    with damage(path, "owner"):
        identity, classifier, norm, shape = connection.execute("SELECT * FROM memory").fetchone()
        return str(identity), Owner(classifier, norm, tuple(json.loads(shape)))


def _tables(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
