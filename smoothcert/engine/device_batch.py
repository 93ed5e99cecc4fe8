"""One batch on a device: which rows it holds, its noise, its votes. Nothing here waits for the device.

A batch is planned on the host in a few numbers a row, which are sent over together with inputs that are not there yet.
From then on everything is where the network is: noise by `Noise.fill_rows`, scores, outcomes, and counts by addition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from smoothcert.contracts import Classifier, Integers, Noise, Readout, StreamRows, Tensor, as_it_is
from smoothcert.engine.batch_check import check_shape
from smoothcert.engine.segments import BatchPart

SLOT, KEY, NUMBER, OWNER = range(4)  # what is said of a row: its input, that input's key, the draw, the segment


class Group(NamedTuple):
    """Rows side by side that one noise makes, for one purpose."""

    noise: Noise
    seed: int
    purpose: str
    first: int
    rows: int


class BatchPlan(NamedTuple):
    """A batch as the host knows it."""

    pieces: Sequence[BatchPart]  # in the order of their rows
    groups: Sequence[Group]
    keys: Sequence[int]  # of the inputs it needs, by slot
    numbers: Integers  # [4, rows to be made]
    rows: int  # to be counted


def planned(pieces: Sequence[BatchPart], batch: int) -> BatchPlan:
    """Rows of one noise, seed and purpose side by side, and what a device has to know of each row.

    Where all rows are of one group, so are those that fill up a batch: repetitions of the last, which nobody counts.
    """
    by_noise: dict[tuple[Noise, int, str], list[BatchPart]] = {}
    for piece in pieces:
        stream = piece.segment.stream
        by_noise.setdefault((piece.segment.source.noise, stream.seed, stream.purpose), []).append(piece)
    ordered = [piece for group in by_noise.values() for piece in group]
    groups, at = [], 0
    for (noise, seed, purpose), group in by_noise.items():
        groups.append(Group(noise, seed, purpose, at, sum(piece.segment.rows for piece in group)))
        at += groups[-1].rows
    slots: dict[int, int] = {}
    for piece in ordered:
        slots.setdefault(piece.segment.stream.input, len(slots))
    rows, real = np.array([piece.segment.rows for piece in ordered]), at
    if len(groups) == 1:
        rows[-1] += batch - at
        at, groups = batch, [groups[0]._replace(rows=batch)]
    told = [(slots[key := piece.segment.stream.input], key, piece.segment.first, piece.owner) for piece in ordered]
    numbers = np.repeat(np.array(told, dtype=np.uint64).view(np.int64).T, rows, axis=1)
    ends = np.cumsum(rows)
    numbers[NUMBER] += np.arange(at) - np.repeat(ends - rows, rows)  # first, first + 1, … of each piece
    return BatchPlan(ordered, groups, list(slots), numbers, real)


def make_noise(
    buffer: Tensor, groups: Sequence[Group], inputs: Tensor, numbers: Tensor, compiled: Callable[..., None] | None
) -> None:
    """Noisy copies of inputs [slots, ...] into the rows of a buffer, by what runs functions of tensors compiled.

    Another number of rows would have to be compiled again: of several groups each is made as large as the buffer, and
    the rest of it left. Noise costs little beside a network, where it is worth compiling.
    """
    for noise, seed, purpose, first, rows in groups:
        whole = compiled is not None and rows < len(buffer)
        told = numbers.narrow(1, first, rows)
        if whole:
            again = torch.arange(len(buffer), device=buffer.device).clamp(max=rows - 1)
            told = told.index_select(1, again)
        x = inputs.index_select(0, told.select(0, SLOT))
        stream = StreamRows(seed, purpose, told.select(0, KEY), told.select(0, NUMBER), compiled or as_it_is)
        into = torch.empty_like(buffer) if whole else buffer.narrow(0, first, rows)
        noise.fill_rows(into, x, stream)
        if whole:
            buffer.narrow(0, first, rows).copy_(into.narrow(0, 0, rows))


def make_noise_here(buffer: Tensor, pieces: Sequence[BatchPart]) -> None:
    """The same on the CPU by numpy, which is faster there than torch without a compiler."""
    at = 0
    for _, (source, job, stream, first, rows) in pieces:
        source.noise.fill(buffer.narrow(0, at, rows), job.x, stream, first)
        at += rows


class Tally:
    """Counts of a parcel's segments [segments, columns, outcomes], and whether a score was no number."""

    def __init__(self, segments: int, device: str) -> None:
        self.segments, self.device = segments, device
        self.counts: Tensor | None = None
        self.no_number = torch.zeros((), dtype=torch.bool, device=device)

    def add(self, readout: Readout, scores: Tensor, owners: Tensor) -> None:
        """Count the outcomes of the first rows of scores [batch, classes], each for its owner [rows]."""
        scores = scores.narrow(0, 0, len(owners))
        self.no_number.logical_or_(scores.isnan().any())
        votes = readout(scores)
        columns, outcomes = votes.shape[1], readout.outcomes(scores.shape[1])
        if self.counts is None:
            shape = (self.segments, columns, outcomes)
            self.counts = torch.zeros(shape, dtype=torch.int64, device=self.device)
        places = owners.unsqueeze(1) * columns + torch.arange(columns, device=votes.device)
        places = (places * outcomes + votes).flatten()
        self.counts.view(-1).scatter_add_(0, places, torch.ones_like(places))


def ask(call: Classifier, buffer: Tensor) -> Tensor:
    """Scores of the whole buffer: a last, partial batch then has the shape of every other."""
    return check_shape(call(buffer), len(buffer))
