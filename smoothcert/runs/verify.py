"""Check a run with nothing but the run: recompute every radius from its counts, and redraw some inputs.

No object of the engine is used. Counts are replayed through the procedure and each lower bound is tested against the
binomial tail it claims; redraws run a plain loop over the noise of the recorded seeds with a freshly loaded model.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.contracts import Answer, Certificate, Classifier, Draw, Source, Stream, input_key
from smoothcert.data import Inputs
from smoothcert.errors import RunError
from smoothcert.noise import at_level
from smoothcert.recipe import Question, Recipe, build, build_procedure
from smoothcert.runs.replay import replay
from smoothcert.runs.rows import UNCOUNTED, Record, Row
from smoothcert.runs.store import read
from smoothcert.runs.verify_memory import replay_memory

ROWS = 64
# By this share of the largest, scores may move when the arithmetic's order changes.
CLOSE = 5e-5


@dataclass
class Findings:
    """What was looked at, and everything that is not as it should be."""

    rows: int = 0
    redrawn: int = 0
    votes: int = 0  # draws redrawn in all
    explained: int = 0  # votes that moved between classes whose scores are equal up to rounding
    settled: int = 0  # answers of a memory, replayed
    problems: list[str] = field(default_factory=list)


def verify(
    folder: Path,
    inputs: Inputs,
    classifier: Classifier,
    redraw: int = 3,
    seed: int = 0,
    advance: Callable[[int, int], None] = lambda done, total: None,
    memory: str | None = None,
) -> Findings:
    """Every row recomputed, `redraw` rows drawn again; findings instead of exceptions. `memory`: where it is now."""
    record = read(folder)
    question = Recipe.read(folder / "recipe.toml").question
    findings = Findings()
    procedure, source = build_procedure(question), Source(classifier, build("noise", question.noise))
    labels = dict(zip(inputs.indices.tolist(), inputs.labels.tolist(), strict=True))
    dim = int(np.prod(inputs.shape))
    for row in record.rows:
        if labels.get(row.index) != row.label:
            findings.problems.append(f"input {row.index}: label {row.label} is not the data's {labels.get(row.index)}")
    drawn = [row.smoothed for row in record.rows if not _recalled(row, record)]
    findings.rows = len(drawn)
    for row in drawn:
        own = source_of(row, source)
        findings.problems += [f"input {row.index}: {problem}" for problem in recompute(row, procedure, own, dim)]
    if "memory" in record.settings:
        findings.settled = sum(row.settled is not None for row in record.rows)
        findings.problems += replay_memory(record, inputs, memory, question.seed)
    elif memory is not None:
        raise RunError(f"{folder} must be a run with a memory if one is given; got {memory} and a run without")
    known = [row for row in drawn if row.index in labels]
    sample = random.Random(seed).sample(known, min(redraw, len(known)))
    total = sum(row.draws or 0 for row in sample)
    for row in sample:
        x = inputs.tensor(inputs.indices.tolist().index(row.index))
        own = source_of(row, source)
        draw_again(row, x, procedure, own, question.seed, findings, lambda: advance(findings.votes, total))
    return findings


def _recalled(row: Row, record: Record) -> bool:
    """Whether a memory that no longer changes answered instead of draws; the replay of the memory holds it to that."""
    return row.settled is not None and "regions" in record.settings.get("memory", {})


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


def check_files(question: Question, inputs: Inputs, model_digest: str) -> list[str]:
    """Whether model and data are still what the run was made with."""
    problems: Sequence[tuple[bool, str]] = [
        (
            model_digest == question.model_digest,
            f"model {question.model} is not the one that was certified (its hash differs)",
        ),
        (inputs.digest == question.data_digest, f"data {question.data} is not what was certified (its hash differs)"),
    ]
    return [problem for fine, problem in problems if not fine]
