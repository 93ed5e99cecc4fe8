"""What the runner-up bound brought: the radii that the plain bound proves from the same votes at the same alpha."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.catalog import rebuild as build
from smoothcert.contracts import ABSTAIN, Noise, Sampling, Source
from smoothcert.errors import SmoothcertError
from smoothcert.report.course import tested_class
from smoothcert.report.draws import tested
from smoothcert.report.metrics import Share, certified_accuracy
from smoothcert.report.question import asked, part
from smoothcert.runs.run import Row, Run
from smoothcert.sampling.fixed import Fixed

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Side:
    """One of the two bounds over the inputs of a run."""

    name: str
    mean_radius: float  # over all inputs, an abstention counting 0, right or wrong
    acr: float
    certified: Share  # with any radius, right or wrong
    certified_accuracy: dict[float, Share]  # by radius


@dataclass(frozen=True)
class Gain:
    """Both bounds side by side, and how many inputs moved."""

    with_runner_up: Side
    plain: Side
    gained: int  # certified by the runner-up bound only
    lost: int  # certified by the plain bound only
    larger: int  # radius larger, inputs gained among them
    smaller: int


def gain(record: Run, radii: Sequence[float]) -> Gain | None:
    """The comparison; None for other runs, where votes are not kept, and where they do not give the stored radii."""
    settings = part(record, "sampling")
    if settings.get("name") != "runner_up" or not all(tested(row) for row in record.rows):
        return None
    try:
        sampling, noise = build("sampling", settings), build("noise", part(record, "noise"))
    except SmoothcertError:
        return None
    against = asked(record).against
    if _answered(record, sampling, noise, against) != record.rows:
        return None
    plain = replace(record, rows=_answered(record, Fixed(sampling.n, sampling.alpha), noise, against))
    pairs = list(zip(record.rows, plain.rows, strict=True))
    return Gain(
        _side("with the runner-up bound", record, radii),
        _side("with the plain bound", plain, radii),
        sum(a.predicted != ABSTAIN == b.predicted for a, b in pairs),
        sum(b.predicted != ABSTAIN == a.predicted for a, b in pairs),
        sum(a.radius > b.radius for a, b in pairs),
        sum(a.radius < b.radius for a, b in pairs),
    )


def _answered(record: Run, sampling: Sampling, noise: Noise, against: str) -> tuple[Row, ...]:
    """The rows as this sampling would have them from the stored votes."""
    # No classifier is asked: the votes are already there. The dimension is not in a recipe; where it matters, the
    # rows come out different and the comparison is left out.
    source, rows = Source(_silent, noise), list[Row]()
    for row in record.rows:
        steps = sampling.test(source, tested_class(against, row), 0)
        next(steps)
        try:
            steps.send(np.array(tested(row)[:1], dtype=np.int64))
        except StopIteration as end:
            found = end.value.certificate(noise, 0)
            rows.append(replace(row, predicted=found.label, radius=found.radius))
    return tuple(rows)


def _silent(x: Tensor) -> Tensor:
    raise RuntimeError("a report asks no classifier")


def _side(name: str, record: Run, radii: Sequence[float]) -> Side:
    rows = record.rows
    return Side(
        name,
        math.fsum(row.radius for row in rows) / len(rows),
        math.fsum(row.radius for row in rows if row.correct) / len(rows),
        Share(sum(row.predicted != ABSTAIN for row in rows), len(rows)),
        {radius: certified_accuracy(record, radius) for radius in radii},
    )
