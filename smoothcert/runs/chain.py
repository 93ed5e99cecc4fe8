"""Every entry of a run is chained to the one before: what is changed afterwards shows without drawing anything again.

    link 0      the hash of this format's name
    link i      sha256(link i−1, what entry i says)

Entries are rows, what a memory made of them, and the journal: what was asked and by which means, at the beginning of
every attempt and at the end of those that came to it. The last link stands for all of it, and is what a signature
signs. Without a signature the chain shows care, not origin: whoever changes an entry may write all links after it anew.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

FIRST = hashlib.sha256(b"smoothcert run 3").digest()
TABLES = ("certificates", "settlements", "journal")


class Entry(NamedTuple):
    """What a run's database says at one place."""

    place: int  # from 1 on, in the order of writing
    table: str
    values: tuple[Any, ...]  # but for place and link
    link: bytes

    @property
    def name(self) -> str:
        """What a reader calls it."""
        words = {"certificates": "the row of input", "settlements": "the memory's answer for input", "journal": "entry"}
        return f"{words[self.table]} {self.place if self.table == 'journal' else self.values[0]}"


def linked(link: bytes, table: str, values: Sequence[Any]) -> bytes:
    """The link that follows, for an entry that says this."""
    return hashlib.sha256(link + json.dumps([table, *values]).encode()).digest()


@dataclass
class Chain:
    """The end of a chain, which grows."""

    place: int = 0
    link: bytes = field(default=FIRST)

    def add(self, table: str, values: Sequence[Any]) -> tuple[Any, ...]:
        """The entry's values with its place and link, as the table holds them."""
        self.place, self.link = self.place + 1, linked(self.link, table, values)
        return (*values, self.place, self.link)


def end_of(connection: sqlite3.Connection) -> Chain:
    """Where a run's chain ends now."""
    ends = [
        found
        for table in TABLES
        if (found := connection.execute(f"SELECT place, link FROM {table} ORDER BY place DESC LIMIT 1").fetchone())
    ]
    return Chain(*max(ends)) if ends else Chain()


def entries(connection: sqlite3.Connection) -> Iterator[Entry]:
    """All of them, in the order of writing."""

    def of(table: str) -> Iterator[Entry]:
        # place and link are the last columns of every table.
        for *values, place, link in connection.execute(f"SELECT * FROM {table} ORDER BY place"):
            yield Entry(place, table, tuple(values), link)

    return heapq.merge(*map(of, TABLES), key=lambda entry: entry.place)


def broken(found: Iterator[Entry]) -> tuple[list[str], Chain]:
    """Where the chain does not hold, a line each, and its end."""
    problems, chain = list[str](), Chain()
    for entry in found:
        if entry.place != chain.place + 1:
            gap = f"entries {chain.place + 1} to {entry.place - 1} are" if entry.place > chain.place else "entries are"
            problems.append(f"the run's chain is broken: {gap} {'missing' if entry.place > chain.place else 'doubled'}")
        elif linked(chain.link, entry.table, entry.values) != entry.link:
            problems.append(f"the run's chain is broken: {entry.name} is not as it was written")
        chain = Chain(entry.place, entry.link)
    return problems, chain
