"""What compositions share: a smoothed selector, and what it selects.

If the selector is constant in one ball and the selected branch in another, the composition is constant in the smaller
of them: inside it the same branch is asked everywhere. Both are tested at α/2, so that both hold with probability
1 − α; the branch was chosen by draws that neither test reuses, so it does not matter how many branches there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from smoothcert.bounds import check_alpha, check_draws, fewest_draws, lower_bound, tie_p_value
from smoothcert.contracts import ABSTAIN, Certificate, Counts, Draw, Evidence, Noise, Source, Steps
from smoothcert.decisions import VoteCounts, winners
from smoothcert.errors import ModelError, OptionError
from smoothcert.noise import NoNoise


def sources(source: Source) -> Mapping[str, Source]:
    """The networks of a composition by their roles, each under its own noise; a core has none."""
    networks = source.classifier
    roles, members, noises = (getattr(networks, name, None) for name in ("roles", "members", "noises"))
    if roles is None or members is None or noises is None:
        raise ModelError("the model must be a composition of several networks; got one network")
    under = [noise for noise in (source.noise, *noises) if noise is not None]
    norms, patches = {noise.norm for noise in under}, {noise.patch for noise in under}
    if len(norms) > 1:
        raise ModelError(f"the noises of a composition must be of one norm; got {' and '.join(sorted(norms))}")
    if len(patches) > 1:
        raise ModelError("the noises of a composition must be against patches of one size; got several")
    none = NoNoise(source.noise)
    return {role: Source(member, noise or none) for role, member, noise in zip(roles, members, noises, strict=True)}


def sampled(source: Source, n0: int, n: int, n_predict: int, prefix: str = "") -> Steps[VoteCounts]:
    """Draws that choose, then fresh ones that test, the first of which are enough for a prediction: by column."""
    guess = yield Draw(source, n0, purpose=f"{prefix}guess")
    first = yield Draw(source, min(n_predict, n), purpose=f"{prefix}test")
    if n <= n_predict:
        return VoteCounts(guess, first, first)
    rest = yield Draw(source, n - n_predict, purpose=f"{prefix}test")
    return VoteCounts(guess, first, first + rest)


def tested(label: int, counts: Counts, alpha: float, noise: Noise, dim: int) -> Certificate:
    """A class that other draws chose, tested by these votes [outcomes]."""
    votes = as_votes(counts)
    draws = sum(votes)
    low = lower_bound(votes[label], draws, alpha)
    return Evidence(label, (votes,), draws, low, 1 - low, alpha).certificate(noise, dim)


def predicted(counts: Counts, alpha: float, noise: Noise) -> Certificate:
    """The winner of votes [outcomes], without a radius, where it is one at alpha."""
    label, votes = int(winners(np.asarray(counts), alpha)), as_votes(counts)
    evidence = Evidence(label, (votes,), sum(votes), 0.0, 1.0, alpha)
    return Certificate(label, 0.0, noise.norm, alpha, "none", evidence)


def unproven(counts: Counts, noise: Noise) -> Certificate:
    """What a core says of the clean input: its answer, certain and without a radius."""
    evidence = Evidence(int(counts[0].argmax()), (as_votes(counts[0]),), 1, 0.0, 1.0, 0.0)
    return Certificate(evidence.label, 0.0, noise.norm, 0.0, "none", evidence)


def composed(selection: Certificate, branch: Certificate | None, alpha: float) -> Certificate:
    """The answer of the selected branch, as far as selection and branch both hold; None where none was asked."""
    parts = (selection,) if branch is None else (selection, branch)
    for part in parts:
        if part.abstained:
            return replace(part, label=ABSTAIN, radius=0.0, alpha=alpha, guarantee="none", parts=parts)
    binding, kinds = min(parts, key=lambda part: part.radius), [part.guarantee for part in parts]
    guarantee = kinds[0] if len(set(kinds)) == 1 else "none" if "none" in kinds else "smoothing"
    return replace(binding, label=parts[-1].label, alpha=alpha, guarantee=guarantee, parts=parts)


def as_votes(column: Counts | Sequence[int]) -> tuple[int, ...]:
    return tuple(int(count) for count in column)


def check_answerable(whose: str, n: int, alpha: float, tests: int = 1) -> None:
    """Refuse numbers of draws with which so many tests, which share alpha, can never succeed."""
    check_alpha(alpha, whose)
    check_draws(n, "n", whose)
    fewest = fewest_draws(0.5, alpha / tests)
    while tie_p_value(fewest, 0) > alpha / tests:
        fewest += 1
    if n < fewest:
        raise OptionError(f"n of {whose} must be at least {fewest} to answer anything at alpha {alpha:g}; got {n}")
