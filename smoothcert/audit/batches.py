"""Do scores depend on the batch? A certificate speaks of a function of one input.

The same noisy inputs are given in batches of several sizes, in another order, and twice. Rounding may move the last
bits, for kernels differ with the size; anything beyond that is a violation.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from smoothcert.audit._check import Check
from smoothcert.audit._draws import noisy
from smoothcert.contracts import Classifier, Source, Stream
from smoothcert.runs.verify import CLOSE

ROWS, SIZES = 64, (1, 2, 7, 33)
INPUTS = 4


def batches(source: Source, inputs: Sequence[tuple[int, Tensor]], seed: int) -> Check:
    """Ask about noisy copies of some inputs, mixed, in every way that a batch can be made."""
    classifier = source.classifier
    rows = getattr(classifier, "rows", None)
    draws = rows or ROWS
    copies = [
        next(noisy(source, x, Stream(seed, index, "audit batch"), draws))[0][:draws] for index, x in inputs[:INPUTS]
    ]
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
