"""What a forger does to a run: rows, recipe and journal edited, and the chain written anew so that all agree."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomli_w

from smoothcert.runs import chain


def sql(folder: Path, statement: str, *values: Any, changed: int | None = 1) -> None:
    """Change the database of a run; so many rows must be hit, or any number."""
    with contextlib.closing(sqlite3.connect(folder / "certificates.sqlite")) as connection, connection:
        count = connection.execute(statement, values).rowcount
        assert changed is None or count == changed, f"{statement}: {count} rows"


def value(folder: Path, statement: str, *values: Any) -> Any:
    with contextlib.closing(sqlite3.connect(folder / "certificates.sqlite")) as connection:
        return connection.execute(statement, values).fetchone()[0]


def answers(folder: Path, index: int) -> list[Any]:
    return json.loads(value(folder, "SELECT answers FROM certificates WHERE idx=?", index))


def recipe(folder: Path, change: Callable[[dict[str, Any]], None], journal: bool = True) -> None:
    """Change the recipe, and with it what the journal says of it."""
    path = folder / "recipe.toml"
    table = tomllib.loads(path.read_text())
    change(table)
    path.write_text(tomli_w.dumps(table))
    if not journal:
        return
    with contextlib.closing(sqlite3.connect(folder / "certificates.sqlite")) as connection, connection:
        for number, about in connection.execute("SELECT rowid, about FROM journal WHERE kind != 'memory'").fetchall():
            told = json.loads(about)
            change(told)
            connection.execute("UPDATE journal SET about=? WHERE rowid=?", (json.dumps(told), number))


def rechain(folder: Path) -> None:
    """Write every place and link anew: whoever can change a run can do that too."""
    with contextlib.closing(sqlite3.connect(folder / "certificates.sqlite")) as connection, connection:
        found, end = list(chain.entries(connection)), chain.Chain()
        for entry in found:
            key = "place" if entry.table == "journal" else "idx"
            name = entry.place if entry.table == "journal" else entry.values[0]
            *_, place, link = end.add(entry.table, entry.values)
            # Places only fall, so that none is taken twice on the way.
            connection.execute(f"UPDATE {entry.table} SET place=?, link=? WHERE {key}=?", (place, link, name))
