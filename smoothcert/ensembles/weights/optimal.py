"""Weights that minimise the variance of the vote's margins (ESB; METHODS section 4, E1 and E2).

On softmax scores the margins of member l are z_i = p_y − p_i. Chebyshev's inequality bounds the probability of a wrong
answer by Σ_i Var(Σ_l w_l z_i^l)/(smallest mean margin)², so wᵀQw is minimised, with Q the mean over hold-out inputs of
Σ_i a_i Cov(z_i), a_i = 1/min_l E[z_i^l]². Covariances are taken within an input, over noisy copies (the same ones for
all members) and over copies of the members with some parameters moved, a cheap stand-in for training them again. That
is convex for any number of members.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
import torch

from smoothcert.bounds import check_draws
from smoothcert.classifiers.module import Module
from smoothcert.contracts import Classifier, Stream
from smoothcert.ensembles import Cascade, Vote
from smoothcert.ensembles.holdout import HoldoutInputs, generator
from smoothcert.ensembles.weights import PROBABILITIES, Fitted, Floats, gap, quadratic
from smoothcert.errors import DataError, OptionError

# A mean margin below this is an undecided input: left as it is, its 1/margin² would outweigh all the others.
FLOOR = 0.05


@dataclass(frozen=True)
class Optimal:
    """Least variance of the margins, each weighed by how small it is."""

    votes: ClassVar[tuple[str, ...]] = PROBABILITIES

    perturbations: int = 10  # copies of each member
    draws: int = 10  # noisy copies of each input
    share: float = 0.3  # of the parameters that move
    size: float = 0.01  # standard deviation of their moves

    def __post_init__(self) -> None:
        check_draws(self.perturbations, "perturbations", "optimal")
        check_draws(self.draws, "draws", "optimal")
        if self.draws * self.perturbations < 2:
            raise OptionError("draws of optimal must be at least 2 where perturbations is 1; got 1")
        if not (isinstance(self.share, int | float) and 0.0 <= self.share <= 1.0):
            raise OptionError(f"share of optimal must be from 0 to 1; got {self.share}")
        if not (isinstance(self.size, int | float) and 0.0 <= self.size < float("inf")):
            raise OptionError(f"size of optimal must be a number of at least 0; got {self.size}")

    def work(self, members: int, inputs: int) -> int:
        """Member evaluations that a fit takes."""
        return members * inputs * self.draws * self.perturbations

    def fit(self, members: Sequence[Classifier], holdout: HoldoutInputs) -> Fitted:
        """Weights for these hold-out inputs under their noise.

        Only torch networks can be perturbed, so members must come as such where they are; `members_perturbed` of the
        report counts them. The covariances of the others are over noise alone.
        """
        holdout.check(members, 1, "optimal weights")
        found = moments(self._copies(members, holdout.seed), holdout, self.draws)
        form, pairs = objective(found)
        if pairs == 0:
            raise DataError("hold-out inputs of optimal must include one that all members favour; got none")
        weights = quadratic(2 * form)
        report = {
            "variance_bound": float(weights @ form @ weights),
            "variance_bound_uniform": float(form.mean()),
            "gap": gap(2 * form @ weights, weights),
            "pairs": float(pairs),
            "pairs_dropped": float(found.mean[..., 0].size - pairs),
            "members_perturbed": float(sum(has_parameters(member) for member in members)),
            **_matrix(found.covariance.mean(axis=(0, 1))),
        }
        return Fitted(tuple(float(weight) for weight in weights), report)

    def _copies(self, members: Sequence[Classifier], seed: int) -> Iterator[list[Classifier]]:
        """The members with other parameters moved each time."""
        for number in range(self.perturbations):
            yield [
                perturbed(member, self.share, self.size, Stream(seed, place, "weights parameters"), number)
                for place, member in enumerate(members)
            ]


class MarginMoments(NamedTuple):
    """Means [inputs, rivals, members] and covariances [inputs, rivals, members, members] of the margins."""

    mean: Floats
    covariance: Floats


def moments(copies: Iterator[Sequence[Classifier]], holdout: HoldoutInputs, draws: int) -> MarginMoments:
    """Over all copies of the members and noisy copies of an input; every copy of the members sees the same noise."""
    total, squares, n = np.zeros(1), np.zeros(1), 0
    for members in copies:
        n += draws
        for owner, scores in holdout.scores(members, draws, "weights"):
            z = _margins(scores.softmax(dim=2).numpy(), holdout.inputs.labels[owner])
            if total.ndim == 1:
                total = np.zeros((len(holdout.inputs), *z.shape[1:]))
                squares = np.zeros((*total.shape, len(members)))
            np.add.at(total, owner, z)
            np.add.at(squares, owner, z[..., :, None] * z[..., None, :])
    mean = total / n
    return MarginMoments(mean, squares / n - mean[..., :, None] * mean[..., None, :])


def objective(found: MarginMoments) -> tuple[Floats, int]:
    """Q [members, members], and how many (input, rival) pairs are in it: those that every member wins on average."""
    least = found.mean.min(axis=2)
    weight = np.where(least > 0.0, 1 / np.maximum(least, FLOOR) ** 2, 0.0)
    form: Floats = np.einsum("xi,xilm->lm", weight, found.covariance) / len(weight)
    return form, int((least > 0.0).sum())


class MarginRelation(NamedTuple):
    """How margins of members move together, on average over pairs."""

    covariance: float
    correlation: float


def by_kind(report: Mapping[str, float], kinds: Sequence[str]) -> dict[str, MarginRelation]:
    """Of a member with itself, with another of its kind, and with one of another kind; what has no pair is left out.

    The argument for mixed ensembles is that the last is the smallest. A network that is less sure of everything has
    smaller covariances with everybody; correlations do not see that.
    """
    found: dict[str, list[MarginRelation]] = {"itself": [], "another of its kind": [], "one of another kind": []}
    for i, mine in enumerate(kinds):
        for j, theirs in enumerate(kinds[: i + 1]):
            relation = "itself" if i == j else "another of its kind" if mine == theirs else "one of another kind"
            scale = (report[f"covariance_{i}_{i}"] * report[f"covariance_{j}_{j}"]) ** 0.5
            covariance = report[f"covariance_{j}_{i}"]
            found[relation].append(MarginRelation(covariance, covariance / scale if scale > 0.0 else 0.0))
    return {
        relation: MarginRelation(*(sum(column) / len(pairs) for column in zip(*pairs, strict=True)))
        for relation, pairs in found.items()
        if pairs
    }


def _matrix(covariance: Floats) -> dict[str, float]:
    """The averaged matrix, entry by entry, members counted from 0."""
    k = len(covariance)
    return {f"covariance_{i}_{j}": float(covariance[i, j]) for i in range(k) for j in range(i, k)}


def _margins(shares: Floats, labels: Floats) -> Floats:
    """Probabilities [members, rows, classes] → margins of the label over every other class [rows, rivals, members]."""
    rows, classes = shares.shape[1:]
    rivals = np.arange(classes - 1)[None, :] + (np.arange(classes - 1)[None, :] >= labels[:, None])
    each = np.arange(rows)[:, None]
    return np.moveaxis(shares[:, each, labels[:, None]] - shares[:, each, rivals], 0, 2)


def has_parameters(member: Classifier) -> bool:
    """Whether a member is a torch network, or a vote with one among its members; others have nothing to move."""
    inner = member.members if isinstance(member, Vote | Cascade) else ()
    return isinstance(member, Module) or any(map(has_parameters, inner))


def perturbed(member: Classifier, share: float, size: float, stream: Stream, number: int) -> Classifier:
    """Copy `number` of a member: each parameter is moved with probability `share`, by N(0, size²).

    The member itself is left as it is; one without parameters is returned.
    """
    if isinstance(member, Module):
        return Module(_moved(member.network, share, size, stream, number), member.device)
    if isinstance(member, Vote):
        inner = [stream._replace(purpose=f"{stream.purpose} {place}") for place in range(len(member.members))]
        parts = zip(member.members, inner, strict=True)
        return replace(member, members=tuple(perturbed(part, share, size, own, number) for part, own in parts))
    if isinstance(member, Cascade):
        vote = perturbed(member.vote, share, size, stream, number)
        return replace(member, vote=vote)
    return member


def _moved(network: torch.nn.Module, share: float, size: float, stream: Stream, number: int) -> torch.nn.Module:
    rng, moved = generator(stream.seed, stream.input, stream.purpose, number), copy.deepcopy(network)
    with torch.no_grad():
        for parameter in moved.parameters():
            chosen = rng.random(tuple(parameter.shape)) < share
            steps = np.where(chosen, size * rng.standard_normal(tuple(parameter.shape)), 0.0)
            parameter.add_(torch.from_numpy(steps).to(parameter))
    return moved
