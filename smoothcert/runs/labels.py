"""What runs over training inputs say about them, as arrays: the labels of selectors are made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.errors import DataError, RunError
from smoothcert.runs.run import Run

if TYPE_CHECKING:
    from smoothcert.data import Array

EVIDENCE = ("predict", "test")  # purposes of draws that did not choose what they are counted for


def right_votes(run: Run) -> tuple[Array, Array, int]:
    """Indices [N], votes for each input's own class [N], and the draws behind them."""
    if not run.rows:
        raise RunError(f"run {run.folder} must hold at least one finished input; got none")
    _refuse_split(run)
    evidence = [[answer for answer in row.answers if answer.purpose in EVIDENCE] for row in run.rows]
    draws = sorted({sum(answer.draws for answer in answers) for answers in evidence})
    if len(draws) > 1:
        raise RunError(
            f"run {run.folder} must have equally many draws for every input, as predict and certify without a radius "
            f"have; got {draws[0]:,} to {draws[-1]:,}"
        )
    pairs = zip(run.rows, evidence, strict=True)
    right = [sum(answer.counts[0][row.label] for answer in answers) for row, answers in pairs]
    return np.array([row.index for row in run.rows]), np.array(right), draws[0]


def gains(runs: Sequence[Run]) -> tuple[Array, Array]:
    """Indices [N], and radius·[correct] [branches, N], of certify runs over the same inputs, branch by branch."""
    for run in runs:
        if run.kind != "certify" or not run.rows:
            raise RunError(f"run {run.name} must be a certify run with finished inputs; it is not")
        _refuse_split(run)
    if len({run.claim.norm for run in runs}) > 1:
        raise RunError("runs of a route's branches must have one norm; got several")
    first = [(row.index, row.label) for row in runs[0].rows]
    for run in runs[1:]:
        if [(row.index, row.label) for row in run.rows] != first:
            raise DataError(f"inputs of run {run.name} must be those of run {runs[0].name}; got others")
    found = np.array([[row.radius if row.correct else 0.0 for row in run.rows] for run in runs])
    return np.array([index for index, _ in first]), found


def _refuse_split(run: Run) -> None:
    if (split := run.asked.data.split) != "train":
        raise RunError(f"run {run.folder} must be over the training inputs (--split train); got split '{split}'")
