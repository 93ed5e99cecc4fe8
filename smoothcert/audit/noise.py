"""Is the noise what the theorem assumes? The streams that the run drew from are drawn again and looked at.

Repeats: the random words behind every draw must differ, over inputs, purposes and draws (256 bits each, so that chance
repeats none), and so must whole blocks of noisy copies, which must also be the same however they are batched.

Moments: noisy copies, less what their law says is their centre and divided by its spread, must have mean 0, variance 1,
and no correlation from draw to draw, from coordinate to coordinate, and from input to input. Each of the five is a sum
of at least some 10⁴ independent numbers of known variance, taken for normal, and tested on both sides.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.audit import _chance
from smoothcert.audit._check import Check
from smoothcert.audit._laws import Law, Numbers, law
from smoothcert.contracts import EVERY, Noise, Stream
from smoothcert.runs.run import UNCOUNTED, Row
from smoothcert.streams import words

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 64  # draws that are filled together
PIECES = (1, 7, 56)
MOST = 512  # draws of one stream whose words are compared
NUMBERS = 200_000  # that the moments are taken of, at least
MEMORY = 4_000_000  # values that are filled at a time, at most
INPUTS = 8  # whose noisy copies are looked at


def noise(noise: Noise, x: Tensor, rows: Sequence[Row], seed: int, error: float) -> Check:
    """Look at the streams of these rows, through noisy copies of one and the same input x."""
    used = [(row.index, answer.purpose, answer.draws) for row in rows for answer in row.answers]
    streams = {
        Stream(seed, index, purpose): draws
        for index, purpose, draws in used
        if purpose not in (*UNCOUNTED, EVERY) and draws > 0
    }
    chosen = {row.index for row in rows[:INPUTS]}
    few = sorted((stream for stream in streams if stream.input in chosen), key=lambda stream: stream.purpose)
    compared, problems = _repeats(streams)
    problems += _blocks(noise, x, few)
    numbers, wrong = _moments(noise, x, few, _chance.share(error))
    tried = f"{compared} draws of {len(streams)} streams compared for repeats; moments of {numbers} numbers"
    return Check("noise", compared + numbers, tried, (*problems, *wrong))


def _repeats(streams: dict[Stream, int]) -> tuple[int, list[str]]:
    """Random words that two draws share."""
    seen: dict[bytes, str] = {}
    problems = []
    for stream, draws in streams.items():
        first = max(0, draws - MOST)
        for number, row in enumerate(words(stream, first, min(draws, MOST), 8)):
            name = f"{stream.purpose} draw {first + number} of input {stream.input}"
            if (other := seen.setdefault(row.tobytes(), name)) != name:
                problems.append(f"{name} has the random words of {other}")
    return len(seen) + len(problems), problems[:10]


def _blocks(noise: Noise, x: Tensor, streams: Sequence[Stream]) -> list[str]:
    """Blocks of noisy copies that repeat, or that depend on how they are batched."""
    problems, seen = [], dict[str, str]()
    for stream in streams:
        for first in (0, BLOCK):
            name, block = f"{stream.purpose} draws {first}… of input {stream.input}", _filled(noise, x, stream, first)
            key = hashlib.sha256(block.tobytes()).hexdigest()
            if (other := seen.setdefault(key, name)) != name:
                problems.append(f"noise of {name} is that of {other}")
        starts = np.cumsum((0, *PIECES[:-1]))
        pieces = [_filled(noise, x, stream, BLOCK + int(s), n) for s, n in zip(starts, PIECES, strict=True)]
        if not np.array_equal(np.concatenate(pieces), block):
            problems.append(f"noise of {name} depends on the batch")
    return problems


def _moments(noise: Noise, x: Tensor, streams: Sequence[Stream], level: float) -> tuple[int, list[str]]:
    """How many numbers were looked at, and which of the five are off."""
    known = law(noise, x)
    if known is None or not streams:
        return 0, []
    wanted, most = NUMBERS / (len(streams) * len(known.centre)), MEMORY // x.numel()
    draws = max(BLOCK, min(math.ceil(wanted), most))
    found = [_standard(known, _filled(noise, x, stream, 0, draws)) for stream in streams]
    values, fourth = np.stack([numbers for numbers, _ in found]), found[0][1]  # [streams, draws, moving]
    if values.size == 0:
        return 0, []
    between = values.shape[1] * values.shape[2]
    sums = {
        "mean": (values.sum(), values.size),
        "variance": ((values**2 - 1).sum(), values.shape[0] * values.shape[1] * (fourth - 1).sum()),
        "correlation of successive draws": _products(values[:, :-1], values[:, 1:]),
        "correlation of neighbouring coordinates": _products(values[:, :, :-1], values[:, :, 1:]),
        "correlation of two streams": _products(values[:-1], values[1:]),
    }
    problems = []
    for name, (total, variance) in sums.items():
        z = float(total) / math.sqrt(variance) if variance > 1e-9 * between else 0.0
        if math.erfc(abs(z) / math.sqrt(2)) <= level / len(sums):
            problems.append(f"{name} of the noise is {z:+.1f} standard deviations off")
    return values.size, problems


def _products(first: Numbers, second: Numbers) -> tuple[float, float]:
    return float((first * second).sum()), float(first.size)


def _standard(known: Law, filled: Any) -> tuple[Numbers, Numbers]:
    return known.standard(filled.reshape(len(filled), -1).astype(np.float64))


def _filled(noise: Noise, x: Tensor, stream: Stream, first: int, draws: int = BLOCK) -> Any:
    import torch

    out = torch.zeros(draws, *x.shape)
    noise.fill(out, x, stream, first)
    return out.numpy()
