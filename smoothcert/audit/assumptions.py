"""Does what was sampled hold to what the theorem assumes? The noise to its law, the scores to one input.

**Noise.** The streams that the run drew from are drawn again and looked at. Repeats: the random words behind every draw
must differ, over inputs, purposes and draws (256 bits each, so that chance repeats none), and so must whole blocks of
noisy copies, which must also be the same however they are batched. Moments: noisy copies, less what their law says is
their centre and divided by its spread, must have mean 0, variance 1, and no correlation from draw to draw, from
coordinate to coordinate, and from input to input. Each of the five is a sum of at least some 10⁴ independent numbers of
known variance, taken for normal, and tested on both sides.

**Batches.** A certificate speaks of a function of one input. The same noisy inputs are given in batches of several
sizes, in another order, and twice. Rounding may move the last bits, for kernels differ with the size; anything beyond
that is a violation.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from smoothcert.audit import chance
from smoothcert.audit.chance import Check
from smoothcert.contracts import EVERY, Classifier, Floats, Noise, Source, Stream
from smoothcert.runs.run import UNCOUNTED, Row
from smoothcert.streams import words

BLOCK = 64  # draws that are filled together
PIECES = (1, 7, 56)
MOST = 512  # draws of one stream whose words are compared
NUMBERS = 200_000  # that the moments are taken of, at least
MEMORY = 4_000_000  # values that are filled at a time, at most
INPUTS = 8  # whose noisy copies are looked at
ROWS, SIZES = 64, (1, 2, 7, 33)  # of batches
CLOSE = 5e-5  # by this share of the largest, scores may move when the order of the arithmetic changes


def check_noise(noise: Noise, x: Tensor, rows: Mapping[int, Row], seed: int, error: float) -> Check:
    """Look at the streams of these rows, each under its input's key, through noisy copies of one and the same x."""
    streams = {
        Stream(seed, key, answer.purpose): (row.index, answer.draws)
        for key, row in rows.items()
        for answer in row.answers
        if answer.purpose not in (*UNCOUNTED, EVERY) and answer.draws > 0
    }
    chosen = list(rows)[:INPUTS]
    few = sorted((stream for stream in streams if stream.input in chosen), key=lambda stream: stream.purpose)
    compared, problems = _repeats(streams)
    problems += _blocks(noise, x, {stream: streams[stream][0] for stream in few})
    numbers, wrong = _moments(noise, x, few, chance.share(error))
    tried = f"{compared} draws of {len(streams)} streams compared for repeats; moments of {numbers} numbers"
    return Check("noise", compared + numbers, tried, (*problems, *wrong))


def _repeats(streams: Mapping[Stream, tuple[int, int]]) -> tuple[int, list[str]]:
    """Random words that two draws share; of each stream, which input's it is and how many draws it had."""
    seen: dict[bytes, str] = {}
    problems = []
    for stream, (index, draws) in streams.items():
        first = max(0, draws - MOST)
        for number, row in enumerate(words(stream, first, min(draws, MOST), 8)):
            name = f"{stream.purpose} draw {first + number} of input {index}"
            if (other := seen.setdefault(row.tobytes(), name)) != name:
                problems.append(f"{name} has the random words of {other}")
    return len(seen) + len(problems), problems[:10]


def _blocks(noise: Noise, x: Tensor, streams: Mapping[Stream, int]) -> list[str]:
    """Blocks of noisy copies that repeat, or that depend on how they are batched."""
    problems, seen = [], dict[str, str]()
    for stream, index in streams.items():
        for first in (0, BLOCK):
            name, block = f"{stream.purpose} draws {first}… of input {index}", _filled(noise, x, stream, first)
            key = hashlib.sha256(block.numpy().tobytes()).hexdigest()
            if (other := seen.setdefault(key, name)) != name:
                problems.append(f"noise of {name} is that of {other}")
        starts = np.cumsum((0, *PIECES[:-1]))
        pieces = [_filled(noise, x, stream, BLOCK + int(s), n) for s, n in zip(starts, PIECES, strict=True)]
        if not torch.equal(torch.cat(pieces), block):
            problems.append(f"noise of {name} depends on the batch")
    return problems


def _moments(noise: Noise, x: Tensor, streams: Sequence[Stream], level: float) -> tuple[int, list[str]]:
    """How many numbers were looked at, and which of the five are off."""
    known = noise.moments(x)
    if known is None or not streams or not (moves := known.spread > 0).any():
        return 0, []
    wanted, most = NUMBERS / (len(streams) * len(known.centre)), MEMORY // x.numel()
    draws = max(BLOCK, min(math.ceil(wanted), most))
    filled = torch.stack([_filled(noise, x, stream, 0, draws).flatten(1) for stream in streams]).numpy()
    values = filled.astype(np.float64)
    values = values.mean(axis=2, keepdims=True) if known.single else values
    values = (values[:, :, moves] - known.centre[moves]) / known.spread[moves]  # [streams, draws, moving]
    sums = {
        "mean": (values.sum(), values.size),
        "variance": ((values**2 - 1).sum(), values.shape[0] * values.shape[1] * (known.fourth[moves] - 1).sum()),
        "correlation of successive draws": _products(values[:, :-1], values[:, 1:]),
        "correlation of neighbouring coordinates": _products(values[:, :, :-1], values[:, :, 1:]),
        "correlation of two streams": _products(values[:-1], values[1:]),
    }
    problems = []
    for name, (total, variance) in sums.items():
        z = float(total) / math.sqrt(variance) if variance > 1e-9 * values[0].size else 0.0
        if math.erfc(abs(z) / math.sqrt(2)) <= level / len(sums):
            problems.append(f"{name} of the noise is {z:+.1f} standard deviations off")
    return values.size, problems


def _products(first: Floats, second: Floats) -> tuple[float, float]:
    return float((first * second).sum()), float(first.size)


def _filled(noise: Noise, x: Tensor, stream: Stream, first: int, draws: int = BLOCK) -> Tensor:
    out = torch.zeros(draws, *x.shape)
    noise.fill(out, x, stream, first)
    return out


def check_batches(source: Source, inputs: Sequence[tuple[int, Tensor]], seed: int) -> Check:
    """Ask about noisy copies of some inputs, mixed, in every way that a batch can be made."""
    classifier = source.classifier
    rows: int | None = getattr(classifier, "rows", None)
    draws = rows or ROWS
    copies = [_filled(source.noise, x, Stream(seed, index, "audit batch"), 0, draws) for index, x in inputs]
    generator = torch.Generator().manual_seed(0)
    first, other = (torch.randperm(len(copies) * draws, generator=generator) for _ in range(2))
    probe = torch.cat(copies)[first]
    with torch.inference_mode():
        whole = _in_pieces(classifier, probe, draws)
        found = {
            "when the same batch is given twice": _in_pieces(classifier, probe, draws),
            "with the other inputs in the batch": _in_pieces(classifier, probe[other], draws)[other.argsort()],
        }
        for size in SIZES if rows is None else ():
            found[f"in batches of {size}"] = _in_pieces(classifier, probe[: len(probe) // size * size], size)
    problems, exact = [], True
    for how, scores in found.items():
        expected = whole[: len(scores)]
        exact = exact and bool(torch.equal(scores, expected))
        moved = (scores - expected).abs().amax(dim=1) > 2 * CLOSE * expected.abs().amax(dim=1)
        if bool(moved.any()):
            worst = float((scores - expected).abs().max())
            problems.append(f"scores of {int(moved.sum())} of {len(scores)} inputs change {how}, by up to {worst:.3g}")
    trials = sum(len(scores) for scores in found.values())
    bits = "equal to the last bit" if exact else "equal up to rounding" if not problems else "not equal"
    return Check("batches", trials, f"{trials} scores in {len(found)} other batches: {bits}", tuple(problems))


def _in_pieces(classifier: Classifier, probe: Tensor, size: int) -> Tensor:
    return torch.cat([classifier(part) for part in torch.split(probe, size)])
