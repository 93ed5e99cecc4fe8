"""Rows as a run's database holds them: numbers with bounds, and answers as JSON that leaves out what got no votes.

Answers are most of a run, and most readers look at few of them: they stay text until somebody asks.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from smoothcert.contracts import ABSTAIN, Answer
from smoothcert.errors import RunError
from smoothcert.runs.run import BeforeMemory, Row

COLUMNS = ("idx", "label", "predicted", "radius", "draws", "seconds", "clean", "low", "sigma", "answers", "attempt")
WHOLE, REAL, TEXT, NONE = (int,), (float,), (str,), type(None)
TYPES = (WHOLE, WHOLE, WHOLE, REAL, WHOLE, (float, NONE), (int, NONE), (float, NONE), (float, NONE), TEXT, WHOLE)
SETTLED = (WHOLE, REAL, (str, NONE), (int, NONE), WHOLE, WHOLE)
MANY = 12  # outcomes with votes from which on a column without wide gaps is stored as a histogram: half as long
MOST_DRAWS, MOST_OUTCOMES = 10**15, 10**6  # of one answer: bounds of what a reader takes seriously
MOST_COUNTS = 8 * MOST_OUTCOMES  # of all columns of an answer
LARGEST = 1e12  # radius, and seconds: sums of their squares stay finite


class StoredAnswers(Sequence[Answer]):
    """The answers of one row, as text; read, and found to be damaged, when they are asked for."""

    __slots__ = ("_index", "_text")

    def __init__(self, index: int, text: str) -> None:
        self._index, self._text = index, text

    def _read(self) -> tuple[Answer, ...]:
        try:
            return tuple(_answer(*one) for one in json.loads(self._text))  # which looks at every value itself
        except (ValueError, TypeError, IndexError, RecursionError) as error:
            raise RunError(f"answers of input {self._index} must be readable; they are damaged ({error})") from error

    @overload
    def __getitem__(self, which: int) -> Answer: ...
    @overload
    def __getitem__(self, which: slice) -> Sequence[Answer]: ...
    def __getitem__(self, which: int | slice) -> Answer | Sequence[Answer]:
        return self._read()[which]

    def __len__(self) -> int:
        return len(self._read())

    def __iter__(self) -> Iterator[Answer]:
        return iter(self._read())

    def __bool__(self) -> bool:
        return self._text != "[]"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, StoredAnswers) and self._text == other._text:
            return True
        return isinstance(other, StoredAnswers | tuple) and self._read() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._read())

    def __repr__(self) -> str:
        return repr(self._read())


def row_values(row: Row) -> tuple[Any, ...]:
    """A row's columns, in the order of the table's."""
    answers = [
        [purpose, draws, len(counts[0]), [_sparse(column) for column in counts]]
        for purpose, draws, counts in row.answers
    ]
    row = row.smoothed
    return (
        row.index, row.label, row.predicted, row.radius, row.draws, row.seconds, row.clean, row.low, row.sigma,
        json.dumps(answers, separators=(",", ":")), row.attempt,
    )  # fmt: skip


def read_rows(connection: sqlite3.Connection) -> list[Row]:
    """Every row, and what a memory answered for it, by index."""
    columns = "idx, predicted, radius, conflict, by, stored, seen"
    settlements = {values[0]: values[1:] for values in connection.execute(f"SELECT {columns} FROM settlements")}
    found = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM certificates ORDER BY idx")
    return [_row_of(values, settlements.get(values[0])) for values in found]


def _row_of(values: tuple[Any, ...], settlement: tuple[Any, ...] | None) -> Row:
    """The row that such columns are. A file need not keep to its own table's types, so that they are looked at, too."""
    if not _typed(values, TYPES) or not (settlement is None or _typed(settlement, SETTLED)):
        raise RunError(f"the row of input {values[0]} must hold numbers and text in their places; it is damaged")
    index, label, predicted, radius, draws, seconds, clean, low, sigma, stored, attempt = values
    _refuse_numbers(index, predicted, radius, draws, seconds)
    if index < 0 or label < 0 or (clean or 0) < 0 or attempt < 0 or not 0 <= (low or 0.0) <= 1:
        raise RunError(f"the row of input {index} must hold whole numbers of at least 0, and shares; it is damaged")
    if sigma is not None and not 0 < sigma < LARGEST:
        raise RunError(f"sigma of input {index} must be a positive number; got {sigma}")
    before = None
    if settlement is not None:
        before = BeforeMemory(predicted, radius, settlement[2], settlement[3], bool(settlement[4]), settlement[5])
        predicted, radius = settlement[:2]
        _refuse_numbers(index, predicted, radius, draws, seconds)
    answers = StoredAnswers(index, stored)
    return Row(index, label, predicted, radius, draws, seconds, clean, low, answers, sigma, before, attempt)


def _typed(values: tuple[Any, ...], kinds: tuple[tuple[type, ...], ...]) -> bool:
    return all(type(value) in kind for value, kind in zip(values, kinds, strict=True))


def _refuse_numbers(index: int, predicted: int, radius: float, draws: int, seconds: float | None) -> None:
    if predicted < ABSTAIN:
        raise RunError(f"predicted of input {index} must be a class, or {ABSTAIN} for an abstention; got {predicted}")
    if not 0.0 <= radius <= LARGEST:
        raise RunError(f"radius of input {index} must be a number from 0 to {LARGEST:g}; got {radius}")
    if not 0 <= draws <= MOST_DRAWS:
        raise RunError(f"draws of input {index} must be a whole number up to {MOST_DRAWS}; got {draws}")
    if seconds is not None and not 0.0 <= seconds <= LARGEST:
        raise RunError(f"seconds of input {index} must be a number of at least 0; got {seconds}")


def _answer(purpose: Any, draws: Any, outcomes: Any, columns: Any) -> Answer:
    if type(purpose) is not str or type(draws) is not int or type(outcomes) is not int:
        raise TypeError("purpose, draws and outcomes must be text and whole numbers")
    if not (0 < draws <= MOST_DRAWS and 0 < outcomes <= MOST_OUTCOMES and 0 < outcomes * len(columns) <= MOST_COUNTS):
        raise ValueError(f"{draws} draws with {outcomes} outcomes in {len(columns)} columns")
    return Answer(purpose, draws, tuple(_dense(column, outcomes) for column in columns))


def _sparse(column: tuple[int, ...]) -> list[Any]:
    """Pairs of outcome and votes; of a histogram its first outcome, then all votes to the last one that has any."""
    voted = range(len(column)) if len(column) < 256 else np.flatnonzero(column).tolist()
    pairs = [[i, column[i]] for i in voted if column[i]]
    if len(pairs) < MANY or pairs[-1][0] - pairs[0][0] >= 2 * len(pairs):
        return pairs
    return [pairs[0][0], *column[pairs[0][0] : pairs[-1][0] + 1]]


def _dense(stored: list[Any], outcomes: int) -> tuple[int, ...]:
    counts = [0] * outcomes
    pairs: Sequence[Sequence[Any]] = stored
    if stored and isinstance(stored[0], int):
        pairs = [(stored[0] + i, votes) for i, votes in enumerate(stored[1:])]
    for outcome, votes in pairs:
        if (
            type(outcome) is not int
            or type(votes) is not int
            or not (0 <= outcome < outcomes and 0 <= votes <= MOST_DRAWS)
        ):
            raise ValueError(f"{votes} votes for outcome {outcome} of {outcomes}")
        counts[outcome] = votes
    return tuple(counts)
