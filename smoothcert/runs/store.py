"""A run on disk: RUN/recipe.toml says what was asked, RUN/certificates.sqlite holds one row an input.

Rows are written as they come, in transactions that survive a kill (WAL, synchronous FULL). A run belongs to one writer
at a time, and to one question for ever. Answers are JSON that leaves out what got no votes; the tables of
noise levels, of a memory, and of what that memory answered may be empty.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from smoothcert.classifiers import composite
from smoothcert.classifiers.composite import Composite
from smoothcert.contracts import Answer
from smoothcert.errors import OutputError, RunError
from smoothcert.files import writing
from smoothcert.runs.run import BeforeMemory, MemoryRef, Row, Run, claim_of
from smoothcert.spec import Recipe, Spec

MODEL = "model"  # the folder of a run's composition, where it was made for that run
APPLICATION = 0x63657274  # "cert": marks the database as ours
COLUMNS = ("idx", "label", "predicted", "radius", "draws", "seconds", "clean", "low", "answers", "attempt")
SCHEMA = """
CREATE TABLE IF NOT EXISTS certificates (
    idx INTEGER PRIMARY KEY, label INTEGER NOT NULL, predicted INTEGER NOT NULL, radius REAL NOT NULL,
    draws INTEGER NOT NULL, seconds REAL, clean INTEGER, low REAL, answers TEXT NOT NULL, attempt INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS run (fingerprint TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS levels (idx INTEGER PRIMARY KEY, sigma REAL NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS memory (identity TEXT NOT NULL, place TEXT NOT NULL, sequence TEXT, regions INTEGER) STRICT;
CREATE TABLE IF NOT EXISTS settlements (
    idx INTEGER PRIMARY KEY, predicted INTEGER NOT NULL, radius REAL NOT NULL,
    conflict TEXT, by INTEGER, stored INTEGER NOT NULL, seen INTEGER NOT NULL
) STRICT;
"""
PATIENCE = 0.25  # seconds of work a kill may cost: rows are committed at least this often
MANY = 12  # outcomes with votes from which on a column without wide gaps is stored as a histogram: half as long


class RunStore:
    """A run opened for writing. Use as a context; leaving it commits what is there, whatever happened."""

    def __init__(self, folder: Path, recipe: Recipe, whole: Composite | None = None) -> None:
        self.folder = folder
        self.recipe = recipe
        self.whole = whole  # of several networks, described in the run's own folder
        self._waiting: list[Row] = []
        self._committed = time.monotonic()

    def __enter__(self) -> Self:
        refuse_strangers(self.folder)
        self._made = not self.folder.exists()
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
        self._new = not recipe_path.exists()
        if not self._new:
            _refuse_other_question(self.folder, Recipe.read(recipe_path).spec, self.recipe.spec)
        if self.whole is not None:
            composite.write(self.folder / MODEL, self.whole)
        self._connection = _connect(self.folder / "certificates.sqlite", self.recipe.spec.fingerprint)
        with _database_errors(self.folder):
            (last,) = self._connection.execute("SELECT max(attempt) FROM certificates").fetchone()
        self._attempt = 0 if last is None else last + 1
        self.recipe.write(recipe_path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.commit()
        finally:
            empty = self._new and isinstance(error, Exception) and not self.done()
            self._connection.close()
            if empty:
                self._remove()
            self._lock.close()

    def _remove(self) -> None:
        """A run that failed before its first row leaves nothing, so that the corrected command can begin it."""
        kept = [self.folder / MODEL] if self.whole is not None else []
        for path in [*self.folder.glob("certificates.sqlite*"), self.folder / "recipe.toml", self.folder / "lock"]:
            path.unlink(missing_ok=True)
        for folder in kept:
            (folder / composite.FILE).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # something else lies there
            for folder in [*kept, *([self.folder] if self._made else [])]:
                folder.rmdir()

    def done(self) -> set[int]:
        """Indices that have their row."""
        return {index for (index,) in self._connection.execute("SELECT idx FROM certificates")}

    def add(self, row: Row) -> None:
        """Keep a row; it is on the disk after PATIENCE at the latest."""
        self._waiting.append(replace(row, attempt=self._attempt))
        if time.monotonic() - self._committed > PATIENCE:
            self.commit()

    def commit(self) -> None:
        levels = [(row.index, row.sigma) for row in self._waiting if row.sigma is not None]
        with _database_errors(self.folder), self._connection:
            marks = ", ".join("?" * len(COLUMNS))
            rows = map(row_values, self._waiting)
            self._connection.executemany(f"INSERT INTO certificates VALUES ({marks})", rows)
            self._connection.executemany("INSERT INTO levels VALUES (?, ?)", levels)
            self._settle(self._waiting)
        self._waiting.clear()
        self._committed = time.monotonic()

    def belong(self, memory: MemoryRef | None) -> None:
        """The memory that answers for this run, or none; refused if it is not the run's.

        A run is given to a memory for ever. One that has rows already may still be given to a memory that admits them.
        """
        with _database_errors(self.folder), self._connection as connection:
            stored = _memory(connection)
            if stored is None and memory is not None:
                if memory.frozen and self.done():
                    raise RunError(
                        f"{self.folder} must be new if a memory is to answer first; it holds rows. Choose another --out"
                    )
                connection.execute("INSERT INTO memory VALUES (?, ?, ?, ?)", memory)
            elif stored is not None and memory is None:
                raise RunError(
                    f"{self.folder} is a run with a memory, {stored.place}: give it as --memory, or "
                    "choose another --out"
                )
            elif stored is not None and memory is not None:
                if not stored.same(memory):
                    raise RunError(
                        f"{self.folder} is a run with {_words(stored)}; got {_words(memory)}. Choose another --out"
                    )
                connection.execute("UPDATE memory SET place = ?", (memory.place,))

    def rows(self) -> list[Row]:
        """All that is stored, by index."""
        self.commit()
        return _rows(self._connection)

    def settle(self, row: Row) -> None:
        """What a memory answered for a row that is stored already; on the disk when this returns."""
        with _database_errors(self.folder), self._connection:
            self._settle([row])

    def _settle(self, rows: list[Row]) -> None:
        values = [(row.index, row.predicted, row.radius, *row.settled[2:]) for row in rows if row.settled is not None]
        self._connection.executemany("INSERT INTO settlements VALUES (?, ?, ?, ?, ?, ?, ?)", values)


def read(folder: Path) -> Run:
    """A run as a value: what was asked, and its rows by index."""
    recipe = Recipe.read(folder / "recipe.toml")
    path = folder / "certificates.sqlite"
    if not path.is_file():
        raise RunError(f"{folder} must hold certificates.sqlite; there is none")
    with _database_errors(folder, reading=True), contextlib.closing(_open_to_read(path)) as connection:
        _refuse_foreign(path, connection)
        (fingerprint,) = connection.execute("SELECT fingerprint FROM run").fetchone() or ("",)
        memory, rows = _memory(connection), _rows(connection)
    spec = recipe.spec
    if fingerprint != spec.fingerprint:
        raise RunError(f"recipe.toml of {folder} must be the one its rows were made with; it has been changed")
    answered = any(row.settled is not None for row in rows)
    if memory is not None and not memory.frozen and answered:
        rows = [row for row in rows if row.settled is not None]  # the memory has not come to the others yet
    return Run(
        name=folder.name, kind="predict" if spec.kind == "predict" else "certify", rows=tuple(rows), inputs=spec.inputs,
        claim=claim_of(spec, memory, answered), folder=folder, spec=spec, means=recipe.means, memory=memory,
    )  # fmt: skip


def is_complete(folder: Path, spec: Spec) -> bool:
    """Whether every input has its row and no memory answers for them; refused where another question was asked."""
    if not (folder / "recipe.toml").exists() or not (folder / "certificates.sqlite").exists():
        return False
    _refuse_other_question(folder, Recipe.read(folder / "recipe.toml").spec, spec)
    run = read(folder)
    return run.memory is None and len(run.rows) == spec.inputs


def row_values(row: Row) -> tuple[Any, ...]:
    """A row's columns, in the order of the table's."""
    answers = [
        [purpose, draws, len(counts[0]), [_sparse(column) for column in counts]]
        for purpose, draws, counts in row.answers
    ]
    row = row.smoothed
    return (
        row.index, row.label, row.predicted, row.radius, row.draws, row.seconds, row.clean, row.low,
        json.dumps(answers, separators=(",", ":")), row.attempt,
    )  # fmt: skip


def _rows(connection: sqlite3.Connection) -> list[Row]:
    """Every row with its own noise level, and with what a memory answered for it."""
    levels = dict(connection.execute("SELECT idx, sigma FROM levels"))
    settlements = {values[0]: values[1:] for values in connection.execute("SELECT * FROM settlements")}
    rows = []
    for values in connection.execute(f"SELECT {', '.join(COLUMNS)} FROM certificates ORDER BY idx").fetchall():
        row = replace(_row_of(values), sigma=levels.get(values[0]))
        if row.index in settlements:
            predicted, radius, conflict, by, stored, seen = settlements[row.index]
            before = BeforeMemory(row.predicted, row.radius, conflict, by, bool(stored), seen)
            row = replace(row, predicted=predicted, radius=radius, settled=before)
        rows.append(row)
    return rows


def _row_of(values: tuple[Any, ...]) -> Row:
    """The row that such columns are."""
    index, label, predicted, radius, draws, seconds, clean, low, stored, attempt = values
    try:
        answers = tuple(
            Answer(purpose, draws, tuple(_dense(column, outcomes) for column in columns))
            for purpose, draws, outcomes, columns in json.loads(stored)
        )
    except (ValueError, TypeError, IndexError) as error:
        raise RunError(f"answers of input {index} must be readable; they are damaged ({error})") from error
    return Row(index, label, predicted, radius, draws, seconds, clean, low, answers, attempt=attempt)


def _sparse(column: tuple[int, ...]) -> list[Any]:
    """Pairs of outcome and votes; of a histogram its first outcome, then all votes to the last one that has any."""
    pairs = [[i, votes] for i, votes in enumerate(column) if votes]
    if len(pairs) < MANY or pairs[-1][0] - pairs[0][0] >= 2 * len(pairs):
        return pairs
    return [pairs[0][0], *column[pairs[0][0] : pairs[-1][0] + 1]]


def _dense(stored: list[Any], outcomes: int) -> tuple[int, ...]:
    counts = [0] * outcomes
    if stored and isinstance(stored[0], int):
        counts[stored[0] : stored[0] + len(stored) - 1] = stored[1:]
        if len(counts) > outcomes:
            raise IndexError("a histogram is too long")
        return tuple(counts)
    for outcome, votes in stored:
        counts[outcome] = votes
    return tuple(counts)


def _memory(connection: sqlite3.Connection) -> MemoryRef | None:
    values = connection.execute("SELECT identity, place, sequence, regions FROM memory").fetchone()
    return None if values is None else MemoryRef(*values)


def _words(memory: MemoryRef) -> str:
    how = f"frozen at {memory.regions} regions" if memory.frozen else f"order {memory.order}"
    return f"memory {memory.place} ({memory.identity[:8]}, {how})"


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
            for statement in SCHEMA.split(";"):
                connection.execute(statement)
            if connection.execute("SELECT count(*) FROM run").fetchone() == (0,):
                connection.execute("INSERT INTO run VALUES (?)", (fingerprint,))
        return connection


def _open_to_read(path: Path) -> sqlite3.Connection:
    """Without write access a WAL database still opens, as an immutable file."""
    address = f"{path.resolve().as_uri()}?mode=ro"
    connection = sqlite3.connect(address, uri=True)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        connection.close()
        connection = sqlite3.connect(f"{address}&immutable=1", uri=True)
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


def _refuse_other_question(folder: Path, stored: Spec, asked: Spec) -> None:
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
