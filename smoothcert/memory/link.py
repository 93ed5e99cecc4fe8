"""A connection to PostgreSQL that is made anew when it has broken off, and transactions on it.

What was begun on a broken connection is gone, with one exception: where the answer to a COMMIT was lost, the server is
asked by the transaction's number whether it was committed. So a transaction that ends without an error took place, and
one that ends by `StoreLostError` did not.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from smoothcert.errors import OutputError, RunError, reason
from smoothcert.memory import address
from smoothcert.memory.regions import StoreLostError

if TYPE_CHECKING:
    import psycopg

Connected: TypeAlias = "psycopg.Connection[Any]"
PAUSE = 0.05  # seconds between two attempts
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"


class Link:
    """A connection on which every statement outside of `transaction` stands alone."""

    def __init__(self, place: str, connection: Connected, connect: Callable[[], Connected] | None = None) -> None:
        self._place, self._connection = place, connection
        self._connect = connect  # to the same end as before; None: once it has broken off it is over
        self._inside = False
        self.wrote: str | None = None  # the number of the transaction, as soon as it has written something

    def close(self) -> None:
        self._connect = None
        self._connection.close()

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """What a statement finds; inside a transaction it is part of it, and lost with it."""
        if self._inside:
            return self._connection.cursor(binary=True).execute(statement, values).fetchall()
        self._reach()
        with refusals(self._place, lambda: self._connection):
            return self._connection.cursor(binary=True).execute(statement, values).fetchall()

    def run(self, statement: str, *values: object) -> None:
        """A statement of a transaction."""
        self._connection.execute(statement, values)

    def run_many(self, statement: str, values: Sequence[tuple[object, ...]]) -> None:
        self._connection.cursor().executemany(statement, values)

    @contextlib.contextmanager
    def transaction(self, begin: str) -> Iterator[None]:
        """All of what is done inside, or nothing."""
        self._reach()
        with refusals(self._place, lambda: self._connection, writing=begin != READ):
            try:
                self._connection.execute(begin)
                self._inside, self.wrote = True, None
                yield
                self._commit()
            except BaseException:
                with contextlib.suppress(Exception):  # a connection that is gone has rolled back
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._inside, self.wrote = False, None

    def _commit(self) -> None:
        import psycopg

        try:
            if self._connection.execute("COMMIT").statusmessage != "COMMIT":
                raise OutputError(f"{self._place} must commit what was written; got a transaction that had failed")
        except psycopg.Error as error:
            if not self._connection.closed:
                raise
            if self.wrote is None or not self._was_committed(self.wrote):
                raise _lost(self._place, error) from error

    def _was_committed(self, number: str) -> bool:
        """Whether the transaction took place whose COMMIT was not answered."""
        until, self._inside, status = time.monotonic() + address.PATIENCE, False, "nothing"
        while time.monotonic() < until:
            with contextlib.suppress(RunError):  # a server that stays away, or goes away again
                status = str(self.rows("SELECT pg_xact_status(%s::text::xid8)", number)[0][0])
                if status != "in progress":
                    break
            time.sleep(PAUSE)
        if status not in ("committed", "aborted"):
            raise OutputError(f"{self._place} must tell whether a region was stored; got '{status}': offer it again")
        return status == "committed"

    def _reach(self) -> None:
        """A connection that works as far as is known; a server that is being restarted is waited for."""
        until = time.monotonic() + address.PATIENCE
        while self._connection.closed:
            if self._connect is None:
                raise RunError(f"{self._place} must be open; got a connection that was closed")
            try:
                self._connection = self._connect()
            except StoreLostError as error:
                if time.monotonic() > until:
                    raise RunError(str(error)) from error
                time.sleep(PAUSE)


def _lost(place: str, error: Exception) -> StoreLostError:
    return StoreLostError(f"{place} must stay reachable; got: {reason(error)}")


@contextlib.contextmanager
def refusals(place: str, connection: Callable[[], Connected], writing: bool = False) -> Iterator[None]:
    """The server's refusals as one line."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        if connection().closed:
            raise _lost(place, error) from error
        if writing:
            said = f"{reason(error)} (regions already stored are safe)"
            raise OutputError(f"{place} must be writable; got: {said}") from error
        raise RunError(f"{place} must be readable; got: {reason(error)}") from error
