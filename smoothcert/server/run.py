"""Serving over HTTP by uvicorn: bounds on connections and their heads, and an end in order.

On SIGTERM or SIGINT the service says that it is not ready, takes no more connections, answers what it has accepted, and
ends. A second SIGINT ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from smoothcert.errors import OptionError, reason
from smoothcert.server import logs
from smoothcert.server.gate import HEAD_BYTES

HEAD_SECONDS = 10.0  # in which a request line and its headers must have come
KEEP_ALIVE = 30  # seconds between requests of one connection
CONNECTIONS = 1024  # at once
GRACE = 15  # seconds beyond the longest deadline in which accepted requests must have been answered


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it; heads have a deadline, connections a number, and refusals are one JSON line."""

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A new connection: refused at once where there are too many, or else its first head is awaited."""
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            self._refuse(503, "connections of this service must be fewer; got one too many", retry=True)
            return
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """More of a request. Until its head is whole the clock runs, however slowly bytes come."""
        super().data_received(data)
        if self._busy():
            self._forget_head()
        elif self._head is None:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        self._forget_head()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(400, f"request must be HTTP/1.1 with a head of at most {HEAD_BYTES} bytes; got something else")
        else:  # an answer is under way: nothing can be said any more
            self.transport.close()

    def _refuse(self, status: int, text: str, retry: bool = False) -> None:
        body = json.dumps({"error": text}).encode() + b"\n"
        head = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Connection: close",
            *(["Retry-After: 5"] if retry else []),
        ]
        self.transport.write("".join(f"{line}\r\n" for line in head).encode() + b"\r\n" + body)
        self.transport.close()

    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_head(self) -> None:
        self._head = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _give_up(self) -> None:
        if not self._busy() and not self.transport.is_closing():
            self.transport.close()


class GracefulServer(uvicorn.Server):
    """Ends in order on a signal, and then leaves the signal be: the exit code is the caller's."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, notice: float, begun: Callable[[int], None]) -> None:
        super().__init__(config)
        self._app, self._notice, self._begun = app, notice, begun

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """While serving, signals ask for an end; afterwards they mean again what they meant before."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and tell on which port."""
        await super().startup(sockets)
        self._begun((sockets or list(self.servers[0].sockets))[0].getsockname()[1])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Not ready from now on, which proxies are given time to see; then the end."""
        self._app.state.stopping = True
        logs.log.info("stopping")
        end = time.monotonic() + self._notice
        while time.monotonic() < end and not self.force_exit:
            await asyncio.sleep(0.1)
        await super().shutdown(sockets)
        logs.log.info("stopped")


def serve(
    app: FastAPI, host: str, port: int, *, certificate: Path | None = None, private_key: Path | None = None,
    notice: float = 0.0, begun: Callable[[int], None] = lambda port: None,
) -> None:  # fmt: skip
    """Serve until a signal asks for an end; returns when everything that was accepted has been answered.

    `certificate` and `private_key`: PEM files for TLS. `notice`: seconds between not being ready and taking no more
    connections, for proxies that ask. `begun` is told the port, once the service listens.
    """
    logs.configure()
    with contextlib.closing(listener(host, port)) as place:
        server(app, certificate=certificate, private_key=private_key, notice=notice, begun=begun).run(sockets=[place])


def server(
    app: FastAPI, *, certificate: Path | None = None, private_key: Path | None = None, notice: float = 0.0,
    begun: Callable[[int], None] = lambda port: None,
) -> GracefulServer:  # fmt: skip
    """A server of uvicorn's with this service's bounds."""
    if private_key is not None and certificate is None:
        raise OptionError(f"--ssl-keyfile needs --ssl-certfile; got only '{private_key}'")
    config = uvicorn.Config(
        app, http=BoundedProtocol, ws="none", loop="asyncio", lifespan="on", log_config=None, access_log=False,
        server_header=False, proxy_headers=False, timeout_keep_alive=KEEP_ALIVE,
        h11_max_incomplete_event_size=HEAD_BYTES, timeout_graceful_shutdown=int(app.state.limits.longest) + GRACE,
        ssl_certfile=certificate, ssl_keyfile=private_key,
        ssl_keyfile_password="none",  # or else a key under a password would have OpenSSL ask the terminal
    )  # fmt: skip
    try:
        config.load()
    except OSError as cause:  # OpenSSL's are among them
        files = " and ".join(f"'{file}'" for file in (certificate, private_key) if file is not None)
        raise OptionError(
            f"--ssl-certfile and --ssl-keyfile must be PEM files of one key; got {files}: {reason(cause)}"
        ) from cause
    return GracefulServer(config, app, notice, begun)


def listener(host: str, port: int) -> socket.socket:
    """A socket that listens there, or one line that says why none can."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        found = socket.create_server((host, port), family=family, backlog=CONNECTIONS)
        # Connections inherit it. asyncio sets it only where a socket was made as one of TCP by number; without it a
        # body waits some 40 ms for the client to acknowledge the headers.
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found
    except (OSError, OverflowError, UnicodeError) as cause:
        said = getattr(cause, "strerror", None) or cause
        raise OptionError(
            f"--host and --port must be a free address of this machine; got {host}:{port}: {said}"
        ) from cause
