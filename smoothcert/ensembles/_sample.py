"""What the members at hand say about some inputs under noise: the data behind a forecast.

Only differences between scores decide a class, so margins are kept: the label's score minus that of each other class,
nearest rival first. Every member sees the same noisy copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

from smoothcert.contracts import Classifier, Noise, batch_rows
from smoothcert.data import Inputs
from smoothcert.ensembles._scores import check_members, member_scores, noisy_batches
from smoothcert.errors import OptionError

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

RIVALS = 15  # the other classes that come nearest on average; the rest almost never win, and would cost memory


@dataclass(frozen=True, eq=False)
class Sample:
    """Margins of the label over its rivals, by input and member."""

    clean: Floats  # [inputs, members, rivals], at the input itself
    noisy: Floats  # [inputs, members, draws, rivals], at its noisy copies
    left_out: int = 0  # classes that are not among the rivals

    @property
    def members(self) -> int:
        return int(self.noisy.shape[1])

    @property
    def draws(self) -> int:
        return int(self.noisy.shape[2])

    def of(self, members: Sequence[int]) -> Sample:
        """The same for some of the members."""
        chosen = list(members)
        return Sample(self.clean[:, chosen], self.noisy[:, chosen], self.left_out)


def work(members: int, inputs: int, draws: int) -> int:
    """Member evaluations that a sample takes."""
    return members * inputs * (draws + 1)


def sample(
    members: Sequence[Classifier],
    inputs: Inputs,
    noise: Noise,
    draws: int,
    seed: int,
    advance: Callable[[int], None],
) -> Sample:
    """Ask every member about every input: once as it is, and `draws` times under noise."""
    if draws < 2:
        raise OptionError(f"draws of forecast must be at least 2; got {draws}")
    classes = check_members(members, inputs, 2, "forecast")
    clean = _clean(members, inputs, advance)
    near, under_noise = [], []
    for position, scores in enumerate(_by_input(members, inputs, noise, draws, seed, advance)):
        label = int(inputs.labels[position])
        order = np.argsort(-scores.mean(axis=(0, 1)), kind="stable")
        rivals = order[order != label][:RIVALS]
        near.append(clean[:, position, label, None] - clean[:, position, rivals])
        under_noise.append(scores[:, :, label, None] - scores[:, :, rivals])
    return Sample(np.stack(near), np.stack(under_noise), max(0, classes - 1 - RIVALS))


def _clean(members: Sequence[Classifier], inputs: Inputs, advance: Callable[[int], None]) -> Floats:
    """Scores at the inputs themselves: [members, inputs, classes]."""
    parts = []
    for chunk in torch.split(torch.arange(len(inputs)), batch_rows(inputs.shape)):
        parts.append(member_scores(members, inputs.tensors(chunk.numpy())).numpy())
        advance(len(members) * len(chunk))
    return np.concatenate(parts, axis=1)


def _by_input(
    members: Sequence[Classifier],
    inputs: Inputs,
    noise: Noise,
    draws: int,
    seed: int,
    advance: Callable[[int], None],
) -> Iterator[Floats]:
    """Scores [members, draws, classes] of one input after the other, from batches that take no notice of inputs."""
    pending: list[Floats] = []
    for owner, x in noisy_batches(inputs, noise, draws, seed, "forecast"):
        pending.append(member_scores(members, x).numpy())
        advance(len(members) * len(owner))
        while sum(part.shape[1] for part in pending) >= draws:
            joined = np.concatenate(pending, axis=1)
            pending = [joined[:, draws:]]
            yield joined[:, :draws]
