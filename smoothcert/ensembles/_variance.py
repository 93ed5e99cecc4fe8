"""The variance model of ensembles (ENS section 5): margins = clean part + noise part.

Over members, the clean part has mean c and covariance Σ_c, ζ_cΣ_c between two of them; over noise, the noise part has
mean 0 and covariance Σ_p, ζ_pΣ_p between two members under the same noise. The mean of k members then has (1+ζ(k−1))/k
of each covariance. All of it is meant for one input; ζ_p is pooled over inputs.

ζ_c cannot be seen: whatever the members at an input share is part of their mean there, and their differences, which are
all that is left, have covariance (1−ζ_c)Σ_c. Nor is it needed: members to come share it too. So c stands for the mean
with what is shared, Σ_c for what differs, and ζ_c is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothcert.ensembles._sample import Floats, Sample

ZETA_C = 0.0


@dataclass(frozen=True, eq=False)
class Parts:
    """The model's parameters, as the members at hand show them."""

    centre: Floats  # [inputs, rivals], c
    apart: Floats  # [inputs, members, rivals], what each member's clean part adds to c
    noise: Floats  # [inputs, rivals, rivals], Σ_p
    shared: Floats  # [inputs, rivals, rivals], covariance of the noise parts of two members: ζ_pΣ_p, if the model holds
    zeta_p: float

    @property
    def clean(self) -> Floats:
        """Σ_c [inputs, rivals, rivals]."""
        spread: Floats = np.einsum("nka,nkb->nab", self.apart, self.apart) / (self.apart.shape[1] - 1)
        return spread


def ratio(zeta: float, size: int) -> float:
    """The share of a member's variance that the mean of so many members has."""
    return (1 + zeta * (size - 1)) / size


def estimate(sample: Sample, clean: str = "mean") -> Parts:
    """Parameters from a sample; the clean part of a member is its mean under noise, or what it says without noise."""
    k, draws = sample.members, sample.draws
    means = sample.noisy.mean(axis=2)
    parts = means if clean == "mean" else sample.clean
    moves = sample.noisy - means[:, :, None]
    within: Floats = np.einsum("nksa,nksb->nab", moves, moves, optimize=True) / (k * (draws - 1))
    vote = moves.mean(axis=1)
    of_mean: Floats = np.einsum("nsa,nsb->nab", vote, vote, optimize=True) / (draws - 1)
    between = (k * of_mean - within) / (k - 1)  # Cov(mean) = (within + (k−1)·between)/k
    centre = parts.mean(axis=1)
    return Parts(centre, parts - centre[:, None], within, between, _zeta(within, between))


def least_p(parts: Parts, size: int) -> Floats:
    """ENS Eq. 5: the least that the label's probability [inputs] can be, whatever the distributions; never below 0.

    Chebyshev's inequality for each rival and the union bound; it needs the label to win on average.
    """
    variance = ratio(ZETA_C, size) * _diagonal(parts.clean) + ratio(parts.zeta_p, size) * _diagonal(parts.noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        missed = np.where(parts.centre > 0.0, variance / parts.centre**2, np.inf).sum(axis=1)
    least: Floats = np.maximum(0.0, 1.0 - missed)
    return least


def zeta_by_input(parts: Parts) -> Floats:
    """ζ_p of every input on its own [inputs]; the model has one for all."""
    found: Floats = _diagonal(parts.shared).sum(axis=1) / np.maximum(_diagonal(parts.noise).sum(axis=1), 1e-300)
    return found


def _zeta(within: Floats, between: Floats) -> float:
    """Covariance between members ÷ variance of a member, over all inputs and rivals; 1 where noise moves nothing."""
    total = float(_diagonal(within).sum())
    return float(np.clip(_diagonal(between).sum() / total, 0.0, 1.0)) if total > 0.0 else 1.0


def _diagonal(matrices: Floats) -> Floats:
    diagonal: Floats = np.diagonal(matrices, axis1=1, axis2=2)
    return diagonal
