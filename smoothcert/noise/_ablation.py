"""What noises share that hide all of an image but a window, and their certificate against patches.

De-randomized smoothing (Levine, Feizi, NeurIPS 2020). A copy keeps a window of the image at one of N places, wrapping
around at the borders, and hides all else by −1, which no pixel is. A patch of a × b pixels, wherever it is and whatever
it shows, changes only the copies whose window it meets. Along an axis of n pixels with a window of s at each of them
these are the windows that begin at one of a + s − 1 neighbouring pixels, n at most; along an axis that windows fill
there is one place, which is met. So Δ, the product of the two, bounds how many votes a patch can move, and the class
with n_A votes stays where n_A ≥ n_c + [c < A] + 2Δ for every other class c.

A radius r is against a patch of r × r pixels, or of r times the option `patch`. Nothing is added to a pixel, so nothing
is rounded. There are few cases: `sampling/exhaustive.py` counts them, and draws at random are there for training, for
`predict`, and for whoever wants to sample.
"""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from smoothcert.contracts import EVERY, Floats, Moments, Noise, Norm, Stream, StreamRows, Tensor
from smoothcert.errors import DataError, OptionError
from smoothcert.noise import HIDDEN, moments_of, sizes
from smoothcert.noise._cases import around, drawn, drawn_on_device
from smoothcert.philox import Names, names, tensor

MOST = 2**22  # places of a window


class Axis(NamedTuple):
    """One side of an image: its pixels, how many of them a window keeps, and at how many places it can be."""

    pixels: int
    window: int
    places: int

    def met(self, extent: int) -> int:
        """The most places whose window meets so many neighbouring pixels."""
        return 1 if self.places == 1 else min(self.pixels, extent + self.window - 1)


@dataclass(frozen=True, kw_only=True)
class Ablation(Noise):
    """Keep a window of an image, hide the rest; a noise says which windows there are.

    image: rows and columns of the inputs, as in 32x32; what it is fitted to says so, unless it is given.
    patch: rows and columns that a radius of 1 stands for, as in 3x7.
    """

    image: tuple[int, int] | None = None
    patch: tuple[int, int] = (1, 1)

    norm: ClassVar[Norm] = "patch"
    from_table: ClassVar[bool] = True
    counted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "patch", sizes(self.patch, f"patch of {self._name}"))
        if self.image is not None:
            object.__setattr__(self, "image", sizes(self.image, f"image of {self._name}"))
            _ = self.axes

    @abstractmethod
    def axes_of(self, rows: int, columns: int) -> tuple[Axis, Axis]:
        """Rows and columns of an image of this size; refused where no window fits."""

    @property
    def _name(self) -> str:
        return type(self).__module__.rsplit(".", 1)[-1]

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """Rows and columns of the image that it is for."""
        if self.image is None:
            raise OptionError(f"image of {self._name} must be known: rows and columns of the inputs, as in 32x32")
        found = self.axes_of(*self.image)
        if math.prod(axis.places for axis in found) > MOST:
            raise OptionError(f"image of {self._name} must have at most {MOST} places for a window; got {self.image}")
        return found

    @property
    def words(self) -> str:
        rows, columns = self.patch
        unit = "" if self.patch == (1, 1) else f", radius 1 is {rows} × {columns} pixels"
        return f"{self.kind}, {self.level}{unit}"

    @property
    def complete(self) -> bool:
        return self.image is not None

    def fitted(self, shape: Sequence[int]) -> Self:
        """The same for images of this shape, [..., rows, columns]."""
        if len(shape) < 2:
            raise DataError(f"inputs of {self._name} must be images [..., rows, columns]; got shape {list(shape)}")
        rows, columns = int(shape[-2]), int(shape[-1])
        if self.image not in (None, (rows, columns)):
            said = " × ".join(map(str, self.image or ()))
            raise DataError(f"inputs of {self._name} must be images of {said} pixels; got {rows} × {columns}")
        return self if self.image else dataclasses.replace(self, image=(rows, columns))

    @property
    def cases(self) -> int | None:
        """Places of the window; None where no image is known."""
        return None if self.image is None else math.prod(axis.places for axis in self.axes)

    def moved(self, radius: float) -> int:
        """Δ: the most copies that a patch of this radius can change."""
        if radius <= 0:
            return 0
        return math.prod(axis.met(math.ceil(radius) * size) for axis, size in zip(self.axes, self.patch, strict=True))

    def radius(self, p_top: Tensor, p_next: Tensor, dim: int) -> Tensor:
        """The largest whole r whose patch moves too few votes. It moves in steps, so it has no slope to train with."""
        import torch

        cases = math.prod(axis.places for axis in self.axes)
        # Counts make whole and half steps. The margin undoes the rounding of their quotients, and is far below what
        # estimated bounds are rounded by (`bounds.MARGIN`): those never gain a step by it.
        steps = (cases / 2 * (p_top - p_next).detach().double() + cases * 1e-15).floor()
        limits = torch.tensor(_limits(self, cases // 2), dtype=torch.float64)
        found = torch.bucketize(steps, limits, right=True)
        return torch.where(steps < 0, -1, found).to(p_top.dtype)

    def p_needed(self, radius: float, dim: int) -> float:
        """½ + Δ/N, rounded up; above 1 where the patch is out of reach."""
        cases = math.prod(axis.places for axis in self.axes)
        return math.nextafter(0.5 + self.moved(radius) / cases * (1 + 1e-15), math.inf)

    def fill(self, out: Tensor, x: Tensor, stream: Stream, first: int) -> None:
        """Write copies of x with all but the window hidden into out [rows, *x.shape]."""
        down, across = self.fitted(x.shape).axes
        case = drawn(stream, first, out.shape[0], down.places * across.places)
        rows, columns = _kept(down, case // across.places), _kept(across, case % across.places)
        image = (down.pixels, across.pixels)
        kept = rows[:, None, :, None] & columns[:, None, None, :]
        copies = out.view(out.shape[0], -1, *image).numpy()
        copies[:] = HIDDEN
        np.copyto(copies, x.reshape(-1, *image).numpy(), where=kept)

    def fill_rows(self, out: Tensor, x: Tensor, rows: StreamRows) -> None:
        """The same, bit for bit."""
        down, across = self.fitted(x.shape[1:]).axes
        about = tensor(around, (down.places * across.places,), x)
        rows.run(_show, out, x, names(rows), about, (*down, *across, rows.purpose == EVERY))

    def moments(self, x: Tensor) -> Moments:
        """Every case once: one place hides all coordinates but some, so their mean is what is random."""
        down, across = self.fitted(x.shape).axes
        plane = x.reshape(-1, down.pixels, across.pixels).numpy().astype(np.float64)
        shown = len(plane) * down.window * across.window
        seen = _sums(_sums(plane.sum(axis=0), down, 0), across, 1).ravel()
        means = (seen + HIDDEN * (x.numel() - shown)) / x.numel()
        return moments_of(means[None], np.full((1, len(means)), 1 / len(means)))._replace(single=True)


@lru_cache(maxsize=64)
def _limits(noise: Ablation, most: int) -> list[int]:
    """Δ of the radii 1, 2, …, as long as it is at most so much."""
    found: list[int] = []
    while (moved := noise.moved(len(found) + 1)) <= most:
        found.append(moved)
    return found


def _kept(axis: Axis, at: Any) -> Any:
    """Which pixels of an axis a window that begins at each of these places keeps: bool [rows, pixels]."""
    return (np.arange(axis.pixels) - at[:, None]) % axis.pixels < axis.window


def _sums(plane: Floats, axis: Axis, along: int) -> Floats:
    """Sums over the window at each of its places, along one axis of [rows, columns]."""
    if axis.places == 1:
        whole: Floats = plane.sum(axis=along, keepdims=True)
        return whole
    wrapped = np.concatenate([plane, plane.take(range(axis.window), axis=along)], axis=along)
    ends = np.insert(wrapped.cumsum(axis=along), 0, 0.0, axis=along)
    places = np.arange(axis.places)
    found: Floats = ends.take(places + axis.window, axis=along) - ends.take(places, axis=along)
    return found


def _show(out: Tensor, x: Tensor, of: Names, about: Tensor, sizes: tuple[int, ...]) -> None:
    """What `fill` does, in floats that are whole numbers; half a step off one, no product is rounded across it."""
    import torch

    height, tall, _, width, wide, across, every = sizes
    case = drawn_on_device(of, about, bool(every)).double()
    top = ((case + 0.5) * (1 / across)).floor()
    left = case - across * top
    kept = []
    for at, pixels, window in ((top, height, tall), (left, width, wide)):
        away = torch.arange(pixels, device=x.device, dtype=torch.float32) - at.float().unsqueeze(1)
        kept.append(torch.where(away < 0, away + pixels, away) < window)
    shown = kept[0][:, None, :, None] & kept[1][:, None, None, :]
    found = torch.where(shown, x.reshape(len(case), -1, height, width), HIDDEN)
    out.copy_(found.view(out.shape))
