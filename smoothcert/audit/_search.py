"""Where inside a ball the smoothed classifier is weakest, looked for without gradients: any classifier will do.

The slope of the smoothed margin is E[margin(x+ε)·ε]/σ² for Gaussian noise (Stein), and points the right way for others,
so that noisy copies tell the direction in which the margin falls. Beside it: towards other inputs, and at random.
All candidates of a round see the same noise; the weakest one is where the next round starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from smoothcert.audit._ball import Ball
from smoothcert.audit._draws import asked, margins
from smoothcert.contracts import Source, Stream

ROUNDS = 2
RANDOM = 4  # directions at random a round
LOOK = 64  # noisy copies by which candidates are compared
SLOPE = 256  # noisy copies behind a slope
SPREADS = (1, 8, 64)  # coordinates that an l1 attack may move together


class Target(NamedTuple):
    """A point to move away from its label, within a ball."""

    source: Source
    x: Tensor
    label: int
    ball: Ball


def weakest(target: Target, points: Sequence[Tensor], stream: Stream) -> Tensor:
    """Of these points the one where the label has the fewest votes, of equal ones the one with the least margin."""

    def rank(point: Tensor) -> tuple[int, float]:
        found = torch.cat([margins(scores, target.label) for _, scores in asked(target.source, point, stream, LOOK)])
        return int((found > 0).sum()), float(found.mean())

    return min(points, key=rank)


def search(target: Target, towards: Sequence[Tensor], seed: int, index: int) -> Tensor:
    """The weakest point that some rounds of candidates find; `towards` are points beyond the ball to go for."""
    generator = torch.Generator().manual_seed((seed * 1_000_003 + index) % 2**63)
    ball, best = target.ball, target.x
    for number in range(ROUNDS):
        slope = falling(target, best, Stream(seed, index, f"audit slope {number}"))
        found = [ball.steepest(slope, best, spread) for spread in (SPREADS if ball.norm == "l1" else SPREADS[:1])]
        found += [ball.steepest(torch.randn(best.shape, generator=generator), best) for _ in range(RANDOM)]
        found += [other - target.x for other in towards] if number == 0 else []
        held = best - target.x
        points = [best, *(ball.rim(target.x, held + direction) for direction in found)]
        points += [ball.rim(target.x, direction) for direction in found] if number else []
        best = weakest(target, points, Stream(seed, index, f"audit look {number}"))
    return best


def falling(target: Target, at: Tensor, stream: Stream) -> Tensor:
    """The direction in which the smoothed margin falls, from noisy copies alone."""
    weighted, plain, total, rows = torch.zeros(at.shape), torch.zeros(at.shape), 0.0, 0
    for copies, scores in asked(target.source, at, stream, SLOPE):
        margin, moved = margins(scores, target.label), copies - at
        weighted += torch.einsum("n,n...->...", margin, moved)
        plain += moved.sum(dim=0)
        total, rows = total + float(margin.sum()), rows + len(margin)
    return plain * (total / rows) - weighted
