"""Is this classifier a function of one input?

A certificate speaks of a fixed function, so the same noisy input must get the same scores whatever shares its batch.
Before the first draw the engine calls the classifier on real noisy inputs: twice, in other batch sizes, in another
order. Scores that move for no reason are refused. Where only the last bits move with the batch size (convolutions and
matrix products choose other kernels for other shapes), every call is made with one fixed number of rows, so that the
size cannot matter, and the record says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from smoothcert.contracts import Classifier, Tensor, batch_rows
from smoothcert.errors import ModelError

ROUNDING = 1e-3  # relative to the largest score: above rounding in float32, far below a dependence on batch mates


@dataclass(frozen=True, eq=False)
class FixedShape:
    """A classifier that is only ever called with the same number of rows."""

    classifier: Classifier
    rows: int

    def __call__(self, x: Tensor) -> Tensor:
        scores = []
        for part in torch.split(x, self.rows):
            if len(part) < self.rows:
                part = torch.cat([part, part[-1:].expand(self.rows - len(part), *part.shape[1:])])
            scores.append(self.classifier(part))
        return torch.cat(scores)[: len(x)]


@dataclass(frozen=True, eq=False)
class BatchChecked:
    """A classifier as the engine will call it, and what had to be done for it."""

    call: Classifier
    classes: int
    note: str = ""


def check_batches(classifier: Any, probe: Tensor, batch: int, fixed: int | None = None) -> BatchChecked:
    """Check the classifier on noisy inputs probe [≥ batch_rows, ...] and choose how to call it.

    `fixed`: the one number of rows where their number matters; by default the one for inputs of this size.
    """
    plain = batch_rows(probe.shape[1:])
    rows = getattr(classifier, "rows", None)  # a network exported with a frozen batch size
    call = classifier if rows is None else FixedShape(classifier, rows)
    whole, error = check_scores(call(probe), len(probe)), rounding(classifier)
    again = check_scores(call(probe), len(probe))
    _refuse_unless_close(whole, again, "when the same batch is given twice", error)
    _refuse_unless_close(whole.flip(0), call(probe.flip(0)), "with the other inputs in the batch", error)
    if rows is not None:
        return BatchChecked(call, whole.shape[1], f"the network takes exactly {rows} rows at a time")
    if all(_in_pieces(classifier, probe, whole, size) for size in sorted({1, 7, plain, min(batch, len(probe))})):
        return BatchChecked(classifier, whole.shape[1])
    one = fixed or plain
    note = f"scores differ in their last bits with the batch size, so every batch has {one} rows"
    return BatchChecked(FixedShape(classifier, one), whole.shape[1], note)


def rounding(classifier: Any) -> float:
    """How far scores may move by rounding alone, relative to the largest; networks in half precision say it."""
    own: float = getattr(classifier, "rounding", ROUNDING)
    return max([own, *(rounding(member) for member in getattr(classifier, "members", ()))])


def classes(classifier: Any, x: Tensor) -> int:
    """How many classes a classifier has, asked about one input without noise."""
    rows = getattr(classifier, "rows", None) or 1
    return check_scores(classifier(x.expand(rows, *x.shape).contiguous()), rows).shape[1]


def check_scores(scores: Any, rows: int) -> Tensor:
    """Scores must be a tensor [rows, classes] without NaN. Whether there is one, a device has to be waited for."""
    checked = check_shape(scores, rows)
    # A sum that is finite has no NaN in it, and is had sooner than a look at each.
    if not math.isfinite(float(checked.sum())) and bool(torch.isnan(checked).any()):
        raise not_numbers()
    return checked


def not_numbers() -> ModelError:
    """What is said of scores with NaN among them."""
    return ModelError("the classifier must return numbers; got NaN")


def check_shape(scores: Any, rows: int) -> Tensor:
    """Scores must be a tensor [rows, classes]; their values are not looked at."""
    if not isinstance(scores, torch.Tensor):
        raise ModelError(f"the classifier must return a tensor of scores [batch, classes]; got {type(scores).__name__}")
    if scores.ndim != 2 or scores.shape[0] != rows or scores.shape[1] < 1:
        raise ModelError(
            f"the classifier must return scores [batch, classes], here [{rows}, classes]; got {list(scores.shape)}"
        )
    if scores.shape[1] == 1:
        raise ModelError(
            "the classifier must return scores for at least 2 classes; got one column, with which one class would "
            "always win (make two of it: torch.cat([-s, s], dim=1) of a logit s, torch.cat([1 - p, p], dim=1) of a "
            "probability p)"
        )
    return scores


def _in_pieces(classifier: Classifier, probe: Tensor, whole: Tensor, size: int) -> bool:
    """Whether scores are the same, bit for bit, when the probe is given in pieces of this size."""
    few = probe[: max(size, 8) // size * size]  # at size 1, eight rows show it as well as all
    pieces: Sequence[Tensor] = [check_scores(classifier(part), len(part)) for part in torch.split(few, size)]
    scores = torch.cat(list(pieces))
    _refuse_unless_close(whole[: len(few)], scores, "with the batch size", rounding(classifier))
    return bool(torch.equal(scores, whole[: len(few)]))


def _refuse_unless_close(expected: Tensor, scores: Tensor, how: str, error: float) -> None:
    if scores.shape != expected.shape:
        raise ModelError(f"the number of classes must not change {how}; got {expected.shape[1]} and {scores.shape[1]}")
    same = expected == scores  # equal infinities included
    difference = float((expected - scores).abs()[~same].max()) if not bool(same.all()) else 0.0
    size = float(expected[expected.isfinite()].abs().max()) if bool(expected.isfinite().any()) else 1.0
    if not difference <= error * max(size, 1e-30):
        raise ModelError(
            f"the classifier must give the same scores for the same input; they change {how} by up to {difference:.3g} "
            "(dropout, batch statistics, or another random or batch-wide operation?)"
        )
