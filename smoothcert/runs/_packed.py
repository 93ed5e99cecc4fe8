"""A row as the database holds it: plain columns, and its answers as JSON that leaves out what got no votes."""

from __future__ import annotations

import json
from typing import Any

from smoothcert.contracts import Answer
from smoothcert.errors import RunError
from smoothcert.runs.rows import Row

MANY = 12  # outcomes with votes from which on a column without wide gaps is stored as a histogram: half as long


def values(row: Row) -> tuple[Any, ...]:
    """Its columns, in the order of the table's."""
    answers = [
        [purpose, draws, len(counts[0]), [_sparse(column) for column in counts]]
        for purpose, draws, counts in row.answers
    ]
    row = row.smoothed
    return (
        row.index, row.label, row.predicted, row.radius, row.draws, row.seconds, row.clean, row.low,
        json.dumps(answers, separators=(",", ":")),
    )  # fmt: skip


def row_of(values: tuple[Any, ...]) -> Row:
    """The row that such columns are."""
    index, label, predicted, radius, draws, seconds, clean, low, stored = values
    try:
        answers = tuple(
            Answer(purpose, draws, tuple(_dense(column, outcomes) for column in columns))
            for purpose, draws, outcomes, columns in json.loads(stored)
        )
    except (ValueError, TypeError, IndexError) as error:
        raise RunError(f"answers of input {index} must be readable; they are damaged ({error})") from error
    return Row(index, label, predicted, radius, draws, seconds, clean, low, answers)


def _sparse(column: tuple[int, ...]) -> list[Any]:
    """Pairs of outcome and votes; of a histogram its first outcome, then all votes to the last one that has any."""
    pairs = [[i, votes] for i, votes in enumerate(column) if votes]
    if len(pairs) < MANY or pairs[-1][0] - pairs[0][0] >= 2 * len(pairs):
        return pairs
    return [pairs[0][0], *column[pairs[0][0] : pairs[-1][0] + 1]]


def _dense(stored: list[Any], outcomes: int) -> tuple[int, ...]:
    counts = [0] * outcomes
    if stored and isinstance(stored[0], int):
        counts[stored[0] : stored[0] + len(stored) - 1] = stored[1:]
        if len(counts) > outcomes:
            raise IndexError("a histogram is too long")
        return tuple(counts)
    for outcome, votes in stored:
        counts[outcome] = votes
    return tuple(counts)
