"""What votes decide, for any number of inputs and thresholds at once: CERTIFY, PREDICT, the selection and ACES.

The procedures decide here about one input, a combination of stored runs about all of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from smoothcert.bounds import UNPROVEN, Floats, Integers, proven_radii, tie_p_values
from smoothcert.contracts import ABSTAIN, Noise
from smoothcert.errors import OptionError

BINS = 100  # of uncertainty (`readouts`): thresholds are 0, 1/100, …, 1
CERTIFIED, CORE, BOTH, NOBODY = range(4)  # who answers for an ACES composition


class VoteCounts(NamedTuple):
    """Counts [inputs, outcomes] of draws that chose, of the first draws of the test, and of all of the test."""

    guess: Integers
    predict: Integers
    test: Integers


class Verdicts(NamedTuple):
    """CERTIFY's label and radius and PREDICT's label, each [inputs] or [thresholds, inputs]."""

    label: Integers
    radius: Floats
    natural: Integers


def of_classes(votes: VoteCounts, alpha: float, noise: Noise, dim: int) -> Verdicts:
    """A smoothed network's verdicts [inputs], each test at alpha."""
    return Verdicts(*tested(votes.guess.argmax(axis=-1), votes.test, alpha, noise, dim), winners(votes.predict, alpha))


def of_selection(bins: VoteCounts, thetas: Sequence[float] | Floats, alpha: float, noise: Noise, dim: int) -> Verdicts:
    """A selector's verdicts [thresholds, inputs], each test at alpha."""
    guess, predict, test = (split(counts, thetas) for counts in bins)
    return Verdicts(*tested(guessed(guess), test, alpha, noise, dim), winners(predict, alpha))


def composed(selection: Verdicts, certified: Verdicts, core: Integers) -> Verdicts:
    """An ACES composition's verdicts [thresholds, inputs]."""
    both = (selection.label == 1) & (certified.label != ABSTAIN)
    return Verdicts(
        _answer(selection.label, certified.label, core),
        np.where(both, np.minimum(selection.radius, certified.radius), 0.0),
        _answer(selection.natural, certified.natural, core),
    )


def who_answers(selection: Integers, certified: Integers, core: Integers) -> Integers:
    """The certified network where 1 is selected, the core where 0 is, what both say where that is unknown."""
    unknown = np.where(certified == core, BOTH, NOBODY)
    return np.where(selection == 1, CERTIFIED, np.where(selection == 0, CORE, unknown))


def _answer(selection: Integers, certified: Integers, core: Integers) -> Integers:
    who = who_answers(selection, certified, core)
    return np.where(who == CERTIFIED, certified, np.where(who == NOBODY, ABSTAIN, core))


def tested(label: Integers, votes: Integers, alpha: float, noise: Noise, dim: int) -> tuple[Integers, Floats]:
    """Labels and radii that votes [..., outcomes] prove of classes [...] that other draws chose."""
    hits = np.take_along_axis(votes, label[..., None], axis=-1)[..., 0]
    radius = proven_radii(hits, votes.sum(axis=-1), alpha, noise, dim)
    return np.where(radius == UNPROVEN, ABSTAIN, label), np.maximum(radius, 0.0)


def winners(votes: Integers, alpha: float) -> Integers:
    """The leader of votes [..., outcomes] where a two-sided test of the two leaders rejects a tie at alpha."""
    # Stable order: of equal counts the lower class number comes first. A lone class runs against nobody.
    leaders = np.argsort(-votes, axis=-1, kind="stable")[..., :2]
    first, second = (np.take_along_axis(votes, leaders, axis=-1)[..., place] for place in (0, -1))
    second = second if votes.shape[-1] > 1 else 0 * second
    # Two-sided, because the winner was chosen by looking.
    return np.where(tie_p_values(first, second) <= alpha, leaders[..., 0], ABSTAIN)


def guessed(choice: Integers) -> Integers:
    """Whether draws that choose, counted as [..., not selected and selected], select; a tie does."""
    return (choice[..., 1] >= choice[..., 0]).astype(np.int64)


def grid_place(theta: float, whose: str) -> int:
    """The k of a threshold θ = k/100; others cannot be told from counts."""
    place = round(theta * BINS) if isinstance(theta, int | float) and 0.0 <= theta <= 1.0 else -1
    if not (0 <= place <= BINS and abs(theta * BINS - place) < 1e-9):
        raise OptionError(f"theta of {whose} must be one of 0, 0.01, …, 1; got {theta}")
    return place


def split(bins: Integers, thetas: Sequence[float] | Floats) -> Integers:
    """How many copies, counted in bins [inputs, ≥ 100], θ does not select, and how many: [thresholds, inputs, 2]."""
    places = [grid_place(float(theta), "a combination") for theta in thetas]
    sums = np.concatenate([np.zeros((len(bins), 1), dtype=np.int64), bins.cumsum(axis=1)], axis=1)
    hits = np.ascontiguousarray(sums[:, places].T)
    return np.stack([bins.sum(axis=1) - hits, hits], axis=-1)


def median_bin(bins: VoteCounts) -> Floats:
    """The median uncertainty of each input's draws, to the middle of its bin."""
    counts = bins.test
    places = (2 * counts.cumsum(axis=1) >= counts.sum(axis=1, keepdims=True)).argmax(axis=1)
    middle: Floats = (places + 0.5) / BINS
    return middle
