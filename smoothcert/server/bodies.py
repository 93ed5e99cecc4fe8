"""Bodies of requests, read within bounds of size and time, however they are sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from starlette.types import Message, Receive

from smoothcert.foreign import shown
from smoothcert.server.values import RequestError

PATIENCE = 30.0  # seconds in which a body must have come
LINGER = 2.0  # seconds, and bytes, of a body that nobody reads any more
LINGER_BYTES = 2**26


class WatchedBody:
    """What a client sends, and whether it has sent all of it."""

    def __init__(self, receive: Receive, headers: Mapping[str, str]) -> None:
        self._receive = receive
        self.whole = "transfer-encoding" not in headers and headers.get("content-length", "0") == "0"

    async def __call__(self) -> Message:
        """The next message of the client."""
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self.whole = True
        return message

    async def discard(self) -> None:
        """Let what is still on its way arrive: a connection closed upon it takes the answer with it."""
        left = LINGER_BYTES
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while not self.whole and left > 0:
                    left -= len((await self()).get("body", b""))


async def read(receive: Receive, headers: Mapping[str, str], most: int) -> bytes:
    """A whole body of at most so many bytes; RequestError(413) as soon as it is known to be longer."""
    declared = headers.get("content-length")
    if declared is not None and declared.isascii() and declared.isdigit() and int(declared) > most:
        raise RequestError(413, f"body of the request must have at most {most} bytes; got {shown(int(declared))}")
    parts, size = [], 0
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestError(400, "body of the request must arrive whole; got an end of the connection")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    raise RequestError(413, f"body of the request must have at most {most} bytes; got more")
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError as cause:
        raise RequestError(408, f"body of the request must arrive within {PATIENCE:g} s; got a part of it") from cause
