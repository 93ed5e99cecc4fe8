"""Keeps the books of a service, in a thread of its own: memory before and after the draws, certificates, answers.

An input that lies in a region of the memory is answered from it. All others go to the draws, and what these prove is
offered to the memory. A certificate is on the disk before its answer is sent; many are written in one transaction.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from smoothcert.contracts import ABSTAIN, EVERY, Tensor
from smoothcert.memory import Memory
from smoothcert.report.certificate import with_words
from smoothcert.runs.certificate import Document
from smoothcert.runs.certify import row_of
from smoothcert.runs.run import BeforeMemory, MemoryRef, Row, Run, claim_of
from smoothcert.server.evidence import EvidenceStore, KeptCertificate
from smoothcert.server.offer import Offer
from smoothcert.server.tickets import DrawnTicket, ForTheClerk, LateTicket, Ticket, late_answer
from smoothcert.server.values import CertifiedAnswer, RequestError

VOTING = ("test", "predict", EVERY)  # purposes of draws whose votes decided
TOGETHER = 64  # answers that are written down in one transaction
PLACE = "memory of the service"  # clients are told its identity, not where it lies
ORDER = "arrival"  # in which a service offers certificates to its memory
UNSURE = "its draws do not tell the leading class from the others"

log = logging.getLogger("smoothcert.server")


@dataclass(frozen=True, eq=False)
class ReadyAnswer:
    """An answer that is sent as soon as its certificate, if it has one, is kept."""

    ticket: Ticket
    said: CertifiedAnswer
    certificate: KeptCertificate | None = None


@dataclass(eq=False)
class Clerk:
    """`inbox` holds what comes in, `arrivals` what goes to the draws."""

    offer: Offer
    evidence: EvidenceStore
    arrivals: queue.SimpleQueue[Ticket | None]
    open_memory: Callable[[], Memory] | None = None  # in the thread that will use it
    inbox: queue.SimpleQueue[ForTheClerk] = field(default_factory=queue.SimpleQueue)
    regions: int = 0
    identity: str = ""  # of the memory
    _memory: Memory | None = None

    def run(self, ready: Callable[[], None]) -> None:
        """Until it is told that this is the end."""
        with contextlib.ExitStack() as stack:
            if self.open_memory is not None:
                self._memory = stack.enter_context(self.open_memory())
                self.identity = self._memory.identity
            ready()
            while (some := self._some()) is not None:
                self._settle(some)
                self.regions = 0 if self._memory is None else len(self._memory)
        self.arrivals.put(None)

    def _some(self) -> list[Ticket | LateTicket | DrawnTicket] | None:
        """What has come in; None at the end."""
        found = [self.inbox.get()]
        with contextlib.suppress(queue.Empty):
            while len(found) < TOGETHER:
                found.append(self.inbox.get_nowait())
        return None if None in found else [one for one in found if one is not None]

    def _settle(self, some: Sequence[Ticket | LateTicket | DrawnTicket]) -> None:
        answers = [answer for one in some for answer in self._answers(one)]
        try:
            if kept := [one.certificate for one in answers if one.certificate is not None]:
                self.evidence.keep(kept)
        except Exception:  # a full disk, a database that is gone: nobody is answered, and the next may be luckier
            log.exception("certificates could not be kept")
            for one in answers:
                one.ticket.pending.fail(RequestError(503, "certificates cannot be kept now; come again", 5))
            return
        for one in answers:
            one.ticket.pending.put(one.ticket.position, one.said)

    def _answers(self, one: Ticket | LateTicket | DrawnTicket) -> Iterator[ReadyAnswer]:
        """The answer, unless it has to be drawn first."""
        ticket = one if isinstance(one, Ticket) else one.ticket
        try:
            # Also after the draws: a region may have come about meanwhile, and its label holds for whoever asks.
            known = None if isinstance(one, DrawnTicket) and _certifies(ticket) else self._recalled(ticket)
            if known is not None:
                yield ReadyAnswer(ticket, known)
            elif isinstance(one, Ticket):
                self.arrivals.put(one)
            elif isinstance(one, LateTicket):
                yield ReadyAnswer(ticket, late_answer(one.draws))
            else:
                yield self._certified(one) if _certifies(ticket) else _predicted(one)
        except Exception:  # one that cannot be answered must not end the others
            log.exception("an answer could not be made")
            ticket.pending.fail(RequestError(500, "the service could not answer; its log says why"))

    def _recalled(self, ticket: Ticket) -> CertifiedAnswer | None:
        """What the memory answers, without a draw; None where the input lies in none of its regions."""
        if self._memory is None or (found := self._memory.query(ticket.x)) is None:
            return None
        certificate = self.evidence.of_region(self._memory.identity, found.number)
        return CertifiedAnswer(found.label, found.radius, False, 0, "memory", certificate)

    def _certified(self, drawn: DrawnTicket) -> ReadyAnswer:
        """What the draws of an input proved, as the memory leaves it, with its certificate."""
        ticket, row = drawn.ticket, replace(row_of(drawn.outcome, ABSTAIN), index=0)
        _, proven, _ = drawn.outcome.result
        reference, region, votes = None, None, _votes(row)
        if self._memory is not None:
            reference = MemoryRef(self._memory.identity, PLACE, ORDER, None)
            row, region = _settled(row, ticket.x, self._memory)
        draws = row.draws or 0
        if row.predicted == ABSTAIN:
            return ReadyAnswer(ticket, CertifiedAnswer(ABSTAIN, 0.0, True, draws, "none", "", UNSURE, votes))
        made = Document(self._run(ticket, row, reference), proven, ticket.spec.data_digest, ticket.x)
        kept = KeptCertificate(secrets.token_urlsafe(24), ticket.key, with_words(made), region)
        said = CertifiedAnswer(row.predicted, row.radius, False, draws, made.guarantee, kept.id, "", votes)
        return ReadyAnswer(ticket, said, kept)

    def _run(self, ticket: Ticket, row: Row, memory: MemoryRef | None) -> Run:
        """The answer as a run of one input."""
        spec, answered = ticket.spec, memory is not None
        return Run(
            name=spec.data.name, kind="certify", rows=(row,), claim=claim_of(spec, memory, answered), inputs=1,
            spec=spec, means=self.offer.means, memory=memory,
        )  # fmt: skip


def _certifies(ticket: Ticket) -> bool:
    return ticket.spec.kind == "certify"


def _predicted(drawn: DrawnTicket) -> ReadyAnswer:
    row = row_of(drawn.outcome, ABSTAIN)
    _, found, _ = drawn.outcome.result
    reason = UNSURE if found.abstained else ""
    said = CertifiedAnswer(
        found.label, 0.0, found.abstained, row.draws or 0, found.guarantee, "", reason, _votes(row)
    )  # fmt: skip
    return ReadyAnswer(drawn.ticket, said)


def _votes(row: Row) -> tuple[int, ...]:
    looks = [answer.counts[0] for answer in row.answers if answer.purpose in VOTING]
    return tuple(sum(column) for column in zip(*looks, strict=True)) if looks else ()


def _settled(row: Row, x: Tensor, memory: Memory) -> tuple[Row, tuple[str, int] | None]:
    """The row as the memory leaves it, and the region that it became."""
    found = memory.admit(x, row.predicted, row.radius)
    before = BeforeMemory(row.predicted, row.radius, found.conflict, found.by, found.stored, found.seen)
    region = (memory.identity, found.seen + 1) if found.stored else None
    return replace(row, predicted=found.label, radius=found.radius, settled=before), region
