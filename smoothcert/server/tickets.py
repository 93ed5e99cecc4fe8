"""One input of a request on its way through the service, and whoever waits for its answer."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from smoothcert.contracts import ABSTAIN, Outcome, Source, Tensor
from smoothcert.server.values import CertifiedAnswer, RequestError
from smoothcert.spec import Spec

LATE = "its deadline came before its draws could tell"


class PendingRequest:
    """The answers of one request, and whoever waits for all of them. `settled` is told of each input that is over."""

    def __init__(self, size: int, settled: Callable[[], None]) -> None:
        self.done: asyncio.Future[list[CertifiedAnswer]] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._answers: list[CertifiedAnswer | None] = [None] * size
        self._lock, self._settled = threading.Lock(), settled

    def put(self, position: int, answer: CertifiedAnswer) -> None:
        """The end of one input, from any thread: its answer, which counts unless the caller gave up."""
        self._settled()
        self._fill([position], answer)

    def fail(self, error: RequestError) -> None:
        """The end of one input, from any thread: no answer, to none of the request."""
        self._settled()
        self._tell(lambda: self.done.set_exception(error))

    def give_up(self, answer: CertifiedAnswer) -> None:
        """Answer in the place of all that have none yet; they are still under way."""
        self._fill(range(len(self._answers)), answer)

    def _fill(self, positions: Iterable[int], answer: CertifiedAnswer) -> None:
        with self._lock:
            for position in positions:
                if self._answers[position] is None:
                    self._answers[position] = answer
            whole = [one for one in self._answers if one is not None]
        if len(whole) == len(self._answers):
            self._tell(lambda: self.done.set_result(whole))

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
