"""Where a patch does most harm: gradient ascent over its pixels, at many places of the image, on the votes themselves.

A patch is seen only by the copies whose window it meets. At each place these are asked, with gradients, and the pixels
of the patch climb until as many of them as can be have turned away from the label: to whichever class is nearest, and,
once more, all to the one class that has most votes beside the label. Pixels stay in [0,1], as those of stickers do. The
copies are written x ↦ hidden + shown·x, which is what a noise that hides pixels does, so that slopes are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import EllipsisType

import torch
from torch import Tensor

from smoothcert.audit.search import Force, Target, asked, looked, margins
from smoothcert.contracts import Classifier, Stream

PLACES = 9  # at which a patch is tried, if there are so many
ROWS = 256  # copies that are asked for a slope together
ENOUGH = 1.0  # by so much a copy is to be on the other side; more is not climbed for


def stick(target: Target, network: Classifier, force: Force) -> list[Tensor]:
    """A point for each place and each way of climbing."""
    rows, columns = target.ball.window(target.x.shape)
    if rows == 0:
        return []
    stream = Stream(force.seed, target.index, "audit patch")
    hidden, shown = _copies(target, *looked(target.source.noise, stream, force.draws))
    rival = _rival(target, *looked(target.source.noise, stream, force.draws))
    points = []
    for place in _places(target.x.shape, rows, columns):
        inside = torch.zeros(target.x.shape)
        inside[place] = 1.0
        meets = (shown * inside).flatten(1).any(dim=1)
        copies = hidden[meets], shown[meets]
        points += [_climb(target, network, copies, inside, towards, force.steps) for towards in (None, rival)]
    return points


def _copies(target: Target, stream: Stream, draws: int) -> tuple[Tensor, Tensor]:
    """What each copy hides, and which pixels it shows: [draws, *shape] each."""
    found = torch.empty(2, draws, *target.x.shape)
    for value in (0, 1):
        target.source.noise.fill(found[value], torch.full(target.x.shape, float(value)), stream, 0)
    return found[0], found[1] - found[0]


def _rival(target: Target, stream: Stream, draws: int) -> int:
    """The class with most votes beside the label."""
    scores = torch.cat([scores for _, scores in asked(target.source, target.x, stream, draws)])
    votes = scores.argmax(dim=1).bincount(minlength=scores.shape[1])
    votes[target.label] = -1
    return int(votes.argmax())


def _places(shape: Sequence[int], rows: int, columns: int) -> Iterator[tuple[EllipsisType, slice, slice]]:
    """Places of a patch of so many pixels, from corner to corner."""
    each = max(2, int(PLACES**0.5))
    for top in _starts(shape[-2] - rows, each):
        for left in _starts(shape[-1] - columns, each):
            yield ..., slice(top, top + rows), slice(left, left + columns)


def _starts(last: int, number: int) -> list[int]:
    return sorted({round(last * i / (number - 1)) for i in range(number)})


def _climb(
    target: Target, network: Classifier, copies: tuple[Tensor, Tensor], inside: Tensor, towards: int | None, steps: int
) -> Tensor:
    """The point where some steps end, each 2/steps long in every pixel of the patch."""
    point = target.x.clone()
    for _ in range(steps):
        slope = torch.zeros(target.x.shape)
        for hidden, shown in zip(*(torch.split(part, ROWS) for part in copies), strict=True):
            at = point.clone().requires_grad_()
            scores = network(hidden + shown * at)
            lead = margins(scores, target.label) if towards is None else _lead(scores, target.label, towards)
            loss = lead.clamp_min(-ENOUGH).sum()
            if loss.requires_grad:
                slope -= torch.autograd.grad(loss, at)[0]
        if not bool((slope * inside).any()):
            break
        point = torch.where(inside > 0, (point + 2 / steps * slope.sign()).clamp(0, 1), target.x)
    return point


def _lead(scores: Tensor, label: int, rival: int) -> Tensor:
    return scores[:, label] - scores[:, rival]
