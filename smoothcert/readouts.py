"""What ACES counts besides classes: how sure a network is of a noisy copy, in bins that serve every threshold at once.

A copy is *selected* at threshold θ when its uncertainty is at most θ. That is the entropy of the softmax scores, to the
base of the number of classes, so that it is in [0,1] (Horváth et al. 2022); of a selection network, the probability of
its class 0, "leave it to the core". Bin i holds uncertainties in (i/100, (i+1)/100], the first one 0 as well, so the
copies selected at θ = k/100 are those of the first k bins, and at θ = 0 none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from smoothcert.contracts import TopClass
from smoothcert.decisions import BINS
from smoothcert.errors import ModelError


@dataclass(frozen=True)
class ClassAndEntropy:
    """Two columns from the same scores: the class with the highest one, and the bin of their entropy."""

    def outcomes(self, classes: int) -> int:
        return max(classes, BINS)

    def __call__(self, scores: Tensor) -> Tensor:
        return torch.cat([TopClass()(scores), _bin(_entropy(scores))], dim=1)

    def close(self, scores: Tensor, error: float) -> Tensor:
        moved = _entropy_slope(scores) * error
        return torch.cat([TopClass().close(scores, error), _near(_entropy(scores), moved)], dim=1)


@dataclass(frozen=True)
class SelectorUncertainty:
    """One column, of a selection network: the bin of its probability of class 0."""

    def outcomes(self, classes: int) -> int:
        return BINS

    def __call__(self, scores: Tensor) -> Tensor:
        return _bin(_unselected(scores))

    def close(self, scores: Tensor, error: float) -> Tensor:
        value = _unselected(scores)
        return _near(value, 2 * value * (1 - value) * error)


def _entropy(scores: Tensor) -> Tensor:
    """Entropy [batch] of the softmax of scores, to the base of the number of classes; 1 may be rounded up."""
    terms: Tensor = torch.special.entr(torch.softmax(scores.double(), dim=1))  # −p·log p, and 0 at p = 0
    return terms.sum(dim=1) / math.log(max(2, scores.shape[1]))


def _entropy_slope(scores: Tensor) -> Tensor:
    """The most that the entropy [batch] can change when every score changes by one, to first order."""
    shares = torch.softmax(scores.double(), dim=1)
    terms: Tensor = torch.special.entr(shares)
    slopes = terms - shares * terms.sum(dim=1, keepdim=True)
    return slopes.abs().sum(dim=1) / math.log(max(2, scores.shape[1]))


def _unselected(scores: Tensor) -> Tensor:
    if scores.shape[1] != 2:
        raise ModelError(f"a selection network must have 2 classes, core and certified; got {scores.shape[1]}")
    return torch.softmax(scores.double(), dim=1)[:, 0].contiguous()


def _bin(value: Tensor) -> Tensor:
    """The bin [batch, 1] of each uncertainty [batch]; compared with k/100 itself, so that no product is rounded."""
    return torch.bucketize(value, _edges(value.device)).unsqueeze(1)


def _near(value: Tensor, error: Tensor) -> Tensor:
    """Whether an edge between bins [batch, 1] is within the error of each uncertainty [batch]."""
    edges = _edges(value.device)
    return ((value[:, None] - edges).abs() <= error[:, None]).any(dim=1, keepdim=True)


def _edges(device: torch.device) -> Tensor:
    return torch.arange(1, BINS, dtype=torch.float64, device=device) / BINS
