"""The variance model of ensembles (ENS section 5): margins = clean part + noise part; its sample, parameters and fit.

Only differences between scores decide a class, so a sample keeps margins: the label's score minus that of each other
class, nearest rival first, all members on the same noisy copies.

Over members, the clean part has mean c and covariance Σ_c, ζ_cΣ_c between two of them; over noise, the noise part has
mean 0 and covariance Σ_p, ζ_pΣ_p between two members under the same noise. The mean of k members then has (1+ζ(k−1))/k
of each covariance. All of it is meant for one input; ζ_p is pooled over inputs.

ζ_c cannot be seen: whatever the members at an input share is part of their mean there, and their differences, which are
all that is left, have covariance (1−ζ_c)Σ_c. Nor is it needed: members to come share it too. So c stands for the mean
with what is shared, Σ_c for what differs, and ζ_c is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from scipy.special import ndtr, ndtri

from smoothcert.classifiers import ready
from smoothcert.classifiers.onnx import Onnx
from smoothcert.contracts import Classifier, batch_rows
from smoothcert.data import Inputs
from smoothcert.ensembles.holdout import HoldoutInputs, load_unused, member_scores
from smoothcert.errors import OptionError, require_count, require_room

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

RIVALS = 15  # the other classes that come nearest on average; the rest almost never win, and would cost memory
ZETA_C = 0.0
FAR = 3.0  # deviations: a normal variable is below them in 0.13 % of cases


@dataclass(frozen=True, eq=False)
class MarginSample:
    """Margins of the label over its rivals, by input and member."""

    clean: Floats  # [inputs, members, rivals], at the input itself
    noisy: Floats  # [inputs, members, draws, rivals], at its noisy copies
    left_out: int = 0  # classes that are not among the rivals
    dim: int = 1  # coordinates of an input, which some noises ask for

    @property
    def members(self) -> int:
        return int(self.noisy.shape[1])

    @property
    def draws(self) -> int:
        return int(self.noisy.shape[2])

    def of(self, members: Sequence[int]) -> MarginSample:
        """The same for some of the members."""
        chosen = list(members)
        return MarginSample(self.clean[:, chosen], self.noisy[:, chosen], self.left_out, self.dim)


def member_alone(spec: str, inputs: Inputs, engine: str, threads: int | None, say: Callable[[str], None]) -> Classifier:
    """A member made ready; where several workers were found best, its one call at a time gets all their threads."""
    prepared = ready(load_unused(spec, inputs), inputs.tensor(0), engine, threads)
    say(prepared.note)
    if isinstance(prepared.classifier, Onnx) and prepared.workers > 1:
        return prepared.classifier.with_threads(prepared.workers * (prepared.classifier.threads or 1))
    return prepared.classifier


def work(members: int, inputs: int, draws: int) -> int:
    """Member evaluations that a sample takes."""
    return members * inputs * (draws + 1)


def sample(members: Sequence[Classifier], holdout: HoldoutInputs, draws: int) -> MarginSample:
    """Ask every member about every input: once as it is, and `draws` times under noise."""
    if draws < 2:
        raise OptionError(f"draws of forecast must be at least 2; got {draws}")
    require_count("forecast", draws=draws)
    require_room("forecast", 2 * RIVALS * work(len(members), len(holdout.inputs), draws), draws=draws)
    classes, clean = holdout.check(members, 2, "forecast"), _clean(members, holdout)
    near, under_noise = [], []
    for position, scores in enumerate(_by_input(members, holdout, draws)):
        label = int(holdout.inputs.labels[position])
        order = np.argsort(-scores.mean(axis=(0, 1)), kind="stable")
        rivals = order[order != label][:RIVALS]
        near.append(clean[:, position, label, None] - clean[:, position, rivals])
        under_noise.append(scores[:, :, label, None] - scores[:, :, rivals])
    return MarginSample(
        np.stack(near), np.stack(under_noise), max(0, classes - 1 - RIVALS), holdout.inputs.tensor(0).numel()
    )


def _clean(members: Sequence[Classifier], holdout: HoldoutInputs) -> Floats:
    """Scores at the inputs themselves: [members, inputs, classes]."""
    parts, inputs = [], holdout.inputs
    for chunk in torch.split(torch.arange(len(inputs)), batch_rows(inputs.shape)):
        parts.append(member_scores(members, inputs.tensors(chunk.numpy())).numpy())
        holdout.advance(len(members) * len(chunk))
    return np.concatenate(parts, axis=1)


def _by_input(members: Sequence[Classifier], holdout: HoldoutInputs, draws: int) -> Iterator[Floats]:
    """Scores [members, draws, classes] of one input after the other, from batches that take no notice of inputs."""
    pending: list[Floats] = []
    for _, scores in holdout.scores(members, draws, "forecast"):
        pending.append(scores.numpy())
        while sum(part.shape[1] for part in pending) >= draws:
            joined = np.concatenate(pending, axis=1)
            pending = [joined[:, draws:]]
            yield joined[:, :draws]


@dataclass(frozen=True, eq=False)
class VarianceModel:
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


def estimate(sample: MarginSample, clean: str = "mean") -> VarianceModel:
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
    return VarianceModel(centre, parts - centre[:, None], within, between, _zeta(within, between))


def least_p(parts: VarianceModel, size: int) -> Floats:
    """ENS Eq. 5: the least that the label's probability [inputs] can be, whatever the distributions; never below 0.

    Chebyshev's inequality for each rival and the union bound; it needs the label to win on average.
    """
    variance = ratio(ZETA_C, size) * _diagonal(parts.clean) + ratio(parts.zeta_p, size) * _diagonal(parts.noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        missed = np.where(parts.centre > 0.0, variance / parts.centre**2, np.inf).sum(axis=1)
    least: Floats = np.maximum(0.0, 1.0 - missed)
    return least


def zeta_by_input(parts: VarianceModel) -> Floats:
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


class Fit(NamedTuple):
    """Observed values, each in the unit that makes the model's curve the same for all."""

    noise: Floats  # noise part of the margin over the nearest rival, in standard deviations of its input and member
    clean: Floats  # clean part of the same margin, in standard deviations over the members of its input
    members: int  # behind each of these standard deviations
    modelled: Floats  # [inputs], ζ_p·Σ_p, the mean over rivals
    observed: Floats  # [inputs], covariance between two members under the same noise, the mean over rivals
    zeta_quartiles: tuple[float, float, float]  # of ζ_p input by input
    tail: float  # share of `noise` below −FAR, where large radii are decided


def fit(sample: MarginSample, parts: VarianceModel, clean: str) -> Fit:
    """Hold the parts against the sample they come from."""
    noise = standardised_noise(sample, clean)
    apart = parts.apart[:, :, 0]
    spread = apart.std(axis=1, ddof=1, keepdims=True)
    kept = spread[:, 0] > 0.0
    diagonal = np.diagonal(parts.noise, axis1=1, axis2=2).mean(axis=1)
    low, middle, high = (float(value) for value in np.quantile(zeta_by_input(parts), (0.25, 0.5, 0.75)))
    return Fit(
        noise,
        (apart[kept] / spread[kept]).ravel(),
        apart.shape[1],
        parts.zeta_p * diagonal,
        np.diagonal(parts.shared, axis1=1, axis2=2).mean(axis=1),
        (low, middle, high),
        float((noise < -FAR).mean()) if len(noise) else 0.0,
    )


def standardised_noise(sample: MarginSample, clean: str) -> Floats:
    """What noise adds to the clean part of the margin over the nearest rival, where it adds anything."""
    margins = sample.noisy[..., 0]
    around = margins.mean(axis=2) if clean == "mean" else sample.clean[..., 0]
    spread = margins.std(axis=2, ddof=1)
    kept = spread > 0.0
    scaled: Floats = (margins - around[..., None])[kept] / spread[kept][:, None]
    return scaled.ravel()


def distance(values: Floats) -> float:
    """The largest difference between the values' distribution function and the normal one (Kolmogorov's)."""
    if not len(values):
        return 0.0
    model, steps = ndtr(np.sort(values)), np.arange(len(values) + 1) / len(values)
    return float(max((steps[1:] - model).max(), (model - steps[:-1]).max()))


def missed(means: Floats, root: Floats, uniforms: Floats) -> Floats:
    """1 − P(z > 0) for z ~ N(mean, root·rootᵀ), root lower triangular [d, d]: means [..., d] → [...].

    `uniforms` [..., samples, d−1] in (0,1) are the random numbers to use.
    """
    d = means.shape[-1]
    log_hit = np.zeros(uniforms.shape[:-1])
    steps = np.empty((d - 1, *uniforms.shape[:-1]))  # of the standard normals behind z, given that all so far are > 0
    for i in range(d):
        above = means[..., i, None] + np.tensordot(root[i, :i], steps[:i], axes=1)
        miss = np.minimum(ndtr(-above / root[i, i]), 1 - 1e-15)
        log_hit += np.log1p(-miss)
        if i < d - 1:
            steps[i] = -ndtri(np.maximum(uniforms[..., i] * (1 - miss), 1e-300))
    outside: Floats = -np.expm1(log_hit).mean(axis=-1)
    return outside


def root_of(covariance: Floats) -> Floats:
    """A lower triangular root; a covariance without full rank gets the little on its diagonal that gives it one."""
    d = len(covariance)
    size = max(float(np.trace(covariance)) / d, 1e-300)
    lift = 1e-12
    while True:
        try:
            return np.linalg.cholesky(covariance + lift * size * np.eye(d)).astype(np.float64)
        except np.linalg.LinAlgError:
            lift *= 10
