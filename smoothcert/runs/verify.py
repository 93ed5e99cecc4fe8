"""Check a run with nothing but the run: recompute every radius from its counts, and redraw some inputs.

No object of the engine is used. Counts are replayed through the procedure and each lower bound is tested against the
binomial tail it claims; redraws run a plain loop over the noise of the recorded seeds with a freshly loaded model.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from smoothcert.classifiers import composite, digest, load, ready
from smoothcert.classifiers.composed import Bundle
from smoothcert.contracts import Answer, Certificate, Classifier, Draw, Source, Stream, input_key
from smoothcert.data import Inputs
from smoothcert.errors import RunError
from smoothcert.noise import at_level
from smoothcert.runs.run import UNCOUNTED, Row, Run
from smoothcert.runs.store import MODEL
from smoothcert.runs.verify_memory import replay_memory
from smoothcert.spec import Spec, procedure_name

ROWS = 64
# By this share of the largest, scores may move when the arithmetic's order changes.
CLOSE = 5e-5
MOST_SEAMS = 16  # continuations of a run that are drawn from, at the most


@dataclass
class Findings:
    """What was looked at, and everything that is not as it should be."""

    rows: int = 0
    redrawn: int = 0
    votes: int = 0  # draws redrawn in all
    explained: int = 0  # votes that moved between classes whose scores are equal up to rounding
    settled: int = 0  # answers of a memory, replayed
    attempts: int = 0  # in which the rows came about: the first, and each that continued it
    redrawn_attempts: int = 0  # of these, with a row that was drawn again
    problems: list[str] = field(default_factory=list)


class Places(NamedTuple):
    """Where things are now, if they have moved."""

    model: str | None = None
    data: str | None = None
    memory: str | None = None

    def inputs(self, spec: Spec) -> Inputs:
        return replace(spec.data, spec=self.data or spec.data.spec).load()

    def model_of(self, run: Run) -> str:
        """A composition is kept inside its run, and moves with it."""
        own = None if run.folder is None else run.folder / MODEL
        return self.model or (str(own) if own is not None and composite.is_composite(own) else run.asked.model)


def verify_run(
    run: Run,
    places: Places | None = None,
    redraw: int = 3,
    seed: int | None = None,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Findings:
    """Load what a run was made with, hold it against its hashes, and verify the run."""
    places, spec = places or Places(), run.asked
    inputs, place = places.inputs(spec), places.model_of(run)
    loaded = load(place)
    changed = check_files(spec, inputs, digest(place).hex)
    classifier = ready(loaded, inputs.tensor(0)).classifier
    findings = verify(run, inputs, classifier, redraw, seed, advance, places.memory)
    return replace(findings, problems=[*changed, *findings.problems])


def verify(
    run: Run,
    inputs: Inputs,
    classifier: Classifier,
    redraw: int = 3,
    seed: int | None = None,
    advance: Callable[[int, int], None] = lambda done, total: None,
    memory: str | None = None,
) -> Findings:
    """Every row recomputed, at least `redraw` rows drawn again; findings instead of exceptions.

    `seed` chooses which rows are drawn again; None: nobody can foresee them. `memory`: where it is now.
    """
    spec, findings = run.asked, Findings()
    source = Source(classifier, spec.noise)
    labels = dict(zip(inputs.indices.tolist(), inputs.labels.tolist(), strict=True))
    for row in run.rows:
        if labels.get(row.index) != row.label:
            findings.problems.append(f"input {row.index}: label {row.label} is not the data's {labels.get(row.index)}")
    drawn = [row.smoothed for row in run.rows if not _recalled(row, run)]
    findings.rows = len(drawn)
    for row in drawn:
        problems = recompute(row, spec.procedure, source_of(row, source), spec.dim)
        findings.problems += [f"input {row.index}: {problem}" for problem in problems]
    if run.memory is not None:
        findings.settled = sum(row.settled is not None for row in run.rows)
        findings.problems += replay_memory(run, run.memory, inputs, memory, spec.seed)
    elif memory is not None:
        raise RunError(f"{run.name} must be a run with a memory if one is given; got {memory} and a run without")
    sample = spread_out([row for row in drawn if row.index in labels], redraw, seed)
    findings.attempts, findings.redrawn_attempts = (len({row.attempt for row in rows}) for rows in (drawn, sample))
    total = sum(row.draws or 0 for row in sample)
    for row in sample:
        x = inputs.tensor(inputs.indices.tolist().index(row.index))
        own = source_of(row, source)
        draw_again(row, x, spec.procedure, own, spec.seed, findings, lambda: advance(findings.votes, total))
    return findings


def spread_out(rows: Sequence[Row], number: int, seed: int | None) -> list[Row]:
    """So many rows from all over a run, one at random from each stretch, and one at least of every continuation.

    Whatever changed between a run's beginning and its end (the model behind a name, above all) meets a draw.
    """
    if number == 0 or not rows:
        return []
    rng = random.SystemRandom() if seed is None else random.Random(seed)
    attempts: dict[int, list[Row]] = {}
    for row in rows:
        attempts.setdefault(row.attempt, []).append(row)
    most = sorted(attempts)[:: max(1, -(-len(attempts) // MOST_SEAMS))]
    chosen = {row.index: row for row in (rng.choice(attempts[attempt]) for attempt in most)}
    left = [row for row in rows if row.index not in chosen]
    more = min(max(0, number - len(chosen)), len(left))
    for place in range(more):
        row = rng.choice(left[place * len(left) // more : (place + 1) * len(left) // more])
        chosen[row.index] = row
    return [chosen[index] for index in sorted(chosen)]


def _recalled(row: Row, run: Run) -> bool:
    """Whether a memory that no longer changes answered instead of draws; the replay of the memory holds it to that."""
    return row.settled is not None and run.memory is not None and run.memory.frozen


def source_of(row: Row, source: Source) -> Source:
    """What was sampled for one input: at the input's own noise level, where one was chosen."""
    return source if row.sigma is None else replace(source, noise=at_level(source.noise, row.sigma))


def recompute(row: Row, procedure: Any, source: Source, dim: int) -> list[str]:
    """Replay the stored answers through the procedure, and hold label, radius and bound against the row."""
    problems = [
        f"{sum(column)} votes in {answer.draws} {answer.purpose} draws"
        for answer in row.answers
        for column in answer.counts
        if sum(column) != answer.draws
    ]
    try:
        certificate, _ = replay(row, procedure, source, dim)
    except RunError as error:
        return [*problems, str(error)]
    if certificate.label != row.predicted:
        problems.append(f"counts give label {certificate.label}; the row says {row.predicted}")
    # Another platform's special functions may differ in the last digits; a radius may never be larger.
    if not abs(certificate.radius - row.radius) <= 1e-9 * max(row.radius, 1e-9):
        problems.append(f"counts give radius {certificate.radius!r}; the row says {row.radius!r}")
    for part in (certificate, *certificate.parts):
        problems += _tail(part)
    draws = sum(answer.draws for answer in row.answers if answer.purpose not in UNCOUNTED)
    if draws != row.draws:
        problems.append(f"answers hold {draws} draws; the row says {row.draws}")
    return problems


def _tail(certificate: Certificate) -> list[str]:
    """One look's lower bound against the binomial tail it claims, by another function than made it."""
    from scipy.special import bdtrc

    evidence = certificate.evidence
    if certificate.abstained or len(evidence.counts) != 1 or evidence.low <= 0:
        return []
    hits = evidence.counts[0][evidence.label]
    if evidence.alpha == 0.0:  # every case was counted: the bound is the share itself
        return [] if evidence.low == hits / evidence.draws else [f"{evidence.low} is not {hits} of {evidence.draws}"]
    tail = float(bdtrc(hits - 1, evidence.draws, evidence.low))
    return [] if tail <= evidence.alpha * (1 + 1e-9) else [f"the bound {evidence.low} has error {tail}, above alpha"]


def draw_again(
    row: Row, x: Any, procedure: Any, source: Source, seed: int, findings: Findings, advance: Callable[[], None]
) -> None:
    """Draw every answer of a row again, from the source that the procedure asks, and compare the counts."""
    first: dict[str, int] = {}
    findings.redrawn += 1
    try:
        _, asked = replay(row, procedure, source, x.numel())
    except RunError:
        return  # said already, where the row was recomputed
    for draw, answer in asked:
        start = first.get(answer.purpose, 0)
        first[answer.purpose] = start + answer.draws
        counts, close = _count_again(
            draw, x, Stream(seed, input_key(x), answer.purpose), start, answer, findings, advance
        )
        moved = np.abs(counts - np.array(answer.counts)).sum(axis=1) // 2
        for column, (votes, calls) in enumerate(zip(moved.tolist(), close.tolist(), strict=True)):
            if votes > calls:
                where = f"{answer.purpose} votes" if column == 0 else f"{answer.purpose} votes in column {column + 1}"
                findings.problems.append(
                    f"input {row.index}: {votes} of {answer.draws} {where} differ when drawn again, "
                    f"{calls} of them explained by scores equal up to rounding"
                )
            findings.explained += min(votes, calls)


def _count_again(
    draw: Draw,
    x: Any,
    stream: Stream,
    start: int,
    answer: Answer,
    findings: Findings,
    advance: Callable[[], None],
) -> tuple[Any, Any]:
    """Votes [columns, outcomes] of the same draws, and how many in each column are close calls."""
    import torch

    source, outcomes = draw.source, len(answer.counts[0])
    counts = np.zeros((len(answer.counts), outcomes), dtype=np.int64)
    close = np.zeros(len(answer.counts), dtype=np.int64)
    batch = torch.zeros(ROWS, *x.shape)
    for at in range(start, start + answer.draws, ROWS):
        rows = min(ROWS, start + answer.draws - at)
        source.noise.fill(batch[:rows], x, stream, at)
        scores = source.classifier(batch)[:rows]
        if source.readout.outcomes(scores.shape[1]) != outcomes:
            raise RunError(f"the model must have {outcomes} classes, as when the run was made; got {scores.shape[1]}")
        votes = source.readout(scores).numpy()
        counts += np.stack([np.bincount(column, minlength=outcomes) for column in votes.T])
        close += source.readout.close(scores, CLOSE).numpy().sum(axis=0)
        findings.votes += rows
        advance()
    return counts, close


def check_files(spec: Spec, inputs: Inputs, model_digest: str) -> list[str]:
    """Whether model and data are still what the run was made with."""
    problems: Sequence[tuple[bool, str]] = [
        (
            model_digest == spec.model_digest,
            f"model {spec.model} is not the one that was certified (its hash differs)",
        ),
        (inputs.digest == spec.data_digest, f"data {spec.data.spec} is not what was certified (its hash differs)"),
    ]
    return [problem for fine, problem in problems if not fine]


class AskedDraw(NamedTuple):
    """What the procedure asked, and what the row says it was answered."""

    draw: Draw
    answer: Answer


def replay(row: Row, procedure: Any, source: Source, dim: int) -> tuple[Certificate, list[AskedDraw]]:
    """The certificate that the stored answers give; RunError where they are not those that the procedure asks for."""
    answers, asked = [answer for answer in row.answers if answer.purpose != "clean"], list[AskedDraw]()
    steps = procedure(source, dim, row.label)
    draw: Draw = next(steps)
    for answer in answers:
        if (draw.purpose, draw.draws) != (answer.purpose, answer.draws):
            raise RunError(f"{answer.draws} {answer.purpose} draws are stored where {draw.draws} {draw.purpose} belong")
        asked.append(AskedDraw(draw, answer))
        try:
            draw = steps.send(np.array(answer.counts, dtype=np.int64))
        except StopIteration as end:
            return end.value, asked
    raise RunError(f"answers end where {draw.draws} {draw.purpose} draws should follow")


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
