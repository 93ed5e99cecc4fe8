"""A run's counts as arrays, by what the draws were for, with what they need to become radii again."""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcert.bounds import Integers
from smoothcert.contracts import Noise
from smoothcert.decisions import VoteCounts
from smoothcert.errors import RunError
from smoothcert.recipe import build
from smoothcert.runs.rows import Record, Row


def tally(record: Record, prefix: str, column: int) -> VoteCounts:
    """The counts of one column [inputs, outcomes] by what the draws were for."""
    found = [_counted(record, row, prefix, column) for row in record.rows]
    if not found:
        raise RunError(f"run {record.name} must hold at least one finished input; got none")
    counts = VoteCounts(*(np.array(part) for part in zip(*found, strict=True)))
    for part in counts:
        if len(np.unique(part.sum(axis=1))) > 1:
            raise RunError(f"run {record.name} must have equally many draws for every input; got different numbers")
    return counts


def _counted(record: Record, row: Row, prefix: str, column: int) -> tuple[Any, Any, Any]:
    guess = [answer.counts for answer in row.answers if answer.purpose == f"{prefix}guess"]
    tests = [answer.counts for answer in row.answers if answer.purpose == f"{prefix}test"]
    if len(guess) != 1 or not tests or any(len(counts) <= column for counts in [*guess, *tests]):
        what = "entropies" if column else "selections" if prefix else "classes"
        raise RunError(f"run {record.name} must hold counts of {what} from draws that chose and draws that tested; "
                       f"got none for input {row.index}")  # fmt: skip
    test = np.sum([counts[column] for counts in tests], axis=0)
    return guess[0][column], tests[0][column], test


def alpha_of(record: Record) -> float:
    """The probability that a statement of the run is wrong."""
    question = record.settings["question"]
    settings = {**question.get("sampling", {}), **question["procedure"]}
    if "alpha" not in settings:
        raise RunError(f"run {record.name} must have tested at an alpha to be combined; it counted every case")
    return float(settings["alpha"])


def noise_of(record: Record) -> Noise:
    """The run's noise; refused where there is not one for all inputs."""
    noise: Noise = build("noise", record.settings["question"]["noise"])
    if any(row.sigma is not None for row in record.rows):
        raise RunError(f"run {record.name} must have one noise level to be combined; got one for every input")
    return noise


def column_of(record: Record, name: str) -> Integers:
    """One field of all rows."""
    return np.array([getattr(row, name) for row in record.rows], dtype=np.int64)
