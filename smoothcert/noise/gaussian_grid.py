"""Gaussian noise in whole numbers, whose l2 certificate no arithmetic can betray.

Added in floating point, x + ε keeps traces of x in its last bits, and a network may read them: a certificate can then
be false (Voráček, Hein, ICML 2023). Here inputs are multiples of 1/q (q = 255: 8-bit images) and so is the noise:
K = round(qσZ), P(K = i) = Φ((i+½)/qσ) − Φ((i−½)/qσ), independently for every coordinate. The sum of whole numbers is
exact, and since x is on the grid it is round(q(x + σZ)): what is sampled is F∘round under ordinary Gaussian noise,
Cohen's theorem holds for it everywhere, and the certificate for every input on the grid with Σ(qδ)² < (qR)².

K is drawn by inverse CDF: the number of thresholds T_i = ⌊2⁶⁴Φ((i+½)/qσ)⌋ (mirrored above ½) that a uniform 64-bit
number reaches. With F the distribution function and F̂ = T/2⁶⁴ the drawn one, the total variation between the two is
½Σ|p̂_i − p_i| ≤ Σ|F̂_i − F_i|. Each of the 2M thresholds is off by less than 2⁻⁶⁴. Beyond them F̂ is 0 (or 1) and F below
2⁻⁶⁴ at 9 sd, from where its sum is at most 2⁻⁶⁴(1 + qσ(1+z²)/z³) ≤ 2⁻⁶⁴(1 + qσ), by comparison with the integral and
Mill's ratio. So one coordinate is off by at most (2M + 2 + 2qσ)·2⁻⁶⁴ and d of them by at most d times that: it is
taken from p_top and added to p_next. For σ = 0.25 and a CIFAR image this is 2·10⁻¹³.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from smoothcert.contracts import Moments, Noise, Norm, Stream, Tensor, TorchGenerator
from smoothcert.errors import OptionError
from smoothcert.noise import added, check_grid, steps
from smoothcert.streams import words

LARGEST = 3000.0  # qσ: thresholds reach to 9 of them on either side, and must fit 16 bits
BITS = 18  # leading bits of a word that choose from the guide
UNSURE = -(2**15)
DIGITS = 60
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


@dataclass(frozen=True)
class GaussianGrid(Noise):
    """Normal noise rounded to multiples of 1/grid, for inputs that are such multiples themselves."""

    sigma: float
    grid: int = 255

    norm: ClassVar[Norm] = "l2"

    def __post_init__(self) -> None:
        check_grid(self.grid, "gaussian_grid")
        number = isinstance(self.sigma, int | float) and not isinstance(self.sigma, bool)
        if not (number and 0.0 < self.sigma <= LARGEST / self.grid):
            most = LARGEST / self.grid
            raise OptionError(
                f"sigma of gaussian_grid must be positive and at most {most:g}, for inputs in [0,1]; got {self.sigma}"
            )

    @property
    def kind(self) -> str:
        return f"Gaussian noise in steps of 1/{self.grid}"

    def fill(self, out: Tensor, x: Tensor, stream: Stream, first: int) -> None:
        """Write (steps of x + K)/grid into out [rows, *x.shape]; the sum is one of whole numbers."""
        rows, dim = out.shape[0], x.numel()
        noisy = out.view(rows, dim).numpy()
        noisy[:] = _drawn(_sampler(self.sigma, self.grid), stream, first, rows, dim)
        noisy += steps(x, self.grid, "gaussian_grid").astype(np.float32)
        noisy /= np.float32(self.grid)

    def unit(self, shape: Sequence[int], generator: TorchGenerator) -> Tensor:
        """Normal numbers, not yet rounded: that a network sees whole steps is nothing that it would have to learn."""
        import torch

        return torch.randn(tuple(shape), generator=generator, device=generator.device)

    def radius(self, p_top: Tensor, p_next: Tensor, dim: int) -> Tensor:
        """σ/2·(Φ⁻¹(p_top − e) − Φ⁻¹(p_next + e)), e the error of the sampler in this dimension."""
        import torch

        error = self.error(dim)
        radius: Tensor = self.sigma / 2 * (torch.special.ndtri(p_top - error) - torch.special.ndtri(p_next + error))
        return radius

    def p_needed(self, radius: float, dim: int) -> float:
        """Φ(r/σ) + e, rounded up."""
        from scipy.special import ndtr

        return math.nextafter((float(ndtr(radius / self.sigma)) + self.error(dim)) * (1 + 1e-15), math.inf)

    def error(self, dim: int) -> float:
        """A bound on the total variation between the noise that is drawn and the one of the theorem."""
        spread = self.grid * self.sigma
        return dim * (len(_sampler(self.sigma, self.grid).thresholds) + 2 + 2 * spread) * 2.0**-64

    def moments(self, x: Tensor) -> Moments:
        from scipy.special import ndtr

        wide = self.sigma * self.grid
        whole = np.arange(-int(10 * wide) - 2, int(10 * wide) + 3)
        weights = ndtr((whole + 0.5) / wide) - ndtr((whole - 0.5) / wide)
        variance = float(weights @ whole**2.0)
        return added(x, variance**0.5 / self.grid, float(weights @ whole**4.0) / variance**2)


class Sampler(NamedTuple):
    """K = lowest + how many thresholds a 64-bit number reaches; the guide answers for most leading bits at once."""

    thresholds: np.ndarray[Any, np.dtype[np.uint64]]
    high: np.ndarray[Any, np.dtype[np.uint32]]  # their upper halves
    guide: np.ndarray[Any, np.dtype[np.int16]]  # [2^BITS]: K, or UNSURE where a threshold lies among these numbers
    lowest: int


@lru_cache(maxsize=16)
def _sampler(sigma: float, grid: int) -> Sampler:
    below: list[int] = []  # T_{-1}, T_{-2}, … falling
    while (threshold := int(2**64 * lower_tail(len(below), sigma, grid))) > 0:
        below.append(threshold)
    thresholds = np.array([*below[::-1], *(2**64 - threshold for threshold in below)], dtype=np.uint64)
    first = np.arange(2**BITS, dtype=np.uint64) << np.uint64(64 - BITS)
    last = first + np.uint64(2 ** (64 - BITS) - 1)
    low, high = (np.searchsorted(thresholds, ends, side="right") for ends in (first, last))
    guide = np.where(low == high, low - len(below), UNSURE).astype(np.int16)
    return Sampler(thresholds, (thresholds >> np.uint64(32)).astype(np.uint32), guide, -len(below))


def lower_tail(steps_out: int, sigma: float, grid: int) -> Decimal:
    """Φ(−(k+½)/qσ) for k = 0, 1, …, to more than 45 digits: Φ(z) = ½ + φ(z)·(z + z³/3 + z⁵/15 + …)."""
    with localcontext() as context:
        context.prec = DIGITS
        z = (Decimal(steps_out) + Decimal("0.5")) / (Decimal(sigma) * grid)
        if z > 12:
            return Decimal(0)
        term = total = z
        odd = 1
        while term > total.scaleb(-DIGITS):
            odd += 2
            term *= z * z / odd
            total += term
        return Decimal("0.5") - total * (-z * z / 2).exp() / (2 * PI).sqrt()


def _drawn(sampler: Sampler, stream: Stream, first: int, rows: int, dim: int) -> np.ndarray[Any, np.dtype[np.int16]]:
    """K for every coordinate, int16 [rows, dim]; the lower 32 of its 64 bits are had only when they matter."""
    raw = words(stream, first, rows, dim)[:, :dim]
    found: np.ndarray[Any, np.dtype[np.int16]] = sampler.guide.take(raw >> np.uint32(32 - BITS))
    row, column = np.divmod(np.flatnonzero(found == UNSURE), dim)
    high = raw[row, column]
    reached = np.searchsorted(sampler.high, high, side="right")
    found[row, column] = reached + sampler.lowest
    for i in np.flatnonzero(np.searchsorted(sampler.high, high, side="left") != reached):
        lower = stream._replace(purpose=f"{stream.purpose}, lower half")
        low = words(lower, first + int(row[i]), 1, dim)[0, column[i]]
        number = (np.uint64(high[i]) << np.uint64(32)) | np.uint64(low)
        found[row[i], column[i]] = np.searchsorted(sampler.thresholds, number, side="right") + sampler.lowest
    return found
