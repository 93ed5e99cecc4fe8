"""Splitting noise and its l1 certificate, random or exact (Levine, Feizi, ICML 2021, Theorems 2 and 3).

Inputs are multiples of 1/q (q = 255: 8-bit images). A draw is one offset t out of N = 2λq. It cuts the values of
coordinate i at (t + v_i mod N + ½)/q and every 2λ from there, and each value is replaced by the middle of its piece,
cut off at 0 and 1. Two inputs at l1 distance k/q are told apart by at most k of the N offsets, whatever v is, so no
probability changes by more than k/N: λ(p_top − p_next) is an l1 radius, rounded down to a multiple of 1/q.

There are only N offsets. Draw i of the stream named EVERY is offset i, and `sampling/exhaustive.py` asks for all of
them: then probabilities are counted, not estimated, and the certificate holds without an alpha. Every other stream
draws offsets at random, so that `predict` and tests of a radius speak of the same smoothed classifier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from smoothcert.contracts import EVERY, Moments, Noise, Norm, Stream, StreamRows, Tensor
from smoothcert.errors import OptionError
from smoothcert.noise import CLOSE, ROOT, check_grid, half_width, moments_of, needed_within, steps
from smoothcert.noise._cases import around, drawn, drawn_on_device
from smoothcert.philox import Names, names, tensor
from smoothcert.streams import words

LARGEST = 2**22  # entries of the table of middles, once around


@dataclass(frozen=True, kw_only=True)
class Splitting(Noise):
    """One random cut of the values: give lam, half the distance of cuts, or sigma = lam/√3; 2·lam·grid is whole.

    pattern: none cuts all coordinates alike; a number seeds offsets v_i of their own, fixed for ever: they are part of
    the smoothed classifier.
    """

    lam: float = 0.0
    sigma: float = 0.0
    grid: int = 255
    pattern: int | None = None

    norm: ClassVar[Norm] = "l1"
    from_table: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_grid(self.grid, "splitting")
        lam = half_width("splitting", self.lam, self.sigma, math.inf)  # its own limit is lower
        if 2 * lam * self.grid > (most := LARGEST // (self.grid + 1)):
            raise OptionError(f"lam of splitting must be at most {most / (2 * self.grid):g}; got {lam:g}")
        # A standard deviation is met as nearly as the grid allows, from below as in the paper's code.
        cases = round(2 * lam * self.grid) if self.lam else int(2 * lam * self.grid + 1e-9)
        if cases < 1 or (self.lam and abs(2 * lam * self.grid - cases) > CLOSE):
            raise OptionError(
                f"lam of splitting must be a multiple of 1/{2 * self.grid}, so that 2·lam·grid is whole; got {lam:g}"
            )
        if self.pattern is not None:
            _check_pattern(self.pattern)
        object.__setattr__(self, "lam", cases / (2 * self.grid))
        object.__setattr__(self, "sigma", self.lam / ROOT)

    @property
    def level(self) -> str:
        return f"λ = {self.lam:.4g} (σ = {self.sigma:.4g})"

    @property
    def cases(self) -> int:
        """How many different draws there are."""
        return round(2 * self.lam * self.grid)

    def fill(self, out: Tensor, x: Tensor, stream: Stream, first: int) -> None:
        """Write the middles of the pieces that hold x into out [rows, *x.shape]; every value comes from one table."""
        rows, dim = out.shape[0], x.numel()
        at = steps(x, self.grid, "splitting")
        offset = drawn(stream, first, rows, self.cases)[:, None]
        if self.pattern is not None:
            at = at + _pattern(self.pattern, self.cases, dim) * (self.grid + 1)
        middles = _middles(self.cases, self.grid)
        np.take(middles, offset * (self.grid + 1) + at, out=out.view(rows, dim).numpy(), mode="clip")

    def fill_rows(self, out: Tensor, x: Tensor, rows: StreamRows) -> None:
        """The same, bit for bit, where x is on the grid."""
        options = self.pattern, self.cases, math.prod(x.shape[1:])
        shift = None if self.pattern is None else tensor(_shift, options, x)
        about = tensor(around, (self.cases,), x)
        rows.run(_cut, out, x, names(rows), shift, about, (self.grid, rows.purpose == EVERY))

    def radius(self, p_top: Tensor, p_next: Tensor, dim: int) -> Tensor:
        """λ(p_top − p_next) rounded down to the grid; its slope is that of the radius before rounding."""
        import torch

        moved: Tensor = self.cases / 2 * (p_top - p_next)  # in steps
        # Counts make whole and half steps. The margin undoes the rounding of their quotients, below 4·2⁻⁵³ a case, and
        # is far below what estimated bounds are rounded by (`bounds.MARGIN`): those never gain a step by it.
        return torch.floor(moved.detach() + self.cases * 1e-15) / self.grid + (moved - moved.detach()) / self.grid

    def p_needed(self, radius: float, dim: int) -> float:
        """½ + r/(2λ), rounded up."""
        return needed_within(radius, self.lam)

    def moments(self, x: Tensor) -> Moments:
        """Every case once: one offset moves all coordinates, so their mean is what is random."""
        import torch

        every = torch.zeros(self.cases, *x.shape)
        self.fill(every, x, Stream(0, 0, EVERY), 0)
        means = every.numpy().reshape(self.cases, -1).astype(np.float64).mean(axis=1)
        return moments_of(means[None], np.full((1, self.cases), 1 / self.cases))._replace(single=True)


def _check_pattern(pattern: int) -> None:
    if isinstance(pattern, bool) or not isinstance(pattern, int) or not 0 <= pattern < 2**64:
        raise OptionError(f"pattern of splitting must be none or a whole number from 0 to 2^64 − 1; got {pattern}")


@lru_cache(maxsize=8)
def _pattern(seed: int, cases: int, dim: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The offset of each coordinate, int64 [dim]."""
    return words(Stream(seed, 0, "pattern of splitting"), 0, 1, dim)[0, :dim].astype(np.int64) % cases


@lru_cache(maxsize=4)
def _middles(cases: int, grid: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The middle of the piece that holds step s when the offset is t, float32, at t·(grid + 1) + s.

    t runs twice around, so that the sum of two offsets finds its place. In half steps the cuts are at 2t + 1 + 2N·j,
    and step s lies above the one with j = ⌊(s − t − 1)/N⌋.
    """
    offset, at = (np.arange(2 * cases) % cases)[:, None], np.arange(grid + 1)
    cut = 2 * offset + 1 + 2 * cases * ((at - offset - 1) // cases)
    ends = np.maximum(cut, 0) + np.minimum(cut + 2 * cases, 2 * grid)
    middles: np.ndarray[Any, np.dtype[np.float32]] = (ends / (4 * grid)).astype(np.float32).ravel()
    return middles


def _shift(seed: int, cases: int, dim: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return _pattern(seed, cases, dim).astype(np.float32)


def _cut(out: Tensor, x: Tensor, of: Names, shift: Tensor | None, about: Tensor, sizes: tuple[int, int]) -> None:
    """What `fill` does, computed as `_middles` is, in floats that are whole numbers below 2²⁴.

    Quotients are products. Half a step off a whole number, no rounding takes them across it; and the last, in double,
    is rounded to single from far closer than it is to the middle between two floats.
    """
    import torch

    grid, every = sizes
    cases, part, _ = about.float().unbind()
    offset = drawn_on_device(of, about, bool(every)).float().unsqueeze(1)
    if shift is not None:
        offset = torch.where(offset + shift < cases, offset + shift, offset + shift - cases)
    at = (x.flatten(1) * grid + 0.5).floor()
    cut = 2 * offset + 1 + 2 * cases * ((at - offset - 0.5) * part).floor()
    ends = cut.clamp(min=0) + (cut + 2 * cases).clamp(max=2 * grid)
    out.copy_((ends.double() * (1 / (4 * grid))).float().view(out.shape))
