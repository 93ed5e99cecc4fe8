"""A plain loop over noisy copies of one point, in batches that all have the same number of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smoothcert.contracts import Counts, Source, Stream, batch_rows


def noisy(source: Source, x: Tensor, stream: Stream, draws: int) -> Iterator[tuple[Tensor, int]]:
    """Batches of noisy copies, and how many of their rows count; the others fill up."""
    rows = getattr(source.classifier, "rows", None) or batch_rows(x.shape)
    for first in range(0, draws, rows):
        batch, number = torch.zeros(rows, *x.shape), min(rows, draws - first)
        source.noise.fill(batch[:number], x, stream, first)
        yield batch, number


def asked(source: Source, x: Tensor, stream: Stream, draws: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Noisy copies [rows, ...] and their scores [rows, classes], batch by batch."""
    with torch.inference_mode():
        for batch, number in noisy(source, x, stream, draws):
            yield batch[:number], source.classifier(batch)[:number]


def votes(source: Source, x: Tensor, stream: Stream, draws: int) -> Counts:
    """Votes of each class, int64 [classes]."""
    total: Any = None
    for _, scores in asked(source, x, stream, draws):
        counts = np.bincount(scores.argmax(dim=1).numpy(), minlength=scores.shape[1]).astype(np.int64)
        total = counts if total is None else total + counts
    found: Counts = total
    return found


def margins(scores: Tensor, label: int) -> Tensor:
    """How far the label leads each row of scores [rows, classes], in [rows]; below 0 where it does not."""
    if scores.shape[1] == 1:
        return scores[:, 0]
    others = scores.clone()
    others[:, label] = -torch.inf
    return scores[:, label] - others.amax(dim=1)
