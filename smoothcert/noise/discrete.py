"""Discrete noise and its l0 certificate (Lee, Yuan, Chang, Jaakkola, NeurIPS 2019).

Every coordinate takes one of K+1 evenly spaced values in [0,1]. It is kept with probability a, else replaced by one of
the K others, each with probability b = (1−a)/K. The radius is a whole number r: the label is the same for every input
that differs in at most r coordinates, whichever and however much. `_regions.py` says which P(class) that needs.

An input between two values is first rounded to the nearer one. That is part of the smoothed classifier, and adds no
coordinate in which two inputs differ, so the certificate holds for all of [0,1]^d.

Probabilities are whole multiples of 2⁻³², the asked `keep` rounded up to one of them, and the certificate is computed
for exactly what is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from smoothcert.contracts import Norm, Stream
from smoothcert.errors import OptionError
from smoothcert.noise._regions import above, needed

if TYPE_CHECKING:
    from torch import Tensor

WORD = 2**32
MOST = 256  # coordinates; a larger radius is given as this one


@dataclass(frozen=True, kw_only=True)
class Discrete:
    """Keep a coordinate with probability `keep`, else another of `values` evenly spaced ones; 2: black or white."""

    keep: float
    values: int = 256

    def __post_init__(self) -> None:
        if isinstance(self.values, bool) or not isinstance(self.values, int) or not 2 <= self.values <= 65536:
            raise OptionError(f"values of discrete must be a whole number from 2 to 65536; got {self.values}")
        number = isinstance(self.keep, int | float) and not isinstance(self.keep, bool) and 0.0 < self.keep < 1.0
        if not (number and self._stay > self._other >= 1):
            raise OptionError(
                f"keep of discrete must be above 1/values, here {1 / self.values:g}, and below 1; got {self.keep}"
            )

    @property
    def norm(self) -> Norm:
        return "l0"

    @cached_property
    def _other(self) -> int:
        """Words that stand for one other value, of 2³²."""
        return math.floor((1 - Fraction(self.keep)) * WORD / (self.values - 1))

    @property
    def _stay(self) -> int:
        return WORD - (self.values - 1) * self._other

    def fill(self, out: Tensor, x: Tensor, stream: Stream, first: int) -> None:
        """Write noisy copies into out [rows, *x.shape]: one word a coordinate, whose quotient is the way to go."""
        import numpy as np

        from smoothcert.streams import words

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

    def radius(self, p_top: Tensor, p_next: Tensor, dim: int) -> Tensor:
        """The largest whole r whose need is below p_top. It moves in steps, so it has no slope to train with.

        p_next is not used: `need` asks for more than one half at every input in reach, whoever is second.
        """
        import torch

        limits = [0.5]
        while len(limits) <= MOST and limits[-1] <= float(p_top.max()):
            limits.append(self.need(len(limits), dim))
        found = torch.bucketize(p_top.detach().double(), torch.tensor(limits[1:], dtype=torch.float64), right=True)
        return found.to(p_top.dtype)

    def need(self, radius: float, dim: int) -> float:
        """The P(top class) for a majority at every input that differs in ⌈radius⌉ coordinates, rounded up."""
        whole = math.ceil(radius)
        if whole > MOST:
            return 1.0
        return above(needed(self._stay, self._other, self.values - 1, whole))
