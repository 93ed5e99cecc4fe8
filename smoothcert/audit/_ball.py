"""The points that a certificate speaks of: how to move in a ball of any norm, and how to be sure of not leaving it.

A direction is any tensor of the shape of x. `steepest` makes of a gradient the way in which the loss climbs fastest for
what the norm allows, `rim` goes as far along a direction as the ball reaches, `put` goes there and no further. Points
are float32, and on the grid where the noise wants that; whether one is inside is decided on the point itself after all
rounding, in float64 or, on the grid, in whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from smoothcert.contracts import Norm
from smoothcert.norms import within

ORDERS = {"l1": 1, "l2": 2}


@dataclass(frozen=True)
class Ball:
    """All points nearer than `radius` in this norm, or as near where it is closed; `box`: only those in [0,1]."""

    norm: Norm
    radius: float
    grid: int | None = None  # points are multiples of 1/grid in [0,1]
    closed: bool = False
    box: bool = False

    def distance(self, x: Tensor, y: Tensor) -> float:
        """Of two points, in float64; on the grid from whole steps."""
        moved = y.double() - x.double()
        if self.norm == "l0":
            return float((moved != 0).sum())
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

        In l0 coordinates count by what they can gain on their way to 0 or 1.
        """
        if self.norm == "l0":
            gains = gradient * torch.where(gradient > 0, 1 - x, x)
            return gains / gains.abs().max().clamp_min(1e-30)
        if self.norm == "l1":
            least = gradient.abs().flatten().topk(min(spread, gradient.numel())).values[-1]
            gradient = torch.where(gradient.abs() >= least, gradient, torch.zeros_like(gradient))
        return gradient * (self.radius / self._length(gradient))

    def rim(self, x: Tensor, direction: Tensor) -> Tensor:
        """The point as far from x in this direction as the ball reaches."""
        return self.put(x, direction if self.norm == "l0" else direction * (self.radius / self._length(direction)))

    def put(self, x: Tensor, moved: Tensor) -> Tensor:
        """The point x + moved, or one nearer to x where that is outside; in l0 the largest coordinates, all the way."""
        if self.norm == "l0":
            return self._switched(x, moved)
        moved, step = self.shortened(moved.double()), 0.01 if self.grid is not None else 1e-6
        while not self.holds(x, point := self._legal(x, moved)):
            moved, step = moved * (1 - step), min(0.5, 2 * step)
        return point

    def shortened(self, moved: Tensor) -> Tensor:
        """Moved by the radius at most; l0 has no lengths."""
        return moved if self.norm == "l0" else moved * min(1.0, self.radius / self._length(moved))

    def _length(self, moved: Tensor) -> float:
        return max(float(moved.double().flatten().norm(p=ORDERS[self.norm])), 1e-30)

    def _legal(self, x: Tensor, moved: Tensor) -> Tensor:
        point = x.double() + moved
        if self.grid is not None:
            return ((point * self.grid).round().clamp(0, self.grid) / self.grid).float()
        return (point.clamp(0, 1) if self.box else point).float()

    def _switched(self, x: Tensor, moved: Tensor) -> Tensor:
        ends = (moved > 0).float()
        gains = (moved.abs() * (ends != x)).flatten()
        chosen = gains.topk(min(int(self.radius), gains.numel()))
        places = chosen.indices[chosen.values > 0]
        point = x.clone()
        point.view(-1)[places] = ends.flatten()[places]
        return point


def ball(noise: Any, radius: float, exact: bool = False, box: bool = False) -> Ball:
    """The ball of a certificate under this noise."""
    return Ball(noise.norm, radius, getattr(noise, "grid", None), exact or noise.norm == "l0", box)
