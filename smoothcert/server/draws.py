"""Draws for a service, in a thread of its own: one engine, whose batches inputs of all requests share, oldest first.

New inputs join those under way. At its deadline an input that is undecided abstains, which is always valid.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import queue
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

from smoothcert.classifiers.composed import Bundle
from smoothcert.contracts import Job, Noise, Source, Stream, input_key
from smoothcert.engine import executor
from smoothcert.engine.engine import Engine
from smoothcert.preparation import device_of
from smoothcert.procedures.predict import Predict
from smoothcert.runs.certify import CHUNK, with_clean
from smoothcert.server.offer import Offer
from smoothcert.server.tickets import DrawnTicket, ForTheClerk, LateTicket, Ticket
from smoothcert.server.values import RequestError

WARMING = 200  # draws that each network makes before the first request
RECENT = 0.1  # weight of the latest input in the mean of seconds

log = logging.getLogger("smoothcert.server")


@dataclass(eq=False)
class Drawer(Iterator[Job]):
    """Takes tickets from `arrivals`, and hands those that are drawn, or late, to the clerk.

    As an iterator it is what the engine asks for jobs: after it had none, it may have some.
    """

    offer: Offer
    arrivals: queue.SimpleQueue[Ticket | None]
    clerk: queue.SimpleQueue[ForTheClerk]
    draws: int = 0
    seconds: float = 0.0  # that an input takes, lately
    engine: Engine = field(init=False)
    _new: deque[Ticket] = field(default_factory=deque)
    _jobs: deque[Job] = field(default_factory=deque)
    _begun: dict[int, Ticket] = field(default_factory=dict)
    _deadlines: list[tuple[float, int]] = field(default_factory=list)
    _end: bool = False

    def __post_init__(self) -> None:
        made, batch = self.offer.made, self.offer.means.batch or None
        self.engine = Engine(executor(made.engine, batch, made.workers), advance=self._advance)

    def warm_up(self) -> None:
        """Look at every network once, so that the first client does not wait for that."""
        x, whole = torch.zeros(self.offer.template.shape), self.offer.exact.classifier  # zero is on every grid
        for network in whole.members if isinstance(whole, Bundle) else (whole,):
            steps = Predict(WARMING)(Source(network, self.offer.exact.noise), x.numel())
            for _ in self.engine.run_open(iter([Job(0, x, steps)])):
                pass

    def run(self) -> None:
        """Until it is told that this is the end."""
        try:
            while self._wait():
                self._carry_out()
        finally:
            self.engine.close()

    def _wait(self) -> bool:
        while not self._new and not self._end:
            self._take(self.arrivals.get())
        return bool(self._new)

    def _carry_out(self) -> None:
        try:
            for outcome in self.engine.run_open(self):
                self.seconds += RECENT * (outcome.seconds - self.seconds)
                self.clerk.put(DrawnTicket(self._begun.pop(outcome.index), outcome))
        except Exception:  # a model may raise anything: whoever was under way is told, the next may be luckier
            log.exception("the model failed")
            for ticket in self._begun.values():
                ticket.pending.fail(RequestError(500, "the model could not answer; the log of the service says why"))
            self._begun.clear()
            self._jobs.clear()
            self.engine.close()

    def __next__(self) -> Job:
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self.arrivals.get_nowait())
        self._abstain()
        if not self._jobs:
            self._prepare()
        if not self._jobs:
            raise StopIteration
        return self._jobs.popleft()

    def _take(self, ticket: Ticket | None) -> None:
        if ticket is None:
            self._end = True
        else:
            self._new.append(ticket)

    def _advance(self, rows: int) -> None:
        self.draws += rows
        self._abstain()

    def _abstain(self) -> None:
        """For inputs whose deadline has passed."""
        now = time.monotonic()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, number = heapq.heappop(self._deadlines)
            if (ticket := self._begun.pop(number, None)) is not None:
                drawn = self.engine.cancel(number)
                self._jobs = deque(job for job in self._jobs if job.index != number)
                self.clerk.put(LateTicket(ticket, sum(answer.draws for answer in drawn.answers) if drawn else 0))

    def _prepare(self) -> None:
        """Jobs of the next tickets: of one, or where each input has its own noise level, of some together."""
        prepare = self.offer.prepare
        most = 1 if prepare is None or device_of(prepare.network) != "cpu" else CHUNK
        some = list(itertools.islice(self._in_time(), most))
        self._begun.update({ticket.number: ticket for ticket in some})  # from now on told if anything fails
        for ticket, noise in zip(some, self._noises(some), strict=True):
            own = replace(ticket.source, noise=noise)
            level = None if prepare is None else float(getattr(noise, "sigma", 0.0))
            steps = with_clean(own, ticket.spec.procedure(own, ticket.x.numel()), level)
            heapq.heappush(self._deadlines, (ticket.deadline, ticket.number))
            self._jobs.append(Job(ticket.number, ticket.x, steps, ticket.seed))

    def _in_time(self) -> Iterator[Ticket]:
        """The next tickets under one noise; those whose deadline has passed abstain."""
        first: Noise | None = None
        while self._new and first in (None, self._new[0].source.noise):
            ticket = self._new.popleft()
            if ticket.deadline <= time.monotonic():
                self.clerk.put(LateTicket(ticket))
                continue
            first = ticket.source.noise
            yield ticket

    def _noises(self, some: Sequence[Ticket]) -> Sequence[Noise]:
        if self.offer.prepare is None or not some:
            return [ticket.source.noise for ticket in some]
        streams = [Stream(ticket.seed, input_key(ticket.x), "sigma") for ticket in some]
        return self.offer.prepare(some[0].source.noise, torch.stack([ticket.x for ticket in some]), streams)
