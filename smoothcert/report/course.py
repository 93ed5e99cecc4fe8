"""Where the inputs of a run were decided: certified or given up, stage by stage or against draws spent.

The stored votes are followed through the scheme's boundaries again, so what is shown is what the counts say. ASC_j and
ASA_j are the shares of all inputs certified and abstained on in stage j (Horváth et al., ICLR 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from smoothcert.boundaries import Verdict
from smoothcert.contracts import ABSTAIN
from smoothcert.report.draws import tested
from smoothcert.report.metrics import Share
from smoothcert.report.scheme import Scheme
from smoothcert.runs.run import Row, Run


class Decision(NamedTuple):
    """How the test of one radius ended, and at which look."""

    verdict: Verdict
    look: int


@dataclass(frozen=True)
class Stretch:
    """One stage by itself, or all draws up to a number of them; shares are of all inputs of the run."""

    name: str
    certified: Share
    given_up: Share  # in a last stage: everything not certified
    undecided: Share  # passed on to the next stage, or still open


@dataclass(frozen=True)
class Course:
    """The test of one radius over the inputs of a run."""

    radius: float
    staged: bool
    untested: Share  # inputs on which a smaller radius had already failed
    stretches: tuple[Stretch, ...]


def courses(record: Run, scheme: Scheme) -> tuple[Course, ...]:
    """One course for each radius; none where votes are not kept, or other boundaries than these made the rows."""
    followed = [decisions(scheme, row) for row in record.rows]
    if not all(_agrees(scheme, row, found) for row, found in zip(record.rows, followed, strict=True)):
        return ()
    return tuple(
        _course(scheme, i, [found[i] if i < len(found) else None for found in followed])
        for i in range(len(scheme.tests))
    )


def decisions(scheme: Scheme, row: Row) -> list[Decision]:
    """How each radius that was tested ended: all but the last of them certified."""
    label, answers = tested_class(scheme.against, row), tested(row)
    look, ended = -1, list[Decision]()
    votes = np.zeros(1, dtype=np.int64)
    for test in scheme.tests:
        verdict = test.table.verdict(look, _hits(votes, label)) if look >= 0 else Verdict.CONTINUE
        while verdict is Verdict.CONTINUE and look + 1 < min(len(test.table.size), len(answers)):
            look += 1
            counts = np.array(answers[look], dtype=np.int64)
            votes = counts if test.table.fresh or look == 0 else votes + counts
            verdict = test.table.verdict(look, _hits(votes, label))
        ended.append(Decision(verdict, look))
        if verdict is not Verdict.CERTIFY:
            break
        label = int(votes.argmax()) if label is None else label
    return ended


def tested_class(against: str, row: Row) -> int | None:
    """The class under test; None: whichever leads."""
    if against == "labels":
        return row.label
    guess = next((answer.counts[0] for answer in row.answers if answer.purpose == "guess"), None)
    return None if guess is None else guess.index(max(guess))


def _hits(votes: np.ndarray[tuple[int], np.dtype[np.int64]], label: int | None) -> int:
    return int(votes.max() if label is None else votes[label])


def _agrees(scheme: Scheme, row: Row, found: Sequence[Decision]) -> bool:
    proven = [test.radius for test, end in zip(scheme.tests, found, strict=False) if end.verdict is Verdict.CERTIFY]
    whole = found[-1].look == len(tested(row)) - 1 >= 0
    return whole and proven[-1:] == ([] if row.predicted == ABSTAIN else [row.radius])


def _course(scheme: Scheme, number: int, ends: Sequence[Decision | None]) -> Course:
    known, inputs = [end for end in ends if end is not None], len(ends)
    test, last = scheme.tests[number], len(scheme.tests[number].table.size) - 1

    def stretch(name: str, look: int) -> Stretch:
        within = [end.verdict for end in known if (end.look == look if scheme.staged else end.look <= look)]
        certified, given_up = within.count(Verdict.CERTIFY), within.count(Verdict.GIVE_UP)
        arrived = sum(end.look >= look for end in known) if scheme.staged else len(known)
        undecided = arrived - certified - given_up
        if scheme.staged and look == last:
            given_up, undecided = given_up + undecided, 0
        return Stretch(name, Share(certified, inputs), Share(given_up, inputs), Share(undecided, inputs))

    stretches = tuple(stretch(name, look) for name, look in scheme.moments)
    return Course(test.radius, scheme.staged, Share(inputs - len(known), inputs), stretches)
