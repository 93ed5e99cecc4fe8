"""Draw rows again from their seeds: a plain loop over the recorded noise, with a freshly loaded model.

On the platform that made a run the counts come out equal. Elsewhere a vote may move where two scores are equal up to
rounding. How large rounding is, the network itself shows: by how much its scores move when the same rows come in
another order, and when every value is off by one unit in its last place. So a network cannot buy excuses by large
scores, and no more than EXCUSED of the votes are excused in any case.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from smoothcert.contracts import Classifier, Source, Stream, Tensor, TopClass, batch_rows, input_key
from smoothcert.errors import RunError
from smoothcert.preparation.per_input_sigma import PURPOSE
from smoothcert.runs.recompute import AskedDraw, replay, source_of
from smoothcert.runs.run import Row
from smoothcert.spec import Spec

FACTOR = 16  # rounding inside a deep network, in units of what its inputs' last place does
EXCUSED = 0.001  # of the votes of one answer, and three more
MOST_SEAMS = 16  # continuations of a run that are drawn from, at the most
SAME_LEVEL = 1e-3  # relative: a search repeats itself but for rounding


@dataclass
class Redrawn:
    """What came of drawing one row again."""

    votes: int = 0
    excused: int = 0  # votes that moved between classes whose scores are equal up to rounding
    problems: list[str] = field(default_factory=list)


class Counted(NamedTuple):
    """Votes [columns, outcomes], and how many in each column rounding may have moved."""

    votes: Any
    close: Any


def usual(rows: int) -> int:
    """How many rows are drawn again unless said otherwise: more of a larger run, at a falling share of its cost."""
    return max(3, math.isqrt(max(0, rows - 1)) + 1)


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


def draw_again(
    row: Row, x: Tensor, spec: Spec, source: Source, advance: Callable[[int], None] = lambda votes: None
) -> Redrawn:
    """Draw every answer of a row again, from the source that the procedure asks, and compare the counts."""
    found, first = Redrawn(), dict[str, int]()
    try:
        _, asked = replay(row, spec.procedure, source_of(row, source), spec.dim)
    except RunError:
        return found  # said already, where the row was recomputed
    for one in asked:
        purpose, draws = one.answer.purpose, one.answer.draws
        start = first.get(purpose, 0)
        first[purpose] = start + draws
        counted = _count(one, x, Stream(spec.seed, input_key(x), purpose), start, advance)
        found.votes += draws
        _compare(one, counted, found)
    found.problems += _clean_again(row, x, source)
    return found


def _compare(one: AskedDraw, counted: Counted, found: Redrawn) -> None:
    """Hold counts against those of the row, column by column."""
    answer = one.answer
    moved = np.abs(counted.votes - np.array(answer.counts)).sum(axis=1) // 2
    most = 3 + int(EXCUSED * answer.draws)
    for column, (votes, close) in enumerate(zip(moved.tolist(), counted.close.tolist(), strict=True)):
        excused = min(close, most)
        if votes > excused:
            where = f"{answer.purpose} votes" if column == 0 else f"{answer.purpose} votes in column {column + 1}"
            found.problems.append(
                f"{votes} of {answer.draws} {where} differ when drawn again; rounding explains at most {excused}"
            )
        found.excused += min(votes, excused)


def _count(one: AskedDraw, x: Tensor, stream: Stream, start: int, advance: Callable[[int], None]) -> Counted:
    """Votes of the same draws."""
    source, answer = one.draw.source, one.answer
    outcomes, rows = len(answer.counts[0]), rows_of(source.classifier, x)
    votes = np.zeros((len(answer.counts), outcomes), dtype=np.int64)
    close = np.zeros(len(answer.counts), dtype=np.int64)
    batch, error = torch.zeros(rows, *x.shape), None
    for at in range(start, start + answer.draws, rows):
        filled = min(rows, start + answer.draws - at)
        source.noise.fill(batch[:filled], x, stream, at)
        scores = source.classifier(batch)[:filled]
        seen = source.readout(scores).numpy().T
        if (len(seen), source.readout.outcomes(scores.shape[1])) != votes.shape:
            known = outcomes if outcomes > 2 or len(votes) == 1 else len(votes)  # votes for it and not, class by class
            raise RunError(f"the model must have {known} classes, as when the run was made; got {scores.shape[1]}")
        error = rounding(source.classifier, batch) if error is None else error
        votes += np.stack([np.bincount(column, minlength=outcomes) for column in seen])
        close += source.readout.close(scores, error).numpy().sum(axis=0)
        advance(filled)
    return Counted(votes, close)


def rows_of(classifier: Classifier, x: Tensor) -> int:
    """Rows of a batch: those that a network was exported with, or as many as a run's batches have where it matters."""
    return getattr(classifier, "rows", None) or batch_rows(x.shape)


def rounding(classifier: Classifier, batch: Tensor) -> float:
    """How far the scores of a batch [rows, ...] may move by rounding alone, measured."""
    scores = classifier(batch)
    signs = torch.where(torch.arange(batch.numel()).reshape(batch.shape) % 2 == 0, math.inf, -math.inf)
    others = [classifier(batch.flip(0)).flip(0), classifier(torch.nextafter(batch, signs))]
    known = scores.isfinite()
    moved = max(
        float((other - scores)[known].abs().nan_to_num(0.0).max()) if bool(known.any()) else 0.0 for other in others
    )
    largest = float(scores[known].abs().max()) if bool(known.any()) else 0.0
    return FACTOR * moved + 4 * float(np.finfo(np.float32).eps) * largest


def _clean_again(row: Row, x: Tensor, source: Source) -> list[str]:
    """The base classifier's own answer, asked again."""
    base = getattr(source.classifier, "base", source.classifier)
    batch = x.expand(rows_of(base, x), *x.shape).contiguous()
    scores = base(batch)
    label = int(scores[0].argmax())
    if label == row.clean or bool(TopClass().close(scores[:1], rounding(base, batch)).any()):
        return []
    return [f"without noise the model says {label}; the row says {row.clean}"]


def level_again(row: Row, x: Tensor, spec: Spec, network: Classifier) -> list[str]:
    """The search for an input's own noise level, repeated."""
    if spec.preparation is None or row.sigma is None:
        return []
    stream = Stream(spec.seed, input_key(x), PURPOSE)
    (found,) = spec.preparation(network, spec.noise, x.unsqueeze(0), [stream])
    if abs(found.sigma - row.sigma) <= SAME_LEVEL * row.sigma:
        return []
    return [f"its own noise level is {found.sigma:g} when searched for again; the row says {row.sigma:g}"]


@dataclass(frozen=True, eq=False)
class WholeBatches:
    """A classifier that is only ever asked in batches of one size, filled up with what is left out afterwards."""

    classifier: Classifier
    rows: int

    def __call__(self, x: Tensor) -> Tensor:
        scores = []
        for part in torch.split(x, self.rows):
            more = part[-1:].expand(self.rows - len(part), *part.shape[1:])
            scores.append(self.classifier(torch.cat([part, more]))[: len(part)])
        return torch.cat(scores)
