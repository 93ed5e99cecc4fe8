"""Where a memory is: a file, or `postgresql://user@host:port/database?memory=NAME`, one of several in a database.

A password may stand in such a URL, as in any that libpq reads. It is never shown and never stored: whoever reads the
place from a run gives the password by PGPASSWORD, ~/.pgpass, or a URL of his own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from smoothcert.errors import OptionError, RunError, reason
from smoothcert.memory.regions import StoreLostError

if TYPE_CHECKING:
    import psycopg

MemoryPlace: TypeAlias = Path | str
SCHEMES = ("postgresql://", "postgres://")
NAME = re.compile(r"(?!pg_)[a-z][a-z0-9_]{0,62}")  # of a memory, which is a schema
SHOWN = ("host", "hostaddr", "port", "user", "dbname", "service", "sslmode", "sslrootcert", "target_session_attrs")
OLDEST = 120_000  # PostgreSQL 12: older ones are no longer kept
PATIENCE = 60.0  # seconds to wait for another's transaction, for an answer, for a server that is being restarted
# A peer that has vanished is noticed after about 30 seconds, on either side; what the URL says goes before.
LIVELY = {"connect_timeout": 10, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4,
          "tcp_user_timeout": 30_000, "application_name": "smoothcert", "client_encoding": "UTF8"}  # fmt: skip


def is_url(place: MemoryPlace) -> bool:
    """Whether it is a database's, not a file's."""
    return isinstance(place, str) and place.startswith(SCHEMES)


def shown(place: MemoryPlace) -> str:
    """A place as it is written down: the whole path, or the URL without what is secret."""
    return Address.parse(str(place)).shown if is_url(place) else str(Path(place).resolve())


@dataclass(frozen=True)
class Address:
    """A memory in a PostgreSQL database."""

    conninfo: str  # as libpq reads it; it may hold a password
    name: str  # of the memory
    shown: str

    @staticmethod
    def parse(url: str) -> Address:
        whole, _, query = url.partition("?")
        scheme, _, rest = whole.partition("://")
        given = {unquote(part.partition("=")[0]): part for part in query.split("&") if part}
        name = unquote(given.pop("memory", "memory=memory").partition("=")[2])
        if "@" in query:  # after a password with a ? in it, of which nothing may be shown
            raise OptionError("URL of a memory must have each ?, @ and & of a password as %3F, %40 and %26; got others")
        if not NAME.fullmatch(name):
            raise OptionError(
                "memory= of a URL must be a name of small letters, digits and _, up to 63, that begins with a letter "
                f"and not with pg_; got {name[:80]!r}"
            )
        user, at, host = rest.rpartition("@")
        public = f"{scheme}://{user.partition(':')[0]}{at}{host}"
        kept = [part for key, part in given.items() if key in SHOWN]
        return Address(
            "?".join([whole, "&".join(given.values())]), name, f"{public}?{'&'.join([*kept, f'memory={name}'])}"
        )

    def connect(self, read_only: bool = False) -> psycopg.Connection[Any]:
        """A connection on which every statement is its own transaction, and tables are those of the memory."""
        _require_psycopg()
        import psycopg
        import psycopg.conninfo

        try:
            given: dict[str, Any] = {**LIVELY, **psycopg.conninfo.conninfo_to_dict(self.conninfo)}
        except psycopg.Error:  # its words may quote a password, and so would the cause
            raise OptionError(
                "URL of a memory must be postgresql://user@host:port/database?memory=NAME; "
                f"got one that libpq cannot read: {self.shown}"
            ) from None
        try:
            connection = psycopg.connect(**given, autocommit=True)
        except (psycopg.Error, UnicodeError) as error:
            raise StoreLostError(f"{self.shown} must be reachable; got: {reason(error)}") from error
        try:
            self._set_up(connection, read_only)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: psycopg.Connection[Any], read_only: bool) -> None:
        import psycopg

        if connection.info.server_version < OLDEST:
            raise RunError(
                f"{self.shown} must be PostgreSQL 12 or later; got {connection.info.server_version // 10_000}"
            )
        alive = {"idle": "10", "interval": "5", "count": "4"}
        settings = {
            "search_path": f'"{self.name}", pg_temp',
            "default_transaction_read_only": "on" if read_only else "off",
            "lock_timeout": f"{1000 * PATIENCE:.0f}ms",
            "statement_timeout": f"{2000 * PATIENCE:.0f}ms",
            **{f"tcp_keepalives_{name}": value for name, value in alive.items()},
        }
        try:
            calls = ", ".join("set_config(%s, %s, false)" for _ in settings)
            connection.execute(f"SELECT {calls}", [word for pair in settings.items() for word in pair])
            connection.execute(  # an admission is on the disk when it returns, whatever the server's default is
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') <> 'remote_apply'"
            )
        except psycopg.Error as error:
            raise StoreLostError(f"{self.shown} must be reachable; got: {reason(error)}") from error


def _require_psycopg() -> None:
    if find_spec("psycopg") is None:
        raise OptionError(
            "psycopg must be installed for a memory in PostgreSQL; got none: pip install 'smoothcert[server]'"
        )
