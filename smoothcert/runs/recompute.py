"""What stored counts give: each row's certificate anew, by replaying its answers through the procedure.

No network is asked, and no object of the engine is used. Each lower bound is also held against the binomial tail that
it claims, by another function than made it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from smoothcert.classifiers import composite
from smoothcert.classifiers.composed import Bundle
from smoothcert.contracts import Answer, Certificate, Draw, Source
from smoothcert.errors import RunError
from smoothcert.noise import at_level
from smoothcert.runs.run import UNCOUNTED, Row, Run
from smoothcert.runs.store import MODEL
from smoothcert.spec import Spec, procedure_name

CLEAN = "clean"  # the purpose of the look without noise, which no procedure asks for
# Another platform's special functions may differ in the last digits: a stored number may be smaller by so much, and
# never larger.
SMALLER = 1e-9


class AskedDraw(NamedTuple):
    """What the procedure asked, and what the row says it was answered."""

    draw: Draw
    answer: Answer


def source_of(row: Row, source: Source) -> Source:
    """What was sampled for one input: at the input's own noise level, where one was chosen."""
    return source if row.sigma is None else replace(source, noise=at_level(source.noise, row.sigma))


def replay(row: Row, procedure: Any, source: Source, dim: int) -> tuple[Certificate, list[AskedDraw]]:
    """The certificate that the stored answers give; RunError where they are not those that the procedure asks for."""
    answers, asked = [answer for answer in row.answers if answer.purpose != CLEAN], list[AskedDraw]()
    try:
        steps = procedure(source, dim, row.label)
        draw: Draw = next(steps)
        for answer in answers:
            if (draw.purpose, draw.draws) != (answer.purpose, answer.draws):
                stored, belong = (f"{one.draws} {one.purpose} draws" for one in (answer, draw))
                raise RunError(f"{stored} are stored where {belong} belong")
            asked.append(AskedDraw(draw, answer))
            draw = steps.send(np.array(answer.counts, dtype=np.int64))
    except StopIteration as end:
        if len(asked) != len(answers):
            raise RunError(f"{len(answers)} answers are stored where {len(asked)} belong") from None
        return end.value, asked
    except (IndexError, ValueError, OverflowError) as error:  # counts of another number of classes than the question's
        raise RunError(f"answers are not those of this procedure ({error})") from error
    raise RunError(f"answers end where {draw.draws} {draw.purpose} draws should follow")


def recompute(row: Row, spec: Spec, source: Source) -> list[str]:
    """Replay the stored answers through the procedure, and hold everything that follows from them against the row."""
    try:
        row = replace(row, answers=tuple(iter(row.answers)))  # read once
    except RunError as error:
        return [str(error)]
    problems = [
        f"{sum(column)} votes in {answer.draws} {answer.purpose} draws"
        for answer in row.answers
        for column in answer.counts
        if sum(column) != answer.draws
    ]
    problems += [*_level(row, spec), *_looks(row)]
    try:
        certificate, _ = replay(row, spec.procedure, source_of(row, source), spec.dim)
    except RunError as error:
        return [*problems, str(error)]
    if certificate.label != row.predicted:
        problems.append(f"counts give label {certificate.label}; the row says {row.predicted}")
    if not _not_above(row.radius, certificate.radius):
        problems.append(f"counts give radius {certificate.radius!r}; the row says {row.radius!r}")
    low = certificate.evidence.low if certificate.evidence.low > 0 else None
    if (low is None) != (row.low is None) or not _not_above(row.low or 0.0, low or 0.0):
        problems.append(f"counts give the bound {low!r}; the row says {row.low!r}")
    for part in (certificate, *certificate.parts):
        problems += _tail(part)
    return problems


def _not_above(stored: float, proven: float) -> bool:
    return proven * (1 - SMALLER) <= stored <= proven


def _level(row: Row, spec: Spec) -> list[str]:
    """A level of its own has an input if, and only if, the question says that it is searched for."""
    if spec.preparation is None:
        return [] if row.sigma is None else [f"it has a noise level of its own, {row.sigma:g}, in a run without any"]
    if row.sigma is None:
        return ["it must have a noise level of its own; it has none"]
    low, high = spec.preparation.bounds(spec.sigma or 0.0)
    inside = low * (1 - SMALLER) <= row.sigma <= high * (1 + SMALLER)
    return [] if inside else [f"its noise level must be from {low:g} to {high:g}; it is {row.sigma:g}"]


def _looks(row: Row) -> list[str]:
    """Numbers that a row repeats from its answers: the label without noise, and the draws."""
    looks, problems = [answer for answer in row.answers if answer.purpose == CLEAN], []
    if len(looks) != 1 or looks[0].draws != 1 or np.argmax(looks[0].counts[0]) != row.clean:
        seen = [int(np.argmax(answer.counts[0])) for answer in looks]
        problems.append(f"answers hold the labels {seen} without noise; the row says {row.clean}")
    draws = sum(answer.draws for answer in row.answers if answer.purpose not in UNCOUNTED)
    if draws != row.draws:
        problems.append(f"answers hold {draws} draws; the row says {row.draws}")
    return problems


def _tail(certificate: Certificate) -> list[str]:
    """One look's lower bound against the binomial tail it claims, by another function than made it."""
    from scipy.special import bdtrc, betainc

    evidence = certificate.evidence
    if certificate.abstained or len(evidence.counts) != 1 or evidence.low <= 0:
        return []
    hits = evidence.counts[0][evidence.label]
    if evidence.alpha == 0.0:  # every case was counted: the bound is the share itself
        return [] if evidence.low == hits / evidence.draws else [f"{evidence.low} is not {hits} of {evidence.draws}"]
    tail = float(bdtrc(hits - 1, evidence.draws, evidence.low))
    if math.isnan(tail):  # it counts in 32 bits
        tail = float(betainc(hits, evidence.draws - hits + 1, evidence.low))
    rounding = 1e-9 + 4e-15 * evidence.draws  # of that function, which loses digits: 1.4e-7 at 10⁸ draws
    fine = tail <= evidence.alpha * (1 + rounding)
    return [] if fine else [f"the bound {evidence.low} has error {tail}, above alpha"]


class Replayed(NamedTuple):
    """A run of a composition: its networks' roles and noises, and each row with its certificate in all its parts."""

    bundle: Bundle
    described: composite.Composite
    rows: list[tuple[Row, Certificate]]


def composition(run: Run, kind: str) -> Replayed:
    """Every row of a run of this kind of composition, from its counts; no network is asked."""
    spec = run.asked
    if procedure_name(spec.procedure) != kind or run.folder is None:
        got = procedure_name(spec.procedure)
        raise RunError(f"run {run.name} must be one of smoothcert {kind} certify; got {got}")
    networks, described = composite.outline(run.folder / MODEL), composite.read(run.folder / MODEL)
    source = Source(networks, spec.noise)
    return Replayed(networks, described, [(row, replay(row, spec.procedure, source, spec.dim)[0]) for row in run.rows])
