"""Hold-out inputs: what members say of them under noise, and their exclusion from what is certified later.

Order, weights and every other choice that looks at labels belongs to inputs that nothing is certified on. An ensemble
remembers the inputs it was fitted on by index and by a short hash of their values, so that they are known again under
another name or path, and an input of another data set with the same index is not mistaken for one of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from smoothcert import zoo
from smoothcert.classifiers import composite, load
from smoothcert.contracts import Classifier, Noise, Stream, batch_rows
from smoothcert.data import Inputs
from smoothcert.engine.batch_check import check_scores
from smoothcert.ensembles import ask, together
from smoothcert.errors import DataError, ModelError
from smoothcert.noise import described
from smoothcert.streams import words

CHUNK = 512  # inputs held in memory at a time


Owner: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"  # [rows], position of each row's input


class HoldoutInputs(NamedTuple):
    """Inputs to choose by, the noise on them, and who is told how many times members have been asked."""

    inputs: Inputs
    noise: Noise
    seed: int
    advance: Callable[[int], None] = lambda rows: None

    def copies(self, draws: int, purpose: str, first: int = 0) -> Iterator[tuple[Owner, Tensor]]:
        """Copies number first … first+draws−1 of every input in full batches [rows, ...], an input's own together."""
        inputs = self.inputs
        for start in range(0, len(inputs) * draws, batch_rows(inputs.shape)):
            rows = np.arange(start, min(start + batch_rows(inputs.shape), len(inputs) * draws))
            owner, number = rows // draws, first + rows % draws
            x, at = torch.empty(len(rows), *inputs.shape), 0
            for position, count in zip(*np.unique(owner, return_counts=True), strict=True):
                stream = Stream(self.seed, int(inputs.indices[position]), purpose)
                self.noise.fill(x[at : at + count], inputs.tensor(int(position)), stream, int(number[at]))
                at += int(count)
            yield owner, x

    def scores(
        self, members: Sequence[Classifier], draws: int, purpose: str, first: int = 0
    ) -> Iterator[tuple[Owner, Tensor]]:
        """What every member says of the same copies, batch by batch: float64 [members, rows, classes]."""
        for owner, x in self.copies(draws, purpose, first):
            yield owner, member_scores(members, x)
            self.advance(len(owner) * len(members))

    def accuracy(self, members: Sequence[Classifier], draws: int = 1) -> tuple[float, ...]:
        """Of each member, the share of noisy copies that it classifies rightly; the same copies for all of them."""
        labels = torch.from_numpy(self.inputs.labels)
        right = [0] * len(members)
        with torch.no_grad():
            for owner, x in self.copies(draws, "holdout"):
                for number, member in enumerate(members):
                    right[number] += int((check_scores(ask(member, x), len(x)).argmax(1) == labels[owner]).sum())
                    self.advance(len(x))
        return tuple(count / (len(self.inputs) * draws) for count in right)

    def check(self, members: Sequence[Classifier], fewest: int, whose: str) -> int:
        """Refuse too few members, and labels that are none of their classes; the number of classes."""
        if len(members) < fewest:
            raise ModelError(f"members of {whose} must be at least {fewest}; got {len(members)}")
        classes = member_scores(members, self.inputs.tensor(0).unsqueeze(0)).shape[2]
        if (highest := int(self.inputs.labels.max())) >= classes:
            name = self.inputs.name
            raise DataError(f"labels of {name} must be classes of the members, below {classes}; got {highest}")
        return classes

    def record(self) -> dict[str, Any]:
        """What an ensemble remembers of the inputs it was fitted on."""
        inputs = self.inputs
        return {
            "data": inputs.name,
            "split": inputs.split,
            "digest": inputs.digest,
            "noise": described(self.noise),
            "seed": self.seed,
            "indices": " ".join(map(str, inputs.indices.tolist())),
            "marks": " ".join(marks(inputs)),
        }


def member_scores(members: Sequence[Classifier], x: Tensor) -> Tensor:
    """Scores of every member for the same rows: float64 [members, rows, classes]; infinite ones have no variance."""
    with torch.no_grad():
        scores = torch.stack(together([check_scores(ask(member, x), len(x)).double() for member in members]))
    if not bool(scores.isfinite().all()):
        raise ModelError("scores of every member must be finite; got infinity")
    return scores


def generator(seed: int, number: int, purpose: str, draw: int = 0) -> np.random.Generator:
    """Random numbers for what is not noise on an input, keyed like it."""
    return np.random.default_rng(words(Stream(seed, number, purpose), draw, 1, 8)[0])


def marks(inputs: Inputs, positions: np.ndarray[Any, Any] | None = None) -> list[str]:
    """A short hash of the values of each input."""
    wanted = np.arange(len(inputs)) if positions is None else positions
    found = []
    for start in range(0, len(wanted), CHUNK):
        values = inputs.tensors(wanted[start : start + CHUNK]).numpy()
        found += [hashlib.blake2b(one.tobytes(), digest_size=8).hexdigest() for one in values]
    return found


def load_unused(spec: str, inputs: Inputs) -> Classifier:
    """A model, refused where it was fitted on these inputs."""
    loaded = load(spec)
    refuse_used(spec, inputs)
    return loaded


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
