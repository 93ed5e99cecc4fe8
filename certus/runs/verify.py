"""Check a run with nothing but the run: recompute every radius from its counts, and redraw some inputs.

No object of the engine is used. Counts are replayed through the procedure and each lower bound is tested against the
binomial tail it claims; redraws run a plain loop over the noise of the recorded seeds with a freshly loaded model.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from certus.contracts import Certificate, Classifier, Draw, Noise, Source, Stream
from certus.data import Inputs
from certus.errors import RunError
from certus.recipe import Question, Recipe, build, build_procedure
from certus.runs.rows import Row
from certus.runs.store import read

ROWS = 64
# Two scores closer than this share of the largest may change places when the arithmetic's order changes.
CLOSE = 1e-4


@dataclass
class Findings:
    """What was looked at, and everything that is not as it should be."""

    rows: int = 0
    redrawn: int = 0
    votes: int = 0  # draws redrawn in all
    explained: int = 0  # votes that moved between classes whose scores are equal up to rounding
    problems: list[str] = field(default_factory=list)


def verify(
    folder: Path,
    inputs: Inputs,
    classifier: Classifier,
    redraw: int = 3,
    seed: int = 0,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Findings:
    """Every row recomputed, `redraw` rows drawn again; findings instead of exceptions."""
    record = read(folder)
    question = Recipe.read(folder / "recipe.toml").question
    findings = Findings(rows=len(record.rows))
    procedure, noise = build_procedure(question), build("noise", question.noise)
    labels = dict(zip(inputs.indices.tolist(), inputs.labels.tolist(), strict=True))
    dim = int(np.prod(inputs.shape))
    for row in record.rows:
        if labels.get(row.index) != row.label:
            findings.problems.append(f"input {row.index}: label {row.label} is not the data's {labels.get(row.index)}")
        findings.problems += [f"input {row.index}: {problem}" for problem in recompute(row, procedure, noise, dim)]
    known = [row for row in record.rows if row.index in labels]
    sample = random.Random(seed).sample(known, min(redraw, len(known)))
    total = sum(row.draws or 0 for row in sample)
    for row in sample:
        x = inputs.tensor(inputs.indices.tolist().index(row.index))
        _redraw(row, x, question, noise, classifier, findings, lambda: advance(findings.votes, total))
    return findings


def recompute(row: Row, procedure: Any, noise: Noise, dim: int) -> list[str]:
    """Replay the stored answers through the procedure, and hold label, radius and bound against the row."""
    problems = [
        f"{sum(column)} votes in {answer.draws} {answer.purpose} draws"
        for answer in row.answers
        for column in answer.counts
        if sum(column) != answer.draws
    ]
    try:
        certificate = _replay(row, procedure, noise, dim)
    except RunError as error:
        return [*problems, str(error)]
    if certificate.label != row.predicted:
        problems.append(f"counts give label {certificate.label}; the row says {row.predicted}")
    # Another platform's special functions may differ in the last digits; a radius may never be larger.
    if not abs(certificate.radius - row.radius) <= 1e-9 * max(row.radius, 1e-9):
        problems.append(f"counts give radius {certificate.radius!r}; the row says {row.radius!r}")
    problems += _tail(certificate)
    draws = sum(answer.draws for answer in row.answers if answer.purpose != "clean")
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
    tail = float(bdtrc(hits - 1, evidence.draws, evidence.low))
    return [] if tail <= evidence.alpha * (1 + 1e-9) else [f"the bound {evidence.low} has error {tail}, above alpha"]


def _replay(row: Row, procedure: Any, noise: Noise, dim: int) -> Certificate:
    """Run the procedure on stored answers instead of a network."""
    answers = [answer for answer in row.answers if answer.purpose != "clean"]
    steps = procedure(Source(_no_network, noise), dim, row.label)
    asked: Draw = next(steps)
    for answer in answers:
        if (asked.purpose, asked.draws) != (answer.purpose, answer.draws):
            raise RunError(
                f"{answer.draws} {answer.purpose} draws are stored where {asked.draws} {asked.purpose} belong"
            )
        try:
            asked = steps.send(np.array(answer.counts, dtype=np.int64))
        except StopIteration as end:
            certificate: Certificate = end.value
            return certificate
    raise RunError(f"answers end where {asked.draws} {asked.purpose} draws should follow")


def _no_network(x: Any) -> Any:
    raise RunError("a replay must not ask the network")


def _redraw(
    row: Row,
    x: Any,
    question: Question,
    noise: Noise,
    classifier: Classifier,
    findings: Findings,
    advance: Callable[[], None],
) -> None:
    """Draw every answer of a row again and compare the counts."""
    first: dict[str, int] = {}
    findings.redrawn += 1
    for answer in row.answers:
        start = first.get(answer.purpose, 0)
        first[answer.purpose] = start + answer.draws
        if answer.purpose == "clean":
            continue
        stream = Stream(question.seed, row.index, answer.purpose)
        counts, close = _count_again(classifier, noise, x, stream, start, answer, findings, advance)
        moved = int(np.abs(counts - np.array(answer.counts[0])).sum()) // 2
        if moved > close:
            findings.problems.append(
                f"input {row.index}: {moved} of {answer.draws} {answer.purpose} votes differ when drawn again, "
                f"{close} of them explained by scores equal up to rounding"
            )
        findings.explained += min(moved, close)


def _count_again(
    classifier: Classifier,
    noise: Noise,
    x: Any,
    stream: Stream,
    start: int,
    answer: Any,
    findings: Findings,
    advance: Callable[[], None],
) -> tuple[Any, int]:
    """Votes of the same draws, and how many of them are close calls."""
    import torch

    counts = np.zeros(len(answer.counts[0]), dtype=np.int64)
    close = 0
    batch = torch.zeros(ROWS, *x.shape)
    for at in range(start, start + answer.draws, ROWS):
        rows = min(ROWS, start + answer.draws - at)
        noise.fill(batch[:rows], x, stream, at)
        scores = classifier(batch)[:rows]
        if scores.shape[1] != len(counts):
            raise RunError(
                f"the model must have {len(counts)} classes, as when the run was made; got {scores.shape[1]}"
            )
        counts += np.bincount(scores.argmax(1).numpy(), minlength=len(counts))
        if scores.shape[1] > 1:
            top = scores.topk(2, dim=1).values
            close += int((top[:, 0] - top[:, 1] <= CLOSE * scores.abs().amax(1)).sum())
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
