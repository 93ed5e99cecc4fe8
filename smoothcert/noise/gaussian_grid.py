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

from smoothcert.contracts import Moments, Noise, Norm, Stream, StreamRows, Tensor, TorchGenerator
from smoothcert.errors import OptionError
from smoothcert.noise import added, check_grid, steps
from smoothcert.philox import Names, names, tensor, whole_blocks, words_at
from smoothcert.philox import words as device_words
from smoothcert.streams import WORDS_PER_BLOCK, words

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

    def fill_rows(self, out: Tensor, x: Tensor, rows: StreamRows) -> None:
        """The same, bit for bit, where x is on the grid."""
        options = self.sigma, self.grid
        tables = Tables(*(tensor(make, options, x) for make in (_guide, _order, _place)))
        lower = names(rows, f"{rows.purpose}, lower half")
        rows.run(_add_steps, out, x, names(rows), lower, tables, (self.grid, _room(options, out.numel())))

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


class Tables(NamedTuple):
    """A sampler on a device. Lengths are powers of two, so that a compiled function serves many levels."""

    guide: Tensor  # int16 [2^BITS]
    order: Tensor  # int64, thresholds less 2⁶³: signed numbers in the order of unsigned ones
    place: Tensor  # int64 [2]: how many thresholds there are, and K below all of them


def _guide(sigma: float, grid: int) -> np.ndarray[Any, np.dtype[np.int16]]:
    return _sampler(sigma, grid).guide


def _order(sigma: float, grid: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    order = (_sampler(sigma, grid).thresholds ^ np.uint64(2**63)).view(np.int64)
    return np.pad(order, (0, _power(len(order)) - len(order)), constant_values=2**63 - 1)


def _place(sigma: float, grid: int) -> tuple[int, int]:
    sampler = _sampler(sigma, grid)
    return len(sampler.thresholds), sampler.lowest


def _power(number: int) -> int:
    return 1 << max(number - 1, 1).bit_length()


@lru_cache(maxsize=256)
def _room(options: tuple[float, int], numbers: int) -> int:
    """Room for the coordinates that the guide leaves open: ten standard deviations more than are expected."""
    expected = numbers * float((_sampler(*options).guide == UNSURE).mean())
    return _power(math.ceil(expected + 10 * math.sqrt(expected) + 64))


def _add_steps(out: Tensor, x: Tensor, of: Names, lower: Names, tables: Tables, sizes: tuple[int, int]) -> None:
    """What `fill` does, without asking the device how many coordinates the guide leaves open.

    All 64 bits are had for `room` coordinates: those, and another one as often as it takes to fill the room. If there
    is not room for all, every number becomes NaN, which engines refuse.
    """
    import torch

    grid, room = sizes
    whole = x.flatten(1)
    dim = whole.shape[1]
    width = whole_blocks(dim)
    bits = device_words(of, width).flatten()
    count, lowest = tables.place.unbind()
    found = tables.guide.index_select(0, (bits >> (32 - BITS)) & (2**BITS - 1)).int()
    unsure, full = _where(found == UNSURE, room)
    row, column = unsure // width, unsure % width
    number = ((bits.index_select(0, unsure).long() << 32) ^ -(2**63)) | words_at(lower, dim, row, column)
    reached = torch.searchsorted(tables.order, number, right=True).clamp(max=count)
    found = found.scatter(0, unsure, (reached + lowest).int()).view(-1, width).narrow(1, 0, dim)
    # One of few whole numbers, over at most 4095: rounded from its product in double it is the quotient in single.
    step = torch.where(full, math.nan, 0.0).double() + 1.0 / grid
    out.copy_(((found + (whole * grid + 0.5).int()) * step).float().view(out.shape))


def _where(mask: Tensor, room: int) -> tuple[Tensor, Tensor]:
    """Where a mask is true, `room` places, the last of them any; and whether all are used, so that some may be missing.

    Blocks first, of which few hold any: the search through all coordinates is what takes time on a CPU.
    """
    import torch

    blocks = torch.nonzero_static(mask.view(torch.int64), size=room, fill_value=0).squeeze(1)
    meant = (blocks > 0) | (torch.arange(room, device=mask.device) == 0)  # not the padding
    true = mask.view(-1, WORDS_PER_BLOCK).index_select(0, blocks) & meant.unsqueeze(1)
    places = torch.nonzero_static(true.flatten(), size=room, fill_value=0).squeeze(1)
    block = blocks.index_select(0, places // WORDS_PER_BLOCK)
    return block * WORDS_PER_BLOCK + places % WORDS_PER_BLOCK, places.select(0, -1) > 0
