"""Batches of a training: inputs taken, decoded by other processes where they are files, and augmented.

What an input becomes depends on (seed, epoch, input) and on the training's own generator, never on who decoded it: any
number of worker processes gives the same training.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from smoothcert.data import Inputs
from smoothcert.errors import OptionError, SmoothcertError, require_count
from smoothcert.training import Settings
from smoothcert.training.noisy import mixed

if TYPE_CHECKING:
    from smoothcert.data import Array

MOST = 8  # workers unless told; more are rarely kept busy by one network
LARGEST = 256
_PAD = 4
_AHEAD = 2  # batches that a worker decodes ahead


def workers_for(inputs: Inputs, asked: int | None) -> int:
    """How many processes decode: none for data that lie in memory."""
    if asked is not None:
        require_count("training", least=0, most=LARGEST, workers=asked)
    if not inputs.decoded:
        return 0
    return min(_cores(), MOST) if asked is None else asked


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class BatchReader(Dataset[Any]):
    """Batches by number: values [batch, ...], before anything that the training's own generator decides."""

    inputs: Inputs
    batches: Sequence[Array]
    settings: Settings
    epoch: int

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Tensor | SmoothcertError:
        """An error is returned, not raised: torch would wrap it in many lines."""
        chosen = self.batches[number]
        try:
            if self.settings.augment != "resized_crop":
                return self.inputs.tensors(chosen)
            keys = [mixed(self.settings.seed, self.epoch, f"part {index}") for index in self.inputs.indices[chosen]]
            return self.inputs.parts(chosen, keys)
        except SmoothcertError as error:
            return error


def fed(reader: BatchReader, workers: int) -> Iterator[Tensor]:
    """The batches in order, read here or by worker processes."""
    if workers == 0:
        found: Iterator[Any] = (reader[number] for number in range(len(reader)))
    else:
        found = _loaded(reader, min(workers, len(reader)))
    for batch in found:
        if isinstance(batch, SmoothcertError):
            raise batch
        yield batch


def _loaded(reader: BatchReader, workers: int) -> Iterator[Any]:
    # A generator of its own: a loader would draw from torch's global one, and layers would see other numbers.
    own = torch.Generator()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of more workers than cores, which somebody asked for
        loader: DataLoader[Any] = DataLoader(
            reader, batch_size=None, num_workers=workers, prefetch_factor=_AHEAD, generator=own
        )
        return iter(loader)


def batches(order: Array, size: int, rank: int, processes: int) -> list[Array]:
    """The order cut into steps, and of each step this process's equal share, for gradients are averaged."""
    steps = [order[at : at + size] for at in range(0, len(order), size)]
    return [step[: len(step) // processes * processes][rank::processes] for step in steps]


def crop_flip(x: Tensor, generator: Generator) -> Tensor:
    """Each image [batch, channels, h, w] padded by 4 zeros, cropped to its size at random, and mirrored or not.

    As in the field's CIFAR protocol (He et al. 2015, §4.2).
    """
    if x.ndim != 4:
        raise OptionError(f"augment of training must be none unless inputs are images; got shape {list(x.shape[1:])}")
    count, _, height, width = x.shape
    padded = F.pad(x, (_PAD, _PAD, _PAD, _PAD))
    corners = torch.randint(2 * _PAD + 1, (2, count, 1), generator=generator)
    rows = corners[0] + torch.arange(height)
    columns = corners[1] + torch.arange(width)
    flip = torch.rand(count, 1, generator=generator) < 0.5
    columns = torch.where(flip, columns.flip(1), columns)
    which = torch.arange(count).view(-1, 1, 1)
    # Advanced indices around a slice put their dimensions first: [batch, h, w, channels].
    return padded[which, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def require_augmentation(settings: Settings, training: Inputs) -> None:
    """Refuse an augmentation that these inputs cannot have, before anything is trained."""
    if settings.augment == "resized_crop":
        training.parts(np.array([0]), [0])
