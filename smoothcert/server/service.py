"""The side of the service that draws: requests in, answers out, with one engine for all of them.

    answer ─▶ Clerk ─▶ Drawer ─▶ Clerk ─▶ answer

Everything between is bounded: inputs that wait, the time a caller waits, what one request may ask.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from smoothcert.contracts import Procedure, Source, Tensor
from smoothcert.data import one_input
from smoothcert.errors import OutputError
from smoothcert.memory import Memory
from smoothcert.report.certificate import page
from smoothcert.report.inputs import Album
from smoothcert.runs.certificate import parse_document, proven_document
from smoothcert.server.clerk import Clerk
from smoothcert.server.draws import Drawer
from smoothcert.server.evidence import EvidenceStore
from smoothcert.server.offer import Offer
from smoothcert.server.secret import ServiceSecret
from smoothcert.server.tickets import PendingRequest, Ticket, late_answer
from smoothcert.server.values import (
    CertifiedAnswer,
    InferRequest,
    QueueState,
    RequestError,
    ServedModel,
    ServiceCore,
    ServiceLimits,
)
from smoothcert.spec import Spec

GRACE = 0.5  # seconds after its deadline in which an answer may still come from the engine
LAST = 10.0  # seconds in which threads must have ended, once all callers are answered
LONGEST_WAIT = 60  # seconds after which a refused client is told to come again, at the most

log = logging.getLogger("smoothcert.server")


@dataclass(eq=False)
class Service(ServiceCore):
    """A model that answers. `open_memory` opens the memory of regions, in the thread that will use it."""

    offer: Offer
    secret: ServiceSecret
    evidence: EvidenceStore
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    open_memory: Callable[[], Memory] | None = None
    examples: Sequence[tuple[str, Tensor]] = ()
    model: ServedModel = field(init=False)
    _threads: list[threading.Thread] = field(default_factory=list)
    _failures: list[BaseException] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _warm: bool = False
    _closing: bool = False
    _waiting: int = 0  # inputs whose callers wait
    _inside: int = 0  # inputs that are not settled, those included whose callers gave up
    _numbers: int = 0

    def __post_init__(self) -> None:
        spec, default = self.offer.template, self.offer.default
        arrivals: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._clerk = Clerk(self.offer, self.evidence, arrivals, self.open_memory)
        self._drawer = Drawer(self.offer, arrivals, self._clerk.inbox)
        self.model = ServedModel(
            name=self.offer.name, version=spec.model_digest, shape=spec.shape, classes=self.offer.classes,
            class_names=spec.data.class_names or None, norm=spec.norm, noise=spec.noise.words,
            sigma=None if spec.preparation else spec.sigma, alpha=default.alpha, radius=default.radius, n=default.n,
            commitment=self.secret.commitment,
        )  # fmt: skip

    def start(self) -> None:
        """Begin to work. Returns when the model is warm; raises what stands in its way."""
        opened = threading.Event()
        self._begin(lambda: self._clerk.run(opened.set), opened.set)
        opened.wait()
        if not self._failures:
            self._drawer.warm_up()
            self.model = replace(self.model, memory=self._clerk.identity)
            self._begin(self._drawer.run)
            self._warm = True
        for failure in self._failures:
            raise failure

    def _begin(self, work: Callable[[], None], at_last: Callable[[], None] = lambda: None) -> None:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # what ends a thread ends the service: readiness says so
                if self._warm:  # else `start` raises it
                    log.exception("the service cannot go on")
                self._failures.append(error)
            finally:
                at_last()

        self._threads.append(threading.Thread(target=guarded, daemon=True))
        self._threads[-1].start()

    @property
    def ready(self) -> bool:
        return self._warm and not self._closing and not self._failures

    def cost(self, request: InferRequest) -> int:
        return self.offer.question(request).cap * len(request.inputs)

    async def answer(self, request: InferRequest) -> list[CertifiedAnswer]:
        procedure, number = self.offer.question(request), len(request.inputs)
        sources = [self.offer.source(x) for x in request.inputs]
        if not self.ready:
            raise RequestError(503, "the service must be ready to answer; it is starting or stopping", 5)
        if self._inside + number > self.limits.waiting:
            raise RequestError(503, f"at most {self.limits.waiting} inputs may wait; too many do", self._patience)
        self._waiting += number  # only ever in the thread of the event loop
        try:
            return await self._answered(request, procedure, sources)
        finally:
            self._waiting -= number

    async def _answered(
        self, request: InferRequest, procedure: Procedure, sources: Sequence[Source]
    ) -> list[CertifiedAnswer]:
        wait = self.limits.deadline if request.deadline is None else request.deadline
        pending, deadline = PendingRequest(len(request.inputs), self._settled), time.monotonic() + wait
        for position, (x, source) in enumerate(zip(request.inputs, sources, strict=True)):
            spec = self._question(x, source, procedure)
            seed, hidden = self.secret.seed(spec, f"{request.id}/{position}")
            self._numbers += 1
            ticket = Ticket(
                self._numbers, x.contiguous(), source, hidden, seed, request.key, deadline, position, pending
            )  # fmt: skip
            with self._lock:
                self._inside += 1
            self._clerk.inbox.put(ticket)
        done, _ = await asyncio.wait([pending.done], timeout=wait + GRACE)
        if not done:  # whatever holds it up, the caller does not wait for it
            pending.give_up(late_answer())
        return await pending.done

    def _settled(self) -> None:
        with self._lock:  # from any thread
            self._inside -= 1

    def _question(self, x: Tensor, source: Source, procedure: Procedure) -> Spec:
        digest = hashlib.sha256(np.ascontiguousarray(x.numpy(), dtype="<f4").tobytes()).hexdigest()
        return replace(self.offer.template, data_digest=digest, noise=source.noise, procedure=procedure)

    @property
    def _patience(self) -> int:
        """Seconds after which a refused client may come again: when about half of what waits is done."""
        return min(LONGEST_WAIT, max(1, math.ceil(self._inside * self._drawer.seconds / 2)))

    def document(self, certificate: str, key: str) -> Mapping[str, Any] | None:
        try:
            return self._found(certificate, key)
        except OutputError as error:
            log.exception("a certificate could not be read")
            raise RequestError(503, "certificates cannot be read now; come again", 5) from error

    def _found(self, certificate: str, key: str) -> Mapping[str, Any] | None:
        found = self.evidence.find(certificate, key)
        if found is None:
            return None
        question = found["question"]
        if secret := self.evidence.told(question["served"]["commitment"]):
            told = Spec.parse(question).told(secret)
            found["question"] = {**question, "seed": told.seed, "served": {**question["served"], "secret": secret}}
        return found

    def page(self, certificate: str, key: str) -> str | None:
        found = self.document(certificate, key)
        if found is None:
            return None
        made = proven_document(parse_document(dict(found), certificate), self.offer.exact.classifier)
        album = None if made.x is None else Album.of_input(made.run.asked, one_input(made.x), 0)
        return page(made, album)

    def state(self) -> QueueState:
        return QueueState(self._waiting, self._drawer.draws, self._drawer.engine.passed, self._clerk.regions)

    async def close(self) -> None:
        self._closing = True
        while self._waiting and not self._failures:
            await asyncio.sleep(0.02)
        self._clerk.inbox.put(None)
        end = time.monotonic() + LAST  # nobody waits any more for what is still under way
        for thread in self._threads:
            await asyncio.to_thread(thread.join, max(0.0, end - time.monotonic()))
        await asyncio.to_thread(self.evidence.close)
