"""A wire between a client and PostgreSQL that can be cut at a COMMIT: before it arrives, or before its answer does."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit


class CutLink:
    """Listens on a port of its own; `url` is the server's, through the wire."""

    def __init__(self, url: str) -> None:
        self._end = urlsplit(url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(str(self._end.port), str(self._listener.getsockname()[1]), 1)
        self.cut: str | None = None  # "before" or "after" the next COMMIT that writes
        self.commits = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection((self._end.hostname, self._end.port))
                threading.Thread(target=self._forth, args=(near, far), daemon=True).start()

    def _forth(self, near: socket.socket, far: socket.socket) -> None:
        """Questions to the server; a second thread brings the answers."""
        back = threading.Thread(target=self._back, args=(near, far), daemon=True)
        back.start()
        wrote = False
        with contextlib.suppress(OSError):
            while data := near.recv(65536):
                wrote = wrote or b"INSERT INTO vectors" in data
                if b"COMMIT" in data and wrote:
                    self.commits, wrote = self.commits + 1, False
                    if (cut := self.cut) is not None:
                        self.cut = None
                        self._hang_up(near)
                        if cut == "before":
                            break
                        far.sendall(data)
                        continue  # the server commits, and its answer finds nobody
                far.sendall(data)
        with contextlib.suppress(OSError):
            far.shutdown(socket.SHUT_WR)

    def _back(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := far.recv(65536):
                with contextlib.suppress(OSError):
                    near.sendall(data)
        self._hang_up(near)

    @staticmethod
    def _hang_up(end: socket.socket) -> None:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
