"""Hold-out inputs: what members say of them under noise, and their exclusion from what is certified later.

Order, weights and every other choice that looks at labels belongs to inputs that nothing is certified on. An ensemble
remembers the inputs it was fitted on by index and by a short hash of their values, so that they are known again under
another name or path, and an input of another data set with the same index is not mistaken for one of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from smoothcert import zoo
from smoothcert.classifiers import composite
from smoothcert.contracts import Classifier, Noise, Stream, batch_rows
from smoothcert.data import Inputs
from smoothcert.ensembles import ask, together
from smoothcert.errors import DataError, ModelError
from smoothcert.noise import described
from smoothcert.streams import words

CHUNK = 512  # inputs held in memory at a time


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


def noisy_accuracy(
    members: Sequence[Classifier],
    inputs: Inputs,
    noise: Noise,
    seed: int,
    draws: int = 1,
    advance: Callable[[int], None] = lambda rows: None,
) -> tuple[float, ...]:
    """Of each member, the share of noisy copies that it classifies rightly; the same copies for all of them."""
    labels = torch.from_numpy(inputs.labels)
    right = [0] * len(members)
    with torch.no_grad():
        for owner, x in noisy_batches(inputs, noise, draws, seed, "holdout"):
            for number, member in enumerate(members):
                right[number] += int((ask(member, x).argmax(1) == labels[owner]).sum())
                advance(len(x))
    return tuple(count / (len(inputs) * draws) for count in right)


def record(inputs: Inputs, noise: Noise, seed: int) -> dict[str, Any]:
    """What an ensemble remembers of the inputs it was fitted on."""
    return {
        "data": inputs.name,
        "split": inputs.split,
        "digest": inputs.digest,
        "noise": described(noise),
        "seed": seed,
        "indices": " ".join(map(str, inputs.indices.tolist())),
        "marks": " ".join(marks(inputs)),
    }


def marks(inputs: Inputs, positions: np.ndarray[Any, Any] | None = None) -> list[str]:
    """A short hash of the values of each input."""
    wanted = np.arange(len(inputs)) if positions is None else positions
    found = []
    for start in range(0, len(wanted), CHUNK):
        values = inputs.tensors(wanted[start : start + CHUNK]).numpy()
        found += [hashlib.blake2b(one.tobytes(), digest_size=8).hexdigest() for one in values]
    return found


def refuse_used(spec: str | Path, inputs: Inputs) -> None:
    """Refuse inputs that this model, where it is an ensemble, or an ensemble inside it, was fitted on."""
    for holdout in fitted_on(zoo.located(spec)):
        used = dict(zip(map(int, holdout["indices"].split()), holdout["marks"].split(), strict=True))
        shared = np.flatnonzero(np.isin(inputs.indices, list(used)))
        same = [
            int(inputs.indices[position])
            for position, mark in zip(shared, marks(inputs, shared), strict=True)
            if used[int(inputs.indices[position])] == mark
        ]
        if same:
            raise DataError(
                f"inputs to be certified must not be those that {spec} was fitted on; got {len(same)} of them, first "
                f"index {same[0]} (choose others by --start, --skip or --split)"
            )


def fitted_on(path: Path) -> list[dict[str, Any]]:
    """What the ensemble of this folder, and those inside it, remember of their hold-out inputs."""
    if not composite.is_composite(path):
        return []
    whole = composite.read(path)
    inside = [fitted_on(zoo.located(composite.located(path, member))) for member in whole.members]
    own = [dict(whole.holdout)] if whole.holdout is not None else []
    return [*own, *(holdout for found in inside for holdout in found)]
