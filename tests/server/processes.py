"""`smoothcert serve` as an operator starts it: a process of its own, on the loopback address, that can be killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import httpx

HERE = Path(__file__).parent
WITHIN = 60.0  # seconds in which a service must have begun, or ended
BEGUN = re.compile(r"serving (\S+) at (http://127\.0\.0\.1:\d+)/ ")


class ServeProcess:
    """Started when made; what it logs is in `log`, start after start. Started again, it has another port."""

    def __init__(self, folder: Path, *words: str, **environment: str) -> None:
        self.words, self.log, self._folder = words, folder / "log", folder
        path = os.pathsep.join(map(str, (HERE.parents[1], HERE.parent, HERE)))
        self._environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment}
        self.process: subprocess.Popen[str] | None = None
        self.name = self.address = ""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Begin to start: it is not asked for anything before `wait`."""
        command = [sys.executable, "-m", "smoothcert", "serve", *self.words, "--port", "0"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self._folder, env=self._environment
            )

    def wait(self) -> None:
        """Until it serves, and says where."""
        line = self._said().readline()
        found = BEGUN.match(line)
        assert found, (line, self.log.read_text()[-2000:])
        self.name, self.address = found.groups()
        assert "commitment" in self._said().readline()

    @property
    def model(self) -> str:
        return f"{self.address}/v2/models/{self.name}"

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def memory(self) -> int:
        """Bytes that it holds in RAM."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _said(self) -> IO[str]:
        assert self.process is not None and self.process.stdout is not None
        return self.process.stdout

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def ended(self) -> int:
        """Its exit code."""
        assert self.process is not None
        code = self.process.wait(WITHIN)
        self._said().close()
        return code

    def kill(self) -> None:
        """As a machine that loses power would end it, but for the disk."""
        self.signal(signal.SIGKILL)
        self.ended()

    def again(self) -> None:
        """Start it once more, with the same words."""
        self.launch()
        self.wait()

    def end(self) -> None:
        """Whatever it is doing."""
        if self.process is not None and self.process.poll() is None:
            self.kill()


def until(condition) -> None:
    end = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def refuses(address: str) -> bool:
    """Whether nobody listens there."""
    try:
        httpx.get(f"{address}/v2/health/live")
    except httpx.TransportError:
        return True
    return False
