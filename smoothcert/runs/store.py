"""A run on disk: RUN/recipe.toml says what was asked, RUN/certificates.sqlite holds one row an input.

Rows are written as they come, in transactions that survive a kill (WAL, synchronous FULL). A run belongs to one writer
at a time, and to one question for ever.
"""

from __future__ import annotations

import contextlib
import fcntl
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from smoothcert.contracts import Norm
from smoothcert.errors import OutputError, RunError
from smoothcert.files import writing
from smoothcert.recipe import Question, Recipe, build
from smoothcert.runs import _packed, later
from smoothcert.runs.rows import Keeper, Record, Row

MODEL = "model"  # the folder of a run's composition, where it was made for that run
APPLICATION = 0x63657274  # "cert": marks the database as ours
COLUMNS = ("idx", "label", "predicted", "radius", "draws", "seconds", "clean", "low", "answers")
SCHEMA = """
CREATE TABLE IF NOT EXISTS certificates (
    idx INTEGER PRIMARY KEY, label INTEGER NOT NULL, predicted INTEGER NOT NULL, radius REAL NOT NULL,
    draws INTEGER NOT NULL, seconds REAL, clean INTEGER, low REAL, answers TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS run (fingerprint TEXT NOT NULL) STRICT;
"""
PATIENCE = 0.25  # seconds of work a kill may cost: rows are committed at least this often


class Store:
    """A run opened for writing. Use as a context; leaving it commits what is there, whatever happened."""

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        self.folder = folder
        self.recipe = recipe
        self._waiting: list[Row] = []
        self._committed = time.monotonic()

    def __enter__(self) -> Self:
        refuse_strangers(self.folder)
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(
                f"{self.folder} is being written by another process; wait for it or choose another --out"
            ) from error
        recipe_path = self.folder / "recipe.toml"
        if recipe_path.exists():
            _refuse_other_question(self.folder, Recipe.read(recipe_path).question, self.recipe.question)
        self._connection = _connect(self.folder / "certificates.sqlite", self.recipe.question.fingerprint)
        self.recipe.write(recipe_path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.commit()
        finally:
            self._connection.close()
            self._lock.close()

    def done(self) -> set[int]:
        """Indices that have their row."""
        return {index for (index,) in self._connection.execute("SELECT idx FROM certificates")}

    def add(self, row: Row) -> None:
        """Keep a row; it is on the disk after PATIENCE at the latest."""
        self._waiting.append(row)
        if time.monotonic() - self._committed > PATIENCE:
            self.commit()

    def commit(self) -> None:
        marks = ", ".join("?" * len(COLUMNS))
        with _database_errors(self.folder), self._connection:
            self._connection.executemany(
                f"INSERT INTO certificates VALUES ({marks})", map(_packed.values, self._waiting)
            )
            later.write_levels(self._connection, self._waiting)
            later.write_settlements(self._connection, self._waiting)
        self._waiting.clear()
        self._committed = time.monotonic()

    def belong(self, keeper: Keeper | None) -> None:
        """The memory that answers for this run, or none; refused if it is not the run's."""
        with _database_errors(self.folder), self._connection:
            later.claim(self._connection, self.folder, keeper)

    def rows(self) -> list[Row]:
        """All that is stored, by index."""
        self.commit()
        return _rows(self._connection, later.read(self._connection))

    def settle(self, row: Row) -> None:
        """What a memory answered for a row that is stored already; on the disk when this returns."""
        with _database_errors(self.folder), self._connection:
            later.write_settlements(self._connection, [row])


def read(folder: Path) -> Record:
    """A run as a value: recipe and rows by index."""
    recipe = Recipe.read(folder / "recipe.toml")
    path = folder / "certificates.sqlite"
    if not path.is_file():
        raise RunError(f"{folder} must hold certificates.sqlite; there is none")
    with _database_errors(folder, reading=True), contextlib.closing(_open_to_read(path)) as connection:
        _refuse_foreign(path, connection)
        (fingerprint,) = connection.execute("SELECT fingerprint FROM run").fetchone() or ("",)
        more = later.read(connection)
        rows = _rows(connection, more)
    if fingerprint != recipe.question.fingerprint:
        raise RunError(f"recipe.toml of {folder} must be the one its rows were made with; it has been changed")
    norm: Norm = build("noise", recipe.question.noise).norm
    kind: Literal["certify", "predict"] = (
        "predict" if str(recipe.question.procedure["name"]).endswith("predict") else "certify"
    )
    settings = {"question": _table(recipe.question), "means": _table(recipe.means)}
    if more.keeper is not None:
        settings["memory"] = {key: value for key, value in more.keeper._asdict().items() if value is not None}
        if more.keeper.order is not None and more.settlements:
            rows = [row for row in rows if row.settled is not None]  # the memory has not come to the others yet
    return Record(folder.name, kind, tuple(rows), settings, recipe.question.inputs, norm)


def _rows(connection: sqlite3.Connection, more: later.Later) -> list[Row]:
    found = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM certificates ORDER BY idx").fetchall()
    return [more.on(_packed.row_of(values)) for values in found]


def _table(value: Any) -> dict[str, Any]:
    import dataclasses

    return {key: item for key, item in dataclasses.asdict(value).items() if item is not None}


def _connect(path: Path, fingerprint: str) -> sqlite3.Connection:
    with _database_errors(path.parent):
        new = not path.exists()
        connection = sqlite3.connect(path, isolation_level="IMMEDIATE")
        if not new:
            _refuse_foreign(path, connection, empty_is_ours=True)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        with connection:
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            for statement in (SCHEMA + later.SCHEMA).split(";"):
                connection.execute(statement)
            if connection.execute("SELECT count(*) FROM run").fetchone() == (0,):
                connection.execute("INSERT INTO run VALUES (?)", (fingerprint,))
        return connection


def _open_to_read(path: Path) -> sqlite3.Connection:
    """Without write access a WAL database still opens, as an immutable file."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        connection.close()
        connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    return connection


def _refuse_foreign(path: Path, connection: sqlite3.Connection, empty_is_ours: bool = False) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION and not (empty_is_ours and tables == 0):
        connection.close()
        raise RunError(f"{path} must be a database of smoothcert; got another one")


def refuse_strangers(folder: Path) -> None:
    """A folder that holds something else is not written into; MODEL may come before the run itself."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} must be a folder for a run; got a file")
    if folder.is_dir() and not (folder / "recipe.toml").exists():
        others = [
            p.name
            for p in folder.iterdir()
            if p.name not in ("lock", MODEL) and not p.name.startswith((".recipe", "certificates"))
        ]
        if others:
            raise RunError(f"{folder} must be a run or a new folder; it holds other things, such as {others[0]}")


def _refuse_other_question(folder: Path, stored: Question, asked: Question) -> None:
    if stored.fingerprint != asked.fingerprint:
        differences = "; ".join(stored.differences(asked))
        raise RunError(f"{folder} answers another question ({differences}); choose another --out")


@contextlib.contextmanager
def _database_errors(folder: Path, reading: bool = False) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if reading:
            raise RunError(f"the database of {folder} cannot be read: {error}") from error
        raise OutputError(f"{folder} must be writable; got: {error} (rows already stored are safe)") from error
    except sqlite3.DatabaseError as error:
        raise RunError(
            f"certificates.sqlite of {folder} must be a database of smoothcert; it is damaged ({error})"
        ) from error
