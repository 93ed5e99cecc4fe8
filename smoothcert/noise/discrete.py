"""Discrete noise and its l0 certificate (Lee, Yuan, Chang, Jaakkola, NeurIPS 2019).

Every coordinate takes one of K+1 evenly spaced values in [0,1]. It is kept with probability a, else replaced by one of
the K others, each with probability b = (1−a)/K. The radius is a whole number r: the label is the same for every input
that differs in at most r coordinates, whichever and however much.

**Which P(class) that needs, in exact integers.** A coordinate keeps its value with weight `stay` and takes each of its
`others` other values with weight `other`. Where x and x′ differ, a noisy coordinate equal to x's value speaks for x
(t = +1), one equal to x′'s value for x′ (t = −1), any other for neither. How much likelier a noisy input is under x
than under x′ depends only on the sum t over the r coordinates: (stay/other)^t. By Neyman and Pearson the least
favourable class takes the noisy inputs of the highest t first, the last t in part, until it has half the mass under x′;
what it then has under x is what is needed. The dimension does not enter (the paper reaches the same numbers by counting
regions).

An input between two values is first rounded to the nearer one. That is part of the smoothed classifier, and adds no
coordinate in which two inputs differ, so the certificate holds for all of [0,1]^d.

Probabilities are whole multiples of 2⁻³², the asked `keep` rounded up to one of them, and the certificate is computed
for exactly what is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from smoothcert.contracts import Moments, Noise, Norm, Stream, StreamRows, Tensor
from smoothcert.errors import OptionError
from smoothcert.noise import moments_of
from smoothcert.philox import Names, names, tensor, unsigned
from smoothcert.philox import words as device_words
from smoothcert.streams import words

WORD = 2**32
MOST = 256  # coordinates; a larger radius is given as this one


@dataclass(frozen=True, kw_only=True)
class Discrete(Noise):
    """Keep a coordinate with probability `keep`, else another of `values` evenly spaced ones; 2: black or white."""

    keep: float
    values: int = 256

    norm: ClassVar[Norm] = "l0"
    from_table: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.values, bool) or not isinstance(self.values, int) or not 2 <= self.values <= 65536:
            raise OptionError(f"values of discrete must be a whole number from 2 to 65536; got {self.values}")
        number = isinstance(self.keep, int | float) and not isinstance(self.keep, bool) and 0.0 < self.keep < 1.0
        if not (number and self._stay > self._other >= 1):
            raise OptionError(
                f"keep of discrete must be above 1/values, here {1 / self.values:g}, and below 1; got {self.keep}"
            )

    @property
    def level(self) -> str:
        return f"each coordinate kept with probability {self.keep:g}, of {self.values} values"

    @cached_property
    def _other(self) -> int:
        """Words that stand for one other value, of 2³²."""
        return math.floor((1 - Fraction(self.keep)) * WORD / (self.values - 1))

    @property
    def _stay(self) -> int:
        return WORD - (self.values - 1) * self._other

    def fill(self, out: Tensor, x: Tensor, stream: Stream, first: int) -> None:
        """Write noisy copies into out [rows, *x.shape]: one word a coordinate, whose quotient is the way to go."""
        rows, dim = out.shape[0], x.numel()
        others = self.values - 1
        level = np.floor(x.reshape(-1).numpy().astype(np.float64) * others + 0.5).clip(0, others).astype(np.uint32)
        way = words(stream, first, rows, dim)[:, :dim] // np.uint32(self._other)
        moved = way < others
        way += 1
        way *= moved
        way += level
        way -= np.uint32(self.values) * (way > others)
        values = (np.arange(self.values) / others).astype(np.float32)
        np.take(values, way, out=out.view(rows, dim).numpy(), mode="clip")

    def fill_rows(self, out: Tensor, x: Tensor, rows: StreamRows) -> None:
        """The same, bit for bit."""
        rows.run(_replace, out, x, names(rows), tensor(_part, (self._other,), x), self.values - 1)

    def radius(self, p_top: Tensor, p_next: Tensor, dim: int) -> Tensor:
        """The largest whole r that needs no more than p_top. It moves in steps, so it has no slope to train with.

        p_next is not used: `p_needed` asks for more than one half at every input in reach, whoever is second.
        """
        import torch

        limits = [0.5]
        while len(limits) <= MOST and limits[-1] <= float(p_top.max()):
            limits.append(self.p_needed(len(limits), dim))
        found = torch.bucketize(p_top.detach().double(), torch.tensor(limits[1:], dtype=torch.float64), right=True)
        return found.to(p_top.dtype)

    def p_needed(self, radius: float, dim: int) -> float:
        """The P(top class) for a majority at every input that differs in ⌈radius⌉ coordinates, rounded up."""
        whole = math.ceil(radius)
        if whole > MOST:
            return 1.0
        return above(needed(self._stay, self._other, self.values - 1, whole))

    def moments(self, x: Tensor) -> Moments:
        values = np.arange(self.values) / (self.values - 1)
        level = np.floor(x.numpy().reshape(-1).astype(np.float64) * (self.values - 1) + 0.5).astype(int)
        weights = np.full((len(level), self.values), (1 - self.keep) / (self.values - 1))
        weights[np.arange(len(level)), level] = self.keep
        return moments_of(np.broadcast_to(values, weights.shape), weights)


def _part(other: int) -> np.float64:
    return np.float64(1 / other)


def _replace(out: Tensor, x: Tensor, of: Names, part: Tensor, others: int) -> None:
    """What `fill` does, by products in double instead of divisions, which compilers may round otherwise.

    Half a step above a word, no rounding takes a quotient across a whole number; and a product, rounded to single, is
    the quotient of whole numbers below 2¹⁶, for none of those is within 2⁻⁴¹ of the middle between two floats.
    """
    import torch

    dim = x.flatten(1).shape[1]
    level = (x.flatten(1).double() * others + 0.5).clamp(0, others).int()
    way = ((unsigned(device_words(of, dim)).double() + 0.5) * part).clamp(max=others).int()
    moved = level + torch.where(way < others, way + 1, 0)
    found = torch.where(moved > others, moved - (others + 1), moved)
    out.copy_((found.double() * (1 / others)).float().view(out.shape))


@lru_cache(maxsize=512)
def levels(stay: int, other: int, others: int, radius: int) -> tuple[int, ...]:
    """Weights of t = −radius … radius under x, of (stay + others·other)^radius in all; under x′ they are reversed."""
    if radius == 0:
        return (1,)
    before = levels(stay, other, others, radius - 1)
    padded = (0, 0, *before, 0, 0)
    neither = (others - 1) * other
    return tuple(stay * padded[i] + neither * padded[i + 1] + other * padded[i + 2] for i in range(len(before) + 2))


@lru_cache(maxsize=4096)
def needed(stay: int, other: int, others: int, radius: int) -> Fraction:
    """P(class) under x above which the class has the majority at every x′ that differs in `radius` coordinates."""
    here = levels(stay, other, others, radius)
    total = sum(here)
    level, taken_here, taken_there = 0, 0, 0  # from t = radius downwards
    while 2 * (taken_there + here[level]) < total:
        taken_here, taken_there = taken_here + here[-1 - level], taken_there + here[level]
        level += 1
    part = Fraction(total - 2 * taken_there, 2 * here[level])
    return (taken_here + part * here[-1 - level]) / total


def above(value: Fraction) -> float:
    """The next float that is larger, so that reaching it is more than reaching the value."""
    number = float(value)
    while Fraction(number) <= value:
        number = math.nextafter(number, math.inf)
    return number
