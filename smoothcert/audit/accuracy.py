"""How accurate is the smoothed classifier at attacked points? The other side of certified accuracy.

Certified accuracy at r is at most what any attack within r leaves, and accuracy under one attack is at least what the
strongest one would leave: the truth lies between the two. The smoothed classifier is estimated by the majority of some
draws, 128 in the field (Salman et al. 2019). Attacked points are inputs, so they stay in [0,1].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from torch import Tensor

from smoothcert.audit._ball import ball
from smoothcert.audit._draws import votes
from smoothcert.audit._search import Target
from smoothcert.audit.attack import NEAR, Force, worst
from smoothcert.contracts import Source, Stream
from smoothcert.data import Inputs
from smoothcert.runs.run import Row
from smoothcert.runs.verify import source_of


class Stand(NamedTuple):
    """What is left at one radius; all figures are of the same inputs."""

    radius: float
    inputs: int
    right: int  # classified rightly at the attacked point
    certified: int  # certified rightly at this radius, by the run


def accuracy(
    rows: Sequence[Row],
    inputs: Inputs,
    source: Source,
    radii: Sequence[float],
    force: Force,
    advance: Callable[[], None],
) -> list[Stand]:
    """Attack every row at every radius, smallest first; who has fallen stays down."""
    left = {0.0: 0, **dict.fromkeys(sorted(radii), 0)}
    for row, x, towards in _inputs(rows, inputs):
        own = source_of(row, source)
        for radius in left:
            if not _stands(row, x, own, radius, towards, force):
                break
            left[radius] += 1
        advance()
    certified = {r: sum(row.correct and row.radius >= r for row in (row.smoothed for row in rows)) for r in left}
    return [Stand(radius, len(rows), right, certified[radius]) for radius, right in left.items()]


def _stands(row: Row, x: Tensor, source: Source, radius: float, towards: Sequence[Tensor], force: Force) -> bool:
    """Whether most draws at the attacked point are for the true label."""
    point = x
    if radius > 0:
        target = Target(source, x, row.label, ball(source.noise, radius, box=True))
        point = worst(target, towards, force, row.index)
    stream = Stream(force.seed, row.index, f"audit answer {radius!r}")
    return int(votes(source, point, stream, force.draws).argmax()) == row.label


def _inputs(rows: Sequence[Row], inputs: Inputs) -> Iterator[tuple[Row, Tensor, list[Tensor]]]:
    """Each row with its input, and the nearest ones of other labels to go towards."""
    places = {index: position for position, index in enumerate(inputs.indices.tolist())}
    every = {row.index: inputs.tensor(places[row.index]) for row in rows}
    for row in rows:
        x = every[row.index]
        others = [every[other.index] for other in rows if other.label != row.label]
        yield row, x, sorted(others, key=lambda other: float((other - x).norm()))[:NEAR]
