"""ACES from stored counts: every threshold, any core and any pair of component runs, without a forward pass.

The same decisions as `procedures.aces` and `procedures.aces_predict`, for all inputs and thresholds at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from smoothcert.ballots import BINS, grid_place
from smoothcert.bounds import Floats, Integers, lower_bounds, tie_p_values
from smoothcert.contracts import ABSTAIN, Noise


class Tally(NamedTuple):
    """Counts [inputs, outcomes] of draws that chose, of the first draws of the test, and of all of the test."""

    guess: Integers
    look: Integers
    test: Integers


class Verdicts(NamedTuple):
    """CERTIFY's label and radius and PREDICT's label, each [inputs] or [thresholds, inputs]."""

    label: Integers
    radius: Floats
    natural: Integers


# Coordinates of an input, at most: counts do not tell how many there were, and no noise proves more with more of them.
MOST = 2**24


@dataclass(frozen=True, eq=False)
class Combined:
    """A composition at several thresholds on the same inputs."""

    thetas: Floats  # [thresholds]
    indices: Integers  # [inputs]
    labels: Integers  # [inputs], the data's
    answers: Verdicts  # [thresholds, inputs], of the composition
    selection: Verdicts  # [thresholds, inputs]: 1, 0, or an abstention, which is neither (erratum E5)
    certified: Verdicts  # [inputs], of the certified network alone at the same level
    core: Integers  # [inputs]


def of_classes(tally: Tally, alpha: float, noise: Noise) -> Verdicts:
    """A smoothed network's verdicts [inputs], each test at alpha."""
    label = tally.guess.argmax(axis=1)
    hits = np.take_along_axis(tally.test, label[:, None], axis=1)[:, 0]
    leaders = np.argsort(-tally.look, axis=1, kind="stable")[:, :2]
    votes = np.take_along_axis(tally.look, leaders, axis=1)
    second = votes[:, 1] if votes.shape[1] > 1 else np.zeros_like(votes[:, 0])
    natural = np.where(tie_p_values(votes[:, 0], second) <= alpha, leaders[:, 0], ABSTAIN)
    return Verdicts(*_proven(label, hits, _draws(tally.test), alpha, noise), natural)


def of_selection(bins: Tally, thetas: Floats, alpha: float, noise: Noise) -> Verdicts:
    """A selector's verdicts [thresholds, inputs], each test at alpha; a tie of the draws that chose goes to 1."""
    places = [grid_place(float(theta), "a combination") for theta in thetas]
    guess, look, test = (_selected(counts, places) for counts in bins)
    draws, looks = _draws(bins.test), _draws(bins.look)
    label = (2 * guess >= _draws(bins.guess)).astype(np.int64)
    certain = tie_p_values(look, looks - look) <= alpha
    natural = np.where(certain, (2 * look > looks).astype(np.int64), ABSTAIN)
    return Verdicts(*_proven(label, np.where(label == 1, test, draws - test), draws, alpha, noise), natural)


def composed(selection: Verdicts, certified: Verdicts, core: Integers) -> Verdicts:
    """The composition's verdicts [thresholds, inputs]."""
    both = (selection.label == 1) & (certified.label != ABSTAIN)
    radius = np.where(both, np.minimum(selection.radius, certified.radius), 0.0)
    return Verdicts(
        _decided(selection.label, certified.label, core), radius, _decided(selection.natural, certified.natural, core)
    )


def median_bin(bins: Tally) -> Floats:
    """The median doubt of each input's draws, to the middle of its bin."""
    counts = bins.test
    places = (2 * counts.cumsum(axis=1) >= counts.sum(axis=1, keepdims=True)).argmax(axis=1)
    middle: Floats = (places + 0.5) / BINS
    return middle


def _decided(selection: Integers, certified: Integers, core: Integers) -> Integers:
    """What is answered where 1, 0, or nobody knows what, is selected."""
    agreed = np.where(certified == core, core, ABSTAIN)
    return np.where(selection == 1, certified, np.where(selection == 0, core, agreed))


def _proven(label: Integers, hits: Integers, draws: int, alpha: float, noise: Noise) -> tuple[Integers, Floats]:
    """Labels and radii that so many hits prove; as `Evidence.certificate`, for arrays."""
    import torch

    low = lower_bounds(hits, draws, alpha)
    radius = np.asarray(noise.radius(torch.from_numpy(low), torch.from_numpy(1 - low), MOST))
    fine = (low > 1 - low) & (radius >= 0.0)
    if noise.norm != "l0":
        radius = np.maximum(0.0, np.nextafter(radius, -np.inf))
    return np.where(fine, label, ABSTAIN), np.where(fine, radius, 0.0)


def _selected(counts: Integers, places: list[int]) -> Integers:
    """How many copies [thresholds, inputs] are in the first so many bins."""
    sums = np.concatenate([np.zeros((len(counts), 1), dtype=np.int64), counts.cumsum(axis=1)], axis=1)
    return np.ascontiguousarray(sums[:, places].T)


def _draws(counts: Integers) -> int:
    return int(counts[0].sum())
