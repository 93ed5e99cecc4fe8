"""Certificates that a service has given, each under an id that nobody can guess: in a SQLite file or in PostgreSQL.

A certificate is on the disk before its answer is sent. Replicas that share a database find each other's. What is told
of retired secrets lies here too, so that certificates fetched afterwards can be drawn again by anybody.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from smoothcert import foreign
from smoothcert.errors import OptionError, OutputError, reason
from smoothcert.memory.address import Address, is_url
from smoothcert.memory.regions import StoreLostError
from smoothcert.spec import now

T = TypeVar("T")
PATIENCE = 30.0  # seconds in which a database that went away must be back
BRIEF = 5.0  # seconds that a reader waits for it, or for who writes
SCHEMA = "smoothcert_evidence"  # of a PostgreSQL database
LARGEST = 2**28  # bytes of one document
LOCK = 7309  # PostgreSQL's number of the lock under which tables are made
TABLES = (
    """CREATE TABLE IF NOT EXISTS smoothcert_certificates
       (id TEXT PRIMARY KEY, owner TEXT NOT NULL, made TEXT NOT NULL, document {bytes} NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS smoothcert_region_certificates
       (memory TEXT NOT NULL, region BIGINT NOT NULL, certificate TEXT NOT NULL, PRIMARY KEY (memory, region))""",
    "CREATE TABLE IF NOT EXISTS smoothcert_secrets (commitment TEXT PRIMARY KEY, secret TEXT NOT NULL)",
)


class KeptCertificate(NamedTuple):
    """A certificate on its way into the store."""

    id: str
    owner: str  # the key that asked
    document: dict[str, Any]
    region: tuple[str, int] | None = None  # memory and number, where it became a region


class EvidenceStore:
    """An open store; it may be asked from several threads, one at a time."""

    mark = "?"  # where a value goes in a statement
    kind_of_bytes = "BLOB"
    gone: tuple[type[Exception], ...] = ()  # what says that the connection is lost
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, place: str) -> None:
        self.place = place
        self._lock = threading.Lock()
        self._connection: Any = None
        self._done(self._make)

    def keep(self, certificates: Sequence[KeptCertificate]) -> None:
        """All of them, or none; they are on the disk when this returns."""
        made = now()
        rows = [(one.id, one.owner, made, packed(one.document)) for one in certificates]
        regions = [(*one.region, one.id) for one in certificates if one.region is not None]
        self._done(lambda base: self._insert(base, rows, regions))

    def find(self, certificate: str, owner: str) -> dict[str, Any] | None:
        """The document under this id, if it is this owner's; with its secret, where that has been told."""
        query = f"SELECT document FROM smoothcert_certificates WHERE id = {self.mark} AND owner = {self.mark}"
        row = self._done(lambda base: base.execute(query, (certificate, owner)).fetchone(), BRIEF)
        return None if row is None else unpacked(bytes(row[0]))

    def of_region(self, memory: str, region: int) -> str:
        """The certificate that became a region; empty where another program stored it."""
        query = f"""SELECT certificate FROM smoothcert_region_certificates
                    WHERE memory = {self.mark} AND region = {self.mark}"""
        row = self._done(lambda base: base.execute(query, (memory, region)).fetchone())
        return "" if row is None else str(row[0])

    def tell(self, commitment: str, secret: str) -> None:
        """A secret that is used no more."""
        insert = f"INSERT INTO smoothcert_secrets VALUES ({self.mark}, {self.mark}) ON CONFLICT DO NOTHING"
        self._done(lambda base: base.execute(insert, (commitment, secret)))

    def told(self, commitment: str) -> str:
        """A secret that has been told; empty while it is none of those."""
        query = f"SELECT secret FROM smoothcert_secrets WHERE commitment = {self.mark}"
        row = self._done(lambda base: base.execute(query, (commitment,)).fetchone(), BRIEF)
        return "" if row is None else str(row[0])

    def close(self) -> None:
        """Let go of it, unless somebody still waits for a database that is away."""
        with contextlib.suppress(OutputError), self._alone(BRIEF):
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _make(self, base: Any) -> None:
        for statement in TABLES:
            base.execute(statement.format(bytes=self.kind_of_bytes))

    def _insert(self, base: Any, rows: Sequence[tuple[Any, ...]], regions: Sequence[tuple[Any, ...]]) -> None:
        # An id is drawn at random: one that is there already is this very certificate, sent again after a failure.
        four, three = (", ".join([self.mark] * number) for number in (4, 3))
        for row in rows:
            base.execute(f"INSERT INTO smoothcert_certificates VALUES ({four}) ON CONFLICT DO NOTHING", row)
        for row in regions:
            base.execute(f"INSERT INTO smoothcert_region_certificates VALUES ({three}) ON CONFLICT DO NOTHING", row)

    @contextlib.contextmanager
    def _alone(self, patience: float) -> Iterator[None]:
        if not self._lock.acquire(timeout=patience):
            raise OutputError(f"evidence {self.place} must be free within {patience:g} s; somebody else still writes")
        try:
            yield
        finally:
            self._lock.release()

    def _done(self, work: Callable[[Any], T], patience: float = PATIENCE) -> T:
        """One transaction; begun again, for a bounded time, where the database went away."""
        until = time.monotonic() + patience
        with self._alone(patience):
            while True:
                try:
                    return self._once(work)
                except self.gone as error:
                    self._connection = None
                    if time.monotonic() > until:
                        raise OutputError(f"evidence {self.place} must be reachable; got: {reason(error)}") from error
                    time.sleep(0.1)
                except self.errors as error:
                    raise OutputError(
                        f"evidence {self.place} must be a database of its own that can be written; got: {reason(error)}"
                    ) from error

    def _once(self, work: Callable[[Any], T]) -> T:
        if self._connection is None:
            self._connection = self._connect()
        with self._transaction(self._connection) as base:
            return work(base)

    def _connect(self) -> Any:
        path = Path(self.place)
        if path.exists() and not foreign.is_regular(path):
            raise OptionError(f"evidence must be a file, or postgresql://…; got '{path}'")
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        path.chmod(0o600)
        return connection

    @contextlib.contextmanager
    def _transaction(self, connection: Any) -> Iterator[Any]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


class PostgresEvidence(EvidenceStore):
    """The same in a schema of a PostgreSQL database, for replicas that share it."""

    mark = "%s"
    kind_of_bytes = "BYTEA"

    def __init__(self, url: str) -> None:
        self._address = replace(Address.parse(url), name=SCHEMA)
        self._address.connect().close()  # refuses what is no such URL, or out of reach
        import psycopg

        self.gone = (psycopg.OperationalError, psycopg.InterfaceError, StoreLostError)
        self.errors = (psycopg.Error,)
        super().__init__(self._address.shown)

    def _connect(self) -> Any:
        return self._address.connect()

    @contextlib.contextmanager
    def _transaction(self, connection: Any) -> Iterator[Any]:
        with connection.transaction():
            yield connection

    def _make(self, base: Any) -> None:
        base.execute(f"SELECT pg_advisory_xact_lock({LOCK})")  # two replicas that start at once: one after the other
        base.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        super()._make(base)


def open_evidence(place: str) -> EvidenceStore:
    """The store at a file or at postgresql://…; made where there is none."""
    return PostgresEvidence(place) if is_url(place) else EvidenceStore(place)


def packed(document: dict[str, Any]) -> bytes:
    return zlib.compress(json.dumps(document, allow_nan=False, separators=(",", ":")).encode(), 6)


def unpacked(raw: bytes) -> dict[str, Any]:
    """A document as it was kept."""
    text = zlib.decompressobj().decompress(raw, LARGEST)
    found: dict[str, Any] = foreign.parse_json(text, "a certificate of this service")
    return found
