"""Regions in a PostgreSQL database: one memory for processes on several machines.

A memory is a schema with the tables that `sqlite.py` has. An admission locks the table `memory` before it looks, so
that nobody decides on less than all that is stored; readers do not wait. It is on the server's disk when it returns.
`link.py` says what becomes of it when the connection breaks off.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import numpy as np

from smoothcert.contracts import Floats
from smoothcert.errors import OutputError, RunError
from smoothcert.foreign import WHOLE
from smoothcert.memory import address, cells
from smoothcert.memory.address import Address
from smoothcert.memory.index import Balls, Basis
from smoothcert.memory.link import READ, WRITE, Connected, Link, refusals
from smoothcert.memory.regions import Accept, MemoryStore, NewRegion, Owner, Vector

CHUNK = 1024  # rows at a time: bounds memory, not results
APPLICATION = 0x6365726D  # "cerm": the advisory locks of who has a memory open
MARK = f"smoothcert memory, version {cells.VERSION}"  # the schema's comment
TABLES = {
    "memory": "identity text not null, classifier text not null, norm text not null, shape text not null",
    "basis": "id bigint not null, mean bytea not null, directions bytea not null",
    "regions": "id bigint not null, label bigint not null, radius double precision not null, "
    "certified double precision not null, coordinates bytea not null",
    "vectors": "id bigint not null, x bytea not null",
}
FOUND = """
SELECT relname, relkind = 'r' AND NOT (relhastriggers OR relhasrules OR relrowsecurity OR relhassubclass),
    (SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || CASE WHEN attnotnull THEN ' not null'
         ELSE '' END || attgenerated::text, ', ' ORDER BY attnum)
     FROM pg_attribute WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped)
FROM pg_class WHERE relnamespace = %s AND relkind NOT IN ('i', 't')
"""


class PostgresStore(MemoryStore):
    """An open memory."""

    def __init__(self, link: Link, place: str, identity: str, owner: Owner) -> None:
        self._link, self.place, self.identity, self.owner = link, place, identity, owner
        self._most = 0  # the highest number that was seen committed
        self._kept: dict[int, bytes] = {}  # what the transaction has written so far

    @classmethod
    def open(cls, at: Address, frozen: bool) -> Self:
        connection, identity, owner = _connect(at, frozen)

        def again() -> Connected:
            other, *whose = _connect(at, frozen)
            if whose != [identity, owner]:
                other.close()
                raise RunError(f"{at.shown} must be the memory it was, {identity[:8]}; got another one")
            return other

        return cls(Link(at.shown, connection, again), at.shown, identity, owner)

    @classmethod
    def make(cls, at: Address, contents: cells.Contents, accept: Accept) -> bool:
        """Make a memory, all of it or nothing. False: a schema of that name is there already, and stays as it is."""
        from psycopg import errors

        link = Link(at.shown, at.connect())
        made = cls(link, at.shown, contents.identity, contents.owner)
        with contextlib.closing(made):
            try:
                with link.transaction(WRITE):
                    link.run(f'CREATE SCHEMA "{at.name}"')
                    made._fill(contents)
                    accept(made)
                    link.run(f"COMMENT ON SCHEMA \"{at.name}\" IS '{MARK}'")
            except OutputError as error:
                if isinstance(error.__cause__, errors.DuplicateSchema | errors.UniqueViolation):
                    return False
                raise
        return True

    @staticmethod
    def discard(at: Address) -> None:
        """Remove a memory without regions, unless somebody else has it open."""
        import psycopg

        with contextlib.suppress(psycopg.Error, RunError), contextlib.closing(at.connect()) as connection:
            number, mark = _schema(connection, at)
            with connection.transaction():
                alone = f"SELECT pg_try_advisory_xact_lock({APPLICATION}, %s::bigint::oid::int)"
                if (
                    mark == MARK
                    and connection.execute(alone, (number,)).fetchone() == (True,)
                    and connection.execute("SELECT count(*) FROM regions").fetchone() == (0,)
                ):
                    connection.execute(f'DROP SCHEMA "{at.name}" CASCADE')

    def close(self) -> None:
        self._link.close()

    def reading(self) -> contextlib.AbstractContextManager[None]:
        return self._link.transaction(READ)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        self._kept = {}
        try:
            with self._link.transaction(_locked(), self._took_place):
                yield
        finally:
            self._kept = {}

    def _took_place(self) -> bool:
        """Whether all that was written is there. The lock is granted as soon as the session that broke off is over."""
        columns = "id, label, radius, certified, x"
        ask = f"SELECT {columns} FROM regions JOIN vectors USING (id) WHERE id = ANY(%s)"
        with self._link.transaction(_locked()):
            found = self._link.rows(ask, list(self._kept)) if self._kept else []
        return {number: _digest(*values) for number, *values in found} == self._kept

    def stamp(self) -> int:
        ((regions, bases),) = self._link.rows(
            "SELECT (SELECT coalesce(max(id), 0) FROM regions), (SELECT coalesce(max(id), 0) FROM basis)"
        )
        if regions < self._most:
            raise RunError(f"{self.place} must hold the {self._most} regions it held before; got {regions}: "
                           "an older state of the database was restored")  # fmt: skip
        if not self._kept:
            self._most = regions
        return int(regions) << 16 | int(bases)

    def directions(self, known: int) -> tuple[int, Basis] | None:
        ((number,),) = self._link.rows("SELECT coalesce(max(id), 0) FROM basis")
        if number == known:
            return None
        found = self._link.rows("SELECT mean, directions FROM basis WHERE id = %s", number)
        with cells.damage(self.place, "directions"):
            ((mean, directions),) = found
            return int(number), cells.read_basis(mean, directions, self.owner.dim)

    def regions(self, after: int) -> Iterator[tuple[Balls, Floats]]:
        columns, lowest = "id, label, radius, certified, coordinates", after or -WHOLE
        ask = f"SELECT {columns} FROM regions WHERE id > %s ORDER BY id LIMIT {CHUNK}"
        while rows := self._link.rows(ask, lowest):
            with cells.damage(self.place, f"regions after {after}"):
                found = cells.read_regions(rows, after, self.owner.dim)
            yield found
            lowest = after = after + len(rows)

    def vectors(self, numbers: Sequence[int]) -> Vector:
        found = np.empty((len(numbers), self.owner.dim), dtype=np.float32)
        stored = dict(self._link.rows("SELECT id, x FROM vectors WHERE id = ANY(%s)", list(numbers))) if numbers else {}
        for row, number in enumerate(numbers):
            with cells.damage(self.place, f"centre of region {number}"):
                found[row] = cells.read_vector(stored.get(number, b""), self.owner.dim)
        return found

    def insert(self, region: NewRegion) -> int:
        """Numbers follow on each other: a sequence would leave gaps where a transaction was rolled back."""
        label, radius, certified, coordinates = cells.pack_region(region)
        x = cells.pack_vector(region.x)
        ((number,),) = self._link.rows(
            "INSERT INTO regions SELECT coalesce(max(id), 0) + 1, %b, %b, %b, %b FROM regions RETURNING id",
            *(label, radius, certified, coordinates),
        )
        self._link.run("INSERT INTO vectors VALUES (%s, %s)", number, x)
        self._kept[number] = _digest(label, radius, certified, x)
        return int(number)

    def turn(self, basis: Basis, coordinates: Iterable[tuple[Sequence[int], Floats]]) -> None:
        ((number,),) = self._link.rows("SELECT max(id) + 1 FROM basis")
        self._write_basis(number, basis)
        for numbers, rows in coordinates:
            changes = [(cells.pack(z), number) for z, number in zip(rows, numbers, strict=True)]
            self._link.run_many("UPDATE regions SET coordinates = %b WHERE id = %s", changes)

    def size(self) -> int:
        """Bytes of the tables with their indexes."""
        return sum(
            int(size) for ((size,),) in (self._link.rows("SELECT pg_total_relation_size(%s)", n) for n in TABLES)
        )

    def _fill(self, contents: cells.Contents) -> None:
        """Tables, and what is in them."""
        for name, columns in TABLES.items():
            key = ", PRIMARY KEY (id)" if columns.startswith("id ") else ""
            self._link.run(f"CREATE TABLE {name} ({columns}{key})")
        self._link.run("INSERT INTO memory VALUES (%s, %s, %s, %s)", *contents.first_row())
        for number, basis in enumerate(contents.bases(), 1):
            self._write_basis(number, basis)
        for region in contents.regions:
            self.insert(region)

    def _write_basis(self, number: int, basis: Basis) -> None:
        self._link.run("INSERT INTO basis VALUES (%s, %s, %s)", number, *cells.pack_basis(basis))


def _locked() -> str:
    """Begin to write. Who stands still in the middle loses his turn before others lose their patience."""
    turn = f"SET LOCAL idle_in_transaction_session_timeout = {500 * address.PATIENCE:.0f}"
    return f"{WRITE}; {turn}; LOCK TABLE memory IN EXCLUSIVE MODE"


def _digest(label: int, radius: float, certified: float, x: bytes) -> bytes:
    return hashlib.sha256(repr((label, radius, certified)).encode() + x).digest()


def _connect(at: Address, frozen: bool) -> tuple[Connected, str, Owner]:
    """Reach a memory, and read which it is and whose. As long as the connection lasts nobody discards it."""
    connection = at.connect(read_only=frozen)
    try:
        with refusals(at.shown, lambda: connection):
            number, mark = _schema(connection, at)
            connection.execute(f"SELECT pg_advisory_lock_shared({APPLICATION}, %s::bigint::oid::int)", (number,))
            if _schema(connection, at)[0] != number:
                raise RunError(f"{at.shown} must stay where it is; it was removed by the process that made it")
            _refuse_others(connection, at, number, mark)
            rows = connection.execute("SELECT * FROM memory LIMIT 2").fetchall()
            with cells.damage(at.shown, "owner"):
                return connection, *cells.read_first_rows(rows)
    except BaseException:
        connection.close()
        raise


def _schema(connection: Connected, at: Address) -> tuple[int, str]:
    """The number and the comment of a memory's schema."""
    ask = "SELECT oid::bigint, coalesce(obj_description(oid, 'pg_namespace'), '') FROM pg_namespace WHERE nspname = %s"
    found = connection.execute(ask, (at.name,)).fetchone()
    if found is None:
        raise RunError(f"{at.shown} must be a memory; there is no such schema")
    return int(found[0]), str(found[1])


def _refuse_others(connection: Connected, at: Address, number: int, mark: str) -> None:
    """Refuse what is not a memory, or one of a later form, or has something else where its tables should be."""
    if mark != MARK:
        other = mark.removeprefix(MARK.rpartition(" ")[0]).strip() if mark.startswith("smoothcert memory") else ""
        if other:
            raise RunError(f"{at.shown} must be a memory of version {cells.VERSION}; got version {other[:20]}")
        raise RunError(f"{at.shown} must be a memory of smoothcert; got another schema")
    found = {name: (plain, columns) for name, plain, columns in connection.execute(FOUND, (number,)).fetchall()}
    expected = {name: (True, columns) for name, columns in TABLES.items()}
    for name in dict.fromkeys([*expected, *found]):
        if expected.get(name) != found.get(name):
            got = "not the plain table it should be" if name in found else "missing"
            raise RunError(f"{at.shown} must hold the tables of a memory and nothing else; {name!r} is {got}")
