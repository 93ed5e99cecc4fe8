"""Scores of several members on the same noisy copies, in full batches: what weights and forecasts are made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from smoothcert.contracts import Classifier, Noise, Stream, batch_rows
from smoothcert.data import Inputs
from smoothcert.ensembles._vote import ask, together
from smoothcert.errors import DataError, ModelError
from smoothcert.streams import words


class NoisyBatch(NamedTuple):
    """Noisy copies side by side, and whose they are."""

    owner: np.ndarray[Any, np.dtype[np.int64]]  # [rows], position of each row's input
    x: Tensor  # [rows, ...]


def noisy_batches(
    inputs: Inputs, noise: Noise, draws: int, seed: int, purpose: str, first: int = 0
) -> Iterator[NoisyBatch]:
    """Copies number first … first+draws−1 of every input, an input's own next to each other."""
    for start in range(0, len(inputs) * draws, batch_rows(inputs.shape)):
        rows = np.arange(start, min(start + batch_rows(inputs.shape), len(inputs) * draws))
        owner, number = rows // draws, first + rows % draws
        x, at = torch.empty(len(rows), *inputs.shape), 0
        for position, count in zip(*np.unique(owner, return_counts=True), strict=True):
            stream = Stream(seed, int(inputs.indices[position]), purpose)
            noise.fill(x[at : at + count], inputs.tensor(int(position)), stream, int(number[at]))
            at += int(count)
        yield NoisyBatch(owner, x)


def member_scores(members: Sequence[Classifier], x: Tensor) -> Tensor:
    """Scores of every member for the same rows: float64 [members, rows, classes]; infinite ones have no variance."""
    with torch.no_grad():
        scores = torch.stack(together([ask(member, x).double() for member in members]))
    if not bool(scores.isfinite().all()):
        raise ModelError("scores of every member must be finite; got infinity")
    return scores


def check_members(members: Sequence[Classifier], inputs: Inputs, fewest: int, whose: str) -> int:
    """Refuse too few members, and labels that are none of their classes; the number of classes."""
    if len(members) < fewest:
        raise ModelError(f"members of {whose} must be at least {fewest}; got {len(members)}")
    classes, highest = member_scores(members, inputs.tensor(0).unsqueeze(0)).shape[2], int(inputs.labels.max())
    if highest >= classes:
        raise DataError(f"labels of {inputs.name} must be classes of the members, below {classes}; got {highest}")
    return classes


def generator(seed: int, number: int, purpose: str, draw: int = 0) -> np.random.Generator:
    """Random numbers for what is not noise on an input, keyed like it."""
    return np.random.default_rng(words(Stream(seed, number, purpose), draw, 1, 8)[0])
