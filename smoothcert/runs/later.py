"""Tables that a run may lack: noise levels of inputs, the memory that answers for it, and what that memory answered."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from smoothcert.errors import RunError
from smoothcert.runs.rows import Keeper, Row, Settled

SCHEMA = """
CREATE TABLE IF NOT EXISTS levels (idx INTEGER PRIMARY KEY, sigma REAL NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS memory (identity TEXT NOT NULL, place TEXT NOT NULL, sequence TEXT, regions INTEGER) STRICT;
CREATE TABLE IF NOT EXISTS settlements (
    idx INTEGER PRIMARY KEY, predicted INTEGER NOT NULL, radius REAL NOT NULL,
    conflict TEXT, by INTEGER, stored INTEGER NOT NULL, seen INTEGER NOT NULL
) STRICT;
"""


class Later(NamedTuple):
    """What these tables hold, by index of the input."""

    levels: dict[int, float]
    keeper: Keeper | None
    settlements: dict[int, tuple[Any, ...]]

    def on(self, row: Row) -> Row:
        """A row with what was added to it."""
        row = replace(row, sigma=self.levels.get(row.index))
        if row.index not in self.settlements:
            return row
        predicted, radius, conflict, by, stored, seen = self.settlements[row.index]
        settled = Settled(row.predicted, row.radius, conflict, by, bool(stored), seen)
        return replace(row, predicted=predicted, radius=radius, settled=settled)


def read(connection: sqlite3.Connection) -> Later:
    """Whatever there is of it."""
    keeper = [Keeper(*values) for values in _table(connection, "memory")]
    settlements = {values[0]: values[1:] for values in _table(connection, "settlements")}
    return Later(dict(_table(connection, "levels")), keeper[0] if keeper else None, settlements)


def write_levels(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    levels = [(row.index, row.sigma) for row in rows if row.sigma is not None]
    connection.executemany("INSERT INTO levels VALUES (?, ?)", levels)


def write_settlements(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    """What the memory answered for those of these rows that it did."""
    values = [(row.index, row.predicted, row.radius, *row.settled[2:]) for row in rows if row.settled is not None]
    connection.executemany("INSERT INTO settlements VALUES (?, ?, ?, ?, ?, ?, ?)", values)


def claim(connection: sqlite3.Connection, folder: object, keeper: Keeper | None) -> None:
    """Give a run to a memory for ever; one that has rows already may still be given to a memory that admits them."""
    stored = read(connection).keeper
    if stored is None and keeper is not None:
        if keeper.order is None and connection.execute("SELECT count(*) FROM certificates").fetchone() != (0,):
            raise RunError(f"{folder} must be new if a memory is to answer first; it holds rows. Choose another --out")
        connection.execute("INSERT INTO memory VALUES (?, ?, ?, ?)", keeper)
    elif stored is not None and keeper is None:
        raise RunError(f"{folder} is a run with a memory, {stored.place}: give it as --memory, or choose another --out")
    elif stored is not None and keeper is not None:
        if not stored.same(keeper):
            raise RunError(f"{folder} is a run with {_words(stored)}; got {_words(keeper)}. Choose another --out")
        connection.execute("UPDATE memory SET place = ?", (keeper.place,))


def _words(keeper: Keeper) -> str:
    how = f"order {keeper.order}" if keeper.regions is None else f"frozen at {keeper.regions} regions"
    return f"memory {keeper.place} ({keeper.identity[:8]}, {how})"


def _table(connection: sqlite3.Connection, name: str) -> list[tuple[Any, ...]]:
    there = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (name,)).fetchone() == (1,)
    return connection.execute(f"SELECT * FROM {name}").fetchall() if there else []
