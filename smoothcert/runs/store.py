"""A run on disk: RUN/recipe.toml says what was asked, RUN/certificates.sqlite holds one row an input.

Rows are written as they come, in transactions that survive a kill (WAL, synchronous FULL), each chained to what was
written before (`runs.chain`). A run belongs to one writer at a time, and to one question for ever. Answers are JSON
that leaves out what got no votes. The journal holds the recipe at each beginning and end, and names the run's memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from smoothcert import foreign
from smoothcert.classifiers import composite
from smoothcert.classifiers.composite import Composite
from smoothcert.errors import OutputError, RunError, reason
from smoothcert.files import writing
from smoothcert.runs import chain, commit
from smoothcert.runs.rows import COLUMNS, read_rows, row_values
from smoothcert.runs.run import INPUTS, MemoryRef, Row, Run, claim_of
from smoothcert.spec import Recipe, Spec

MODEL = "model"  # the folder of a run's composition, where it was made for that run
APPLICATION = 0x63657274  # "cert": marks the database as ours
SCHEMA = """
CREATE TABLE certificates (
    idx INTEGER PRIMARY KEY, label INTEGER NOT NULL, predicted INTEGER NOT NULL, radius REAL NOT NULL,
    draws INTEGER NOT NULL, seconds REAL, clean INTEGER, low REAL, sigma REAL, answers TEXT NOT NULL,
    attempt INTEGER NOT NULL, place INTEGER NOT NULL, link BLOB NOT NULL
) STRICT;
CREATE TABLE settlements (
    idx INTEGER PRIMARY KEY, predicted INTEGER NOT NULL, radius REAL NOT NULL, conflict TEXT, by INTEGER,
    stored INTEGER NOT NULL, seen INTEGER NOT NULL, place INTEGER NOT NULL, link BLOB NOT NULL
) STRICT;
CREATE TABLE journal (kind TEXT NOT NULL, about TEXT NOT NULL, place INTEGER NOT NULL, link BLOB NOT NULL) STRICT;
"""
PATIENCE = 0.25  # seconds of work a kill may cost: rows are committed at least this often
MOST_ENTRIES = 10**5  # in the journal: two an attempt
BEGIN, END, OF_MEMORY = "begin", "end", "memory"  # kinds of entries in the journal


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
            # A stranger's folder may hold a link in its place, or a FIFO: neither is followed, emptied or waited for.
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._lock = os.fdopen(os.open(self.folder / "lock", flags, 0o666), "wb", buffering=0)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(
                f"{self.folder} is being written by another process; wait for it or choose another --out"
            ) from error
        recipe_path = self.folder / "recipe.toml"
        self._new, self._told = not recipe_path.exists(), False
        if not self._new:
            begun = Recipe.read(recipe_path).spec
            _refuse_other_question(self.folder, begun, self.recipe.spec)
            self._told = begun.revealed  # a committed seed that is told stays so
        if self.whole is not None:
            composite.write(self.folder / MODEL, self.whole)
        self._connection = _connect(self.folder / "certificates.sqlite")
        if self._new and not self._without_recipe():
            commit.keep(self.recipe.spec, self.folder)
        with _database_errors(self.folder):
            (last,) = self._connection.execute("SELECT max(attempt) FROM certificates").fetchone()
            self._chain = chain.end_of(self._connection)
        self._attempt = 0 if last is None else last + 1
        self.write(self.recipe, BEGIN)
        return self

    def _without_recipe(self) -> bool:
        """Whether there are rows, but no recipe; they must be of this question.

        A kill before the first recipe was written leaves a journal of nothing, which goes.
        """
        if not self.done():
            with _database_errors(self.folder), self._connection:
                self._connection.execute("DELETE FROM journal")
            return False
        for begun in _journal(self._connection, BEGIN)[:1]:
            stored = Recipe.parse(begun, f"the journal of {self.folder}").spec
            _refuse_other_question(self.folder, stored, self.recipe.spec)
        return True

    def write(self, recipe: Recipe, kind: str) -> None:
        """The recipe as it is now, into the journal and then beside it: a kill in between leaves an earlier one."""
        self.commit()  # what came before the entry must stand before it
        shown = recipe if kind == END or self._told else replace(recipe, spec=recipe.spec.hidden)
        self._note(kind, shown.tables())
        shown.write(self.folder / "recipe.toml")

    def _note(self, kind: str, about: object) -> None:
        with self._transaction() as grown:
            values = grown.add("journal", (kind, json.dumps(about)))
            self._connection.execute("INSERT INTO journal VALUES (?, ?, ?, ?)", values)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[chain.Chain]:
        """All of what is done inside, or nothing; the chain grows only by what was done."""
        grown = replace(self._chain)
        with _database_errors(self.folder), self._connection:
            yield grown
        self._chain = grown

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.commit()
        finally:
            empty = self._new and error is not None and not self.done()
            with contextlib.suppress(sqlite3.OperationalError):  # somebody reads; then the journal stays beside it
                self._connection.execute("PRAGMA journal_mode=DELETE")  # one file, which needs no other to be read
            self._connection.close()
            if empty:
                self._remove()
            self._lock.close()

    def _remove(self) -> None:
        """A run that failed before its first row leaves nothing, so that the corrected command can begin it."""
        kept = [self.folder / MODEL] if self.whole is not None else []
        others = [self.folder / name for name in ("recipe.toml", "lock", commit.FILE)]
        for path in [*self.folder.glob("certificates.sqlite*"), *others]:
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
        with self._transaction() as grown:
            marks = ", ".join("?" * (len(COLUMNS) + 2))
            rows = [grown.add("certificates", row_values(row)) for row in self._waiting]
            self._connection.executemany(f"INSERT INTO certificates VALUES ({marks})", rows)
            self._settle(grown, self._waiting)
        self._waiting.clear()
        self._committed = time.monotonic()

    def belong(self, memory: MemoryRef | None) -> None:
        """The memory that answers for this run, or none; refused if it is not the run's.

        A run is given to a memory for ever. One that has rows already may still be given to a memory that admits them.
        """
        with _database_errors(self.folder):
            stored = _memory(self._connection)
        if stored is None and memory is not None and memory.frozen and self.done():
            raise RunError(
                f"{self.folder} must be new if a memory is to answer first; it holds rows. Choose another --out"
            )
        if stored is not None and memory is None:
            raise RunError(
                f"{self.folder} is a run with a memory, {stored.place}: give it as --memory, or choose another --out"
            )
        if stored is not None and memory is not None and not stored.same(memory):
            raise RunError(f"{self.folder} is a run with {_words(stored)}; got {_words(memory)}. Choose another --out")
        if memory is not None and memory != stored:
            self._note(OF_MEMORY, memory._asdict())

    def rows(self) -> list[Row]:
        """All that is stored, by index."""
        self.commit()
        return read_rows(self._connection)

    def settle(self, row: Row) -> None:
        """What a memory answered for a row that is stored already; on the disk when this returns."""
        with self._transaction() as grown:
            self._settle(grown, [row])

    def _settle(self, grown: chain.Chain, rows: list[Row]) -> None:
        settled = [(row.index, row.predicted, row.radius, *row.settled[2:]) for row in rows if row.settled is not None]
        values = [grown.add("settlements", (*each[:5], int(each[5]), each[6])) for each in settled]
        self._connection.executemany("INSERT INTO settlements VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)


def read(folder: Path) -> Run:
    """A run as a value: what was asked, and its rows by index."""
    recipe = Recipe.read(folder / "recipe.toml")
    with opened(folder) as connection:
        began = _journal(connection, BEGIN)
        memory, rows = _memory(connection), read_rows(connection)
    spec = recipe.spec
    if not began or Recipe.parse(began[0], f"the journal of {folder}").spec.fingerprint != spec.fingerprint:
        raise RunError(f"recipe.toml of {folder} must be the one its rows were made with; it has been changed")
    answered = any(row.settled is not None for row in rows)
    if memory is not None and not memory.frozen and answered:
        rows = [row for row in rows if row.settled is not None]  # the memory has not come to the others yet
    return Run(
        name=folder.name, kind="predict" if spec.kind == "predict" else "certify", rows=tuple(rows), inputs=spec.inputs,
        claim=claim_of(spec, memory, answered), folder=folder, spec=spec, means=recipe.means, memory=memory,
    )  # fmt: skip


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[sqlite3.Connection]:
    """The database of a run, to be read; refused in one line where it is not one, whatever else it is."""
    path = folder / "certificates.sqlite"
    if not foreign.is_regular(path):
        raise RunError(f"{folder} must hold certificates.sqlite; there is none")
    with _database_errors(folder, reading=True), contextlib.closing(foreign.open_to_read(path)) as connection:
        _refuse_foreign(path, connection)
        yield connection


def recorded(folder: Path) -> list[dict[str, Any]]:
    """The recipe as the journal has it: at every beginning and end of an attempt, in order."""
    with opened(folder) as connection:
        return _journal(connection, BEGIN, END)


def links(folder: Path) -> tuple[list[str], chain.Chain]:
    """Where the chain of a run does not hold, a line each, and its end."""
    with opened(folder) as connection:
        return chain.broken(chain.entries(connection))


def _journal(connection: sqlite3.Connection, *kinds: str) -> list[dict[str, Any]]:
    """What the journal says, in order, in entries of these kinds."""
    found = connection.execute("SELECT kind, about FROM journal ORDER BY place LIMIT ?", (MOST_ENTRIES,)).fetchall()
    entries = [foreign.parse_json(about, "an entry of a run's journal") for kind, about in found if kind in kinds]
    if any(not isinstance(entry, dict) for entry in entries):
        raise RunError("an entry of a run's journal must be a table; got something else")
    return entries


def is_complete(folder: Path, spec: Spec) -> bool:
    """Whether every input has its row and no memory answers for them; refused where another question was asked."""
    if not (folder / "recipe.toml").exists() or not (folder / "certificates.sqlite").exists():
        return False
    _refuse_other_question(folder, Recipe.read(folder / "recipe.toml").spec, spec)
    run = read(folder)
    return run.memory is None and len(run.rows) == spec.inputs and run.asked.revealed


def _memory(connection: sqlite3.Connection) -> MemoryRef | None:
    found = _journal(connection, OF_MEMORY)
    try:
        return foreign.typed(MemoryRef, found[-1], "memory") if found else None
    except (TypeError, ValueError) as error:
        raise RunError(f"the memory of a run must be named in its journal; it is damaged ({error})") from error


def _words(memory: MemoryRef) -> str:
    how = f"frozen at {memory.regions} regions" if memory.frozen else f"order {memory.order}"
    return f"memory {memory.place} ({memory.identity[:8]}, {how})"


def _connect(path: Path) -> sqlite3.Connection:
    """Opened to be written; made where there is none."""
    with _database_errors(path.parent):
        new = not path.exists()
        connection = sqlite3.connect(path, isolation_level="IMMEDIATE")
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not new and tables:
            _refuse_foreign(path, connection)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        if not tables:
            with connection:
                connection.execute(f"PRAGMA application_id={APPLICATION}")
                for statement in SCHEMA.split(";"):
                    connection.execute(statement)
        return connection


def _refuse_foreign(path: Path, connection: sqlite3.Connection) -> None:
    """Exactly our tables: a view or a trigger in their place could answer anything, or never end."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION:
        raise RunError(f"{path} must be a database of smoothcert; got another one")
    if other := foreign.other_tables(connection, SCHEMA):
        raise RunError(f"{path} must hold the tables of a run and nothing else; {other}")


def refuse_strangers(folder: Path) -> None:
    """A folder that holds something else is not written into; MODEL may come before the run itself."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} must be a folder for a run; got a file")
    if folder.is_dir() and not (folder / "recipe.toml").exists():
        others = [
            p.name
            for p in folder.iterdir()
            if p.name not in ("lock", MODEL, INPUTS, commit.FILE) and not p.name.startswith((".recipe", "certificates"))
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
            raise RunError(f"the database of {folder} cannot be read: {reason(error)}") from error
        raise OutputError(f"{folder} must be writable; got: {reason(error)} (rows already stored are safe)") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite's own words may quote what is no text
        raise RunError(
            f"certificates.sqlite of {folder} must be a database of smoothcert; it is damaged ({reason(error)})"
        ) from error
