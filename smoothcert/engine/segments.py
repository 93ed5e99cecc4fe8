"""Segments of a parcel: cut into batches, and the inputs that they are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from smoothcert.contracts import Segment


class BatchPart(NamedTuple):
    """Rows of a segment in one batch; `owner`: its place in the parcel."""

    owner: int
    segment: Segment


def in_batches(segments: Sequence[Segment], batch: int) -> Iterator[list[BatchPart]]:
    """The rows of a parcel, so many at a time."""
    pieces, room = list[BatchPart](), batch
    for owner, segment in enumerate(segments):
        while segment.rows:
            rows = min(segment.rows, room)
            pieces.append(BatchPart(owner, segment._replace(rows=rows)))
            segment = segment._replace(first=segment.first + rows, rows=segment.rows - rows)
            room -= rows
            if room == 0:
                yield pieces
                pieces, room = [], batch
    if pieces:
        yield pieces


def inputs_of(segments: Sequence[Segment]) -> str:
    """The inputs of a parcel or a batch, in words."""
    indices = sorted({segment.job.index for segment in segments})
    return f"input {indices[0]}" if len(indices) == 1 else f"among inputs {indices[0]} to {indices[-1]}"
