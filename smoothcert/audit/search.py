"""Where inside a ball the smoothed classifier is weakest.

**The ball.** A direction is any tensor of the shape of x. `steepest` makes of a gradient the way in which the loss
climbs fastest for what the norm allows, `rim` goes as far along a direction as the ball reaches, `put` goes there and
no further. Points are float32, and on the grid where the noise wants that; whether one is inside is decided on the
point itself after all rounding, in float64 or, on the grid, in whole numbers.

**Search** needs scores only, so any classifier will do. The slope of the smoothed margin is E[margin(x+ε)·ε]/σ² for
Gaussian noise (Stein), and points the right way for others, so that noisy copies tell the direction in which the margin
falls. Beside it: towards other inputs, and at random. All candidates of a round see the same noise; the weakest one is
where the next round starts.

**Ascent** is projected gradient ascent on the smoothed loss (Salman et al. 2019): −log mean softmax(f(x′+ε))_label,
fresh noise in every step. The gradient is taken at the noisy copies and added up. For noise that is added this is the
gradient at the point; for noise that replaces or cuts values it is the way in which the copies would have to move,
which is as good as any guess.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from smoothcert.contracts import EVERY, WHOLE, Classifier, Noise, Norm, Source, Stream, batch_rows
from smoothcert.norms import ORDERS, within

ROUNDS = 2
RANDOM = 4  # directions at random a round
LOOK = 64  # noisy copies by which candidates are compared
SLOPE = 256  # noisy copies behind a slope
SPREADS = (1, 8, 64)  # coordinates that an l1 attack may move together


@dataclass(frozen=True)
class Ball:
    """All points nearer than `radius` in this norm, or as near where it is closed; `box`: only those in [0,1]."""

    norm: Norm
    radius: float
    grid: int | None = None  # points are multiples of 1/grid in [0,1]
    closed: bool = False
    box: bool = False
    patch: tuple[int, int] = (1, 1)  # rows and columns that a radius of 1 stands for, where it is the size of a patch

    @classmethod
    def of(cls, noise: Noise, radius: float, exact: bool = False, box: bool = False) -> Ball:
        """The ball of a certificate under this noise; `exact`: every case was counted."""
        return cls(noise.norm, radius, noise.grid, exact or noise.whole, box, noise.patch or (1, 1))

    def window(self, shape: Sequence[int]) -> tuple[int, int]:
        """Rows and columns of the largest patch in images of this shape."""
        rows, columns = (min(n, int(self.radius) * size) for n, size in zip(shape[-2:], self.patch, strict=True))
        return rows, columns

    def distance(self, x: Tensor, y: Tensor) -> float:
        """Of two points, in float64; on the grid from whole steps."""
        moved = y.double() - x.double()
        if self.norm == "l0":
            return float((moved != 0).sum())
        if self.norm == "patch":
            return float(max(map(_patches, _sides(moved), self.patch)))
        if self.grid is not None:
            moved = (moved * self.grid).round() / self.grid
        return float(moved.flatten().norm(p=ORDERS[self.norm]))

    def holds(self, x: Tensor, y: Tensor) -> bool:
        """Whether y is inside the ball around x; the border of a closed one is as far as rounding may have put it."""
        radius = self.radius * (1 + 1e-12) if self.closed else self.radius
        if self.grid is not None:
            steps = ((y.double() - x.double()) * self.grid).round().long()
            return within(steps.flatten().tolist(), radius, self.norm, self.grid, self.closed)
        distance = self.distance(x, y)
        return distance <= radius if self.closed else distance < radius

    def steepest(self, gradient: Tensor, x: Tensor, spread: int = 1) -> Tensor:
        """A direction as long as the radius: in l2 the gradient's, in l1 along its `spread` largest coordinates.

        In l0 and in a patch coordinates count by what they can gain on their way to 0 or 1.
        """
        if self.norm == "patch":
            return torch.where(gradient > 0, 1 - x, -x) * (gradient != 0)
        if self.norm == "l0":
            gains = gradient * torch.where(gradient > 0, 1 - x, x)
            return gains / gains.abs().max().clamp_min(1e-30)
        if self.norm == "l1":
            least = gradient.abs().flatten().topk(min(spread, gradient.numel())).values[-1]
            gradient = torch.where(gradient.abs() >= least, gradient, torch.zeros_like(gradient))
        return gradient * (self.radius / self._length(gradient))

    def rim(self, x: Tensor, direction: Tensor) -> Tensor:
        """The point as far from x in this direction as the ball reaches."""
        return self.put(x, direction if self._counts else direction * (self.radius / self._length(direction)))

    def put(self, x: Tensor, moved: Tensor) -> Tensor:
        """The point x + moved, or one nearer to x where that is outside; in l0 the largest coordinates, all the way.

        Against patches: where the patch moves most, and nowhere else.
        """
        if self.norm == "l0":
            return self._switched(x, moved)
        if self.norm == "patch":
            return self._stuck(x, moved)
        moved, step = self.shortened(moved.double()), 0.01 if self.grid is not None else 1e-6
        while not self.holds(x, point := self._legal(x, moved)):
            moved, step = moved * (1 - step), min(0.5, 2 * step)
        return point

    def shortened(self, moved: Tensor) -> Tensor:
        """Moved by the radius at most; l0 and patches have no lengths."""
        return moved if self._counts else moved * min(1.0, self.radius / self._length(moved))

    @property
    def _counts(self) -> bool:
        """Whether it matters which coordinates change, and not by how much."""
        return self.norm in WHOLE

    def _length(self, moved: Tensor) -> float:
        return max(float(moved.double().flatten().norm(p=ORDERS[self.norm])), 1e-30)

    def _legal(self, x: Tensor, moved: Tensor) -> Tensor:
        point = x.double() + moved
        if self.grid is not None:
            return ((point * self.grid).round().clamp(0, self.grid) / self.grid).float()
        return (point.clamp(0, 1) if self.box else point).float()

    def _stuck(self, x: Tensor, moved: Tensor) -> Tensor:
        rows, columns = self.window(x.shape)
        if rows == 0:
            return x.clone()
        change = (x + moved).clamp(0, 1).float() - x
        plane = change.abs().reshape(1, -1, *x.shape[-2:]).sum(dim=1)
        sums = torch.nn.functional.avg_pool2d(plane, (rows, columns), stride=1)[0]
        top, left = divmod(int(sums.argmax()), sums.shape[1])
        point, place = x.clone(), (..., slice(top, top + rows), slice(left, left + columns))
        point[place] = (x + moved).clamp(0, 1).float()[place]
        return point

    def _switched(self, x: Tensor, moved: Tensor) -> Tensor:
        ends = (moved > 0).float()
        gains = (moved.abs() * (ends != x)).flatten()
        chosen = gains.topk(min(int(self.radius), gains.numel()))
        places = chosen.indices[chosen.values > 0]
        point = x.clone()
        point.view(-1)[places] = ends.flatten()[places]
        return point


@dataclass(frozen=True, eq=False)
class Target:
    """A point to move away from its label, within a ball."""

    source: Source
    index: int
    x: Tensor
    label: int
    ball: Ball


class Force(NamedTuple):
    """How hard to attack."""

    network: Classifier | None  # with gradients; None: a black box
    steps: int
    draws: int  # noisy copies behind a gradient
    seed: int


def worst(target: Target, towards: Sequence[Tensor], force: Force) -> Tensor:
    """The weakest point that any way of looking finds."""
    points = [search(target, towards, force.seed)]
    if force.network is not None:
        points.append(climb(target, force.network, force))
    if force.network is not None and target.ball.norm == "patch":
        from smoothcert.audit.patches import stick  # which builds on this file

        points += stick(target, force.network, force)
    return weakest(target, points, Stream(force.seed, target.index, "audit choice"))


def weakest(target: Target, points: Sequence[Tensor], stream: Stream) -> Tensor:
    """Of these points the one where the label has the fewest votes, or leads by fewest; then by the least margin."""

    def rank(point: Tensor) -> tuple[int, float]:
        copies = asked(target.source, point, *looked(target.source.noise, stream, LOOK))
        scores = torch.cat([scores for _, scores in copies])
        found = margins(scores, target.label)
        votes = scores.argmax(dim=1)[found <= 0].bincount(minlength=1)
        rival = int(votes.max()) if target.source.noise.counted else 0  # there a lead is what is certified
        return int((found > 0).sum()) - rival, float(found.mean())

    return min(points, key=rank)


def search(target: Target, towards: Sequence[Tensor], seed: int) -> Tensor:
    """The weakest point that some rounds of candidates find; `towards` are points beyond the ball to go for."""
    generator = torch.Generator().manual_seed((seed * 1_000_003 + target.index) % 2**63)
    ball, x, best = target.ball, target.x, target.x
    for number in range(ROUNDS):
        slope = falling(target, best, Stream(seed, target.index, f"audit slope {number}"))
        found = [ball.steepest(slope, best, spread) for spread in (SPREADS if ball.norm == "l1" else SPREADS[:1])]
        found += [ball.steepest(torch.randn(best.shape, generator=generator), best) for _ in range(RANDOM)]
        found += [other - x for other in towards] if number == 0 else []
        points = [best, *(ball.rim(x, best - x + direction) for direction in found)]
        points += [ball.rim(x, direction) for direction in found] if number else []
        best = weakest(target, points, Stream(seed, target.index, f"audit look {number}"))
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


def climb(target: Target, network: Classifier, force: Force) -> Tensor:
    """The point where some normalised steps, each two radii long in all together, end."""
    ball, x = target.ball, target.x
    source, moved = replace(target.source, classifier=network), torch.zeros(x.shape, dtype=torch.float64)
    for number in range(force.steps):
        stream = Stream(force.seed, target.index, f"audit climb {number}")
        gradient = ascent(source, ball.put(x, moved), target.label, stream, force.draws)
        if not bool(gradient.abs().sum() > 0):  # a vote by one-hot scores has no slope
            break
        spread = SPREADS[number % len(SPREADS)]
        moved = ball.shortened(moved + 2 / force.steps * ball.steepest(gradient, x, spread).double())
    return ball.put(x, moved)


def ascent(source: Source, at: Tensor, label: int, stream: Stream, draws: int) -> Tensor:
    """The gradient of the smoothed loss up to a positive factor: −Σ ∇p = −Σ p∇log p, which does not underflow."""
    total = torch.zeros(at.shape)
    for batch, number in noisy(source, at, stream, draws):
        copies = batch[:number].requires_grad_()
        logs = source.classifier(copies).log_softmax(dim=1)[:, label]
        if logs.requires_grad:
            (gradient,) = torch.autograd.grad(-(logs.detach().exp() * logs).sum(), copies)
            total += gradient.sum(dim=0)
    return total


def noisy(source: Source, x: Tensor, stream: Stream, draws: int) -> Iterator[tuple[Tensor, int]]:
    """Batches of noisy copies, all with the same number of rows, and how many of these count; the others fill up."""
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


def looked(noise: Noise, stream: Stream, draws: int) -> tuple[Stream, int]:
    """The stream and the draws of a look at a point; of a noise with few cases each of them, once."""
    return (stream._replace(purpose=EVERY), noise.cases) if noise.counted and noise.cases else (stream, draws)


def _sides(moved: Tensor) -> tuple[int, int]:
    """Rows and columns of the smallest rectangle that holds every change of an image."""
    rows, columns = moved.reshape(-1, *moved.shape[-2:]).ne(0).any(dim=0).nonzero().unbind(dim=1)
    return (0, 0) if len(rows) == 0 else (int(rows.max() - rows.min()) + 1, int(columns.max() - columns.min()) + 1)


def _patches(extent: int, size: int) -> int:
    return -(-extent // size)


def margins(scores: Tensor, label: int) -> Tensor:
    """How far the label leads each row of scores [rows, classes], in [rows]; below 0 where it does not."""
    others = scores.clone()
    others[:, label] = -torch.inf
    return scores[:, label] - others.amax(dim=1)
