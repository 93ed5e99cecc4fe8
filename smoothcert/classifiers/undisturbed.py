"""Other people's exporters and quantisers at work: neither stopped halfway nor heard."""

from __future__ import annotations

import contextlib
import io
import logging
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 1.0  # seconds in which a second interruption is taken for the same


@contextlib.contextmanager
def interruptions_after() -> Iterator[None]:
    """A signal to stop that comes inside is handled at the end; if another one follows a while later, that at once.

    The exporter cannot bear an exception out of nowhere: it calls back from places where one is dropped (finalisers)
    or turned into another, and one while it imports libraries has ended in a crash. An interruption must neither be
    lost nor be taken for a network that cannot be exported.
    """
    if threading.current_thread() is not threading.main_thread():  # handlers run in the main thread only
        yield
        return
    came: list[tuple[signal.Signals, float]] = []
    usual = {number: handler for number in STOPS if callable(handler := signal.getsignal(number))}

    def noted(number: int, frame: FrameType | None) -> None:
        if came and time.monotonic() - came[0][1] > PATIENCE:
            usual[signal.Signals(number)](number, frame)
        came.append((signal.Signals(number), time.monotonic()))

    for number in usual:
        signal.signal(number, noted)
    try:
        yield
    finally:
        for number, handler in usual.items():
            if signal.getsignal(number) is noted:  # a handler may have put another in its place
                signal.signal(number, handler)
        if came:
            usual[came[0][0]](came[0][0], None)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Exporter and quantiser tell their progress on stdout, in logs and in warnings; none of it is for our user."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(level)
