"""What tests of the service share: one that runs on the loopback address in a thread, and a clock that is set."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from smoothcert.server.run import GracefulServer, listener, server


class Clock:
    """Stands still until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@contextlib.contextmanager
def running(app: Any, **options: Any) -> Iterator[int]:
    """Its port, while it serves."""
    with serving(app, **options) as (port, _):
        yield port


@contextlib.contextmanager
def serving(app: Any, **options: Any) -> Iterator[tuple[int, GracefulServer]]:
    """Its port, and the server itself."""
    listens: list[int] = []
    begun = threading.Event()
    made = server(app, **options, begun=lambda port: (listens.append(port), begun.set()))
    with contextlib.closing(listener("127.0.0.1", 0)) as place:
        thread = threading.Thread(target=made.run, args=([place],))
        thread.start()
        try:
            assert begun.wait(20)
            yield listens[0], made
        finally:
            made.should_exit = True
            thread.join()
