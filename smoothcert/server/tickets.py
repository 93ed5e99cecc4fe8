"""One input of a request on its way through the service, and whoever waits for its answer."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from smoothcert.contracts import ABSTAIN, Outcome, Source, Tensor
from smoothcert.server.values import CertifiedAnswer, RequestError
from smoothcert.spec import Spec

LATE = "its deadline came before its draws could tell"


class PendingRequest:
    """The answers of one request, and whoever waits for all of them."""

    def __init__(self, size: int) -> None:
        self.done: asyncio.Future[list[CertifiedAnswer]] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._answers: list[CertifiedAnswer | None] = [None] * size
        self._lock = threading.Lock()

    def put(self, position: int, answer: CertifiedAnswer) -> None:
        """One answer, from any thread; the first for its input counts."""
        with self._lock:
            if self._answers[position] is None:
                self._answers[position] = answer
            whole = [one for one in self._answers if one is not None]
        if len(whole) == len(self._answers):
            self._tell(lambda: self.done.set_result(whole))

    def fail(self, error: RequestError) -> None:
        """No answer, from any thread."""
        self._tell(lambda: self.done.set_exception(error))

    def _tell(self, say: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may have ended
            self._loop.call_soon_threadsafe(lambda: None if self.done.done() else say())


@dataclass(frozen=True, eq=False)
class Ticket:
    """One input, and what is asked about it."""

    number: int
    x: Tensor
    source: Source
    spec: Spec  # what is asked, with its seed hidden
    seed: int
    key: str
    deadline: float  # by the monotonic clock
    position: int  # in its request
    pending: PendingRequest


class LateTicket(NamedTuple):
    """One whose deadline has passed, and the draws that it has had."""

    ticket: Ticket
    draws: int = 0


class DrawnTicket(NamedTuple):
    """One whose draws are done."""

    ticket: Ticket
    outcome: Outcome


ForTheClerk: TypeAlias = Ticket | LateTicket | DrawnTicket | None  # None: the end


def late_answer(draws: int = 0) -> CertifiedAnswer:
    """An abstention, which is always valid."""
    return CertifiedAnswer(ABSTAIN, 0.0, True, draws, "none", "", LATE)
