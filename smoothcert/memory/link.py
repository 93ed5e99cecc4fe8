"""A connection to PostgreSQL that is made anew when it has broken off, and transactions on it.

What was begun on a broken connection is gone, with one exception: where the answer to a COMMIT was lost, whoever wrote
looks whether it is there. So a transaction that ends without an error took place, and one that ends by `StoreLostError`
did not. (The number of a transaction would not tell: a server that crashes may give it again to another.)
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
    def transaction(self, begin: str, took_place: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """All of what is done inside, or nothing; `took_place` tells which if the COMMIT is not answered."""
        self._reach()
        with refusals(self._place, lambda: self._connection, writing=begin != READ):
            try:
                self._connection.execute(begin)
                self._inside = True
                yield
                self._commit(took_place)
            except BaseException:
                with contextlib.suppress(Exception):  # a connection that is gone has rolled back
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._inside = False

    def _commit(self, took_place: Callable[[], bool]) -> None:
        import psycopg

        try:
            if self._connection.execute("COMMIT").statusmessage != "COMMIT":
                raise OutputError(f"{self._place} must commit what was written; got a transaction that had failed")
        except psycopg.Error as error:
            if not self._connection.closed:
                raise
            self._inside = False
            if not self._answered(took_place):
                raise _lost(self._place, error) from error

    def _answered(self, ask: Callable[[], bool]) -> bool:
        """The answer of a server that may go away again while it is asked."""
        until = time.monotonic() + address.PATIENCE
        while True:
            try:
                return ask()
            except RunError as error:
                if not isinstance(error, StoreLostError) or time.monotonic() > until:
                    raise OutputError(f"{error}; whether a region was stored is not known: offer it again") from error

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
