"""Draws of a noise that has only so many cases: each once, in the stream that is named EVERY, or one at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcert.contracts import EVERY, Integers, Stream, Tensor
from smoothcert.philox import Names, unsigned
from smoothcert.philox import words as device_words
from smoothcert.streams import words


def drawn(stream: Stream, first: int, rows: int, cases: int) -> Integers:
    """The case of draws first, first + 1, …: int64 [rows]."""
    numbers = np.arange(first, first + rows) if stream.purpose == EVERY else _numbers(stream, first, rows)
    found: Integers = (numbers % cases).astype(np.int64)
    return found


def _numbers(stream: Stream, first: int, rows: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Random numbers of 64 bits, whose remainder is uniform over the cases up to one part in 2^64."""
    return words(stream, first, rows, 2)[:, :2].copy().view(np.uint64)[:, 0]


def around(cases: int) -> tuple[float, float, float]:
    """What `drawn_on_device` needs to know of their number, made a tensor."""
    return float(cases), 1 / cases, float(2**32 % cases)


def drawn_on_device(of: Names, about: Tensor, every: bool) -> Tensor:
    """The same on a device, [rows], in numbers that are whole; `about` are those of `around`."""
    return of.numbers % about[0].long() if every else _remainder(device_words(of, 2), about)


def _remainder(bits: Tensor, about: Tensor) -> Tensor:
    """Of unsigned 64-bit numbers, given by their lower and upper words [rows, 2]; in double, exact below 2⁵³.

    Remainders of integers, fused by a compiler, would be divided anew for every coordinate.
    """
    low, high = unsigned(bits).double().unbind(dim=1)
    cases, part, word = about.unbind()
    high = high - cases * ((high + 0.5) * part).floor()
    number = high * word + low  # below 2⁴⁴
    return number - cases * ((number + 0.5) * part).floor()
