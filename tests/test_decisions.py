"""Combining stored counts: the same answers as the procedure itself, input by input and threshold by threshold."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom

from smoothcert.bounds import lower_bound, lower_bounds, tie_p_value, tie_p_values
from smoothcert.contracts import ABSTAIN, Answer
from smoothcert.decisions import BINS, VoteCounts, composed, median_bin, of_classes, of_selection
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.uniform import Uniform
from smoothcert.procedures.aces import AcesPredict, AcesProcedure
from smoothcert.runs.rows import _row_of
from smoothcert.runs.rows import row_values as values
from smoothcert.runs.run import Row

sys.path.insert(0, str(Path(__file__).parent / "procedures"))
from compositions import ENTROPY_SOURCE, NETWORK_SOURCE, SIGMA, cells, played, truth

GRID = np.arange(BINS + 1) / BINS
N0, N, LOOK, ALPHA, CLASSES = 20, 600, 100, 0.02, 4


@pytest.mark.parametrize("alpha", [0.0005, 0.05])
def test_arrays_of_bounds_are_the_bounds(alpha):
    hits = np.array([[0, 1, 2, 399], [400, 401, 1000, 999]])
    assert lower_bounds(hits, 1000, alpha).tolist() == [[lower_bound(k, 1000, alpha) for k in row] for row in hits]
    every = np.arange(501)
    assert lower_bounds(every, 500, alpha).tolist() == [lower_bound(k, 500, alpha) for k in range(501)]
    assert tie_p_values(every, 500 - every).tolist() == [tie_p_value(k, 500 - k) for k in range(501)]
    assert tie_p_values(np.zeros(2, dtype=int), np.array([0, 3])).tolist() == [tie_p_value(0, 0), tie_p_value(0, 3)]


def drawn(rng, inputs, sharp=1.0):
    """Counts [inputs, …] with every kind of input: sure and unsure classes, low, spread and even entropies."""
    p = rng.dirichlet(np.full(CLASSES, 0.3), size=inputs)
    middle, width = rng.random(inputs), rng.random(inputs) * 0.2
    places = np.arange(BINS) / BINS
    q = np.exp(-(((places - middle[:, None]) / (width[:, None] + 0.005)) ** 2) * sharp) + 1e-9
    q /= q.sum(axis=1, keepdims=True)

    def tally(shares):
        guess, look, rest = (np.stack([rng.multinomial(n, row) for row in shares]) for n in (N0, LOOK, N - LOOK))
        return VoteCounts(guess, look, look + rest)

    return tally(p), tally(q)


def answered(classes, bins, core, i, network):
    """The stored counts of input i as the procedure asks for them."""

    def columns(draw):
        if draw.purpose == "core":
            return np.eye(CLASSES, dtype=int)[None, core[i]]
        part = {"guess": "guess", "predict": "predict"}.get(draw.purpose.removeprefix("select-"), "")
        if not part:
            part = "predict" if draw.draws == LOOK else "rest"
        wide = np.zeros((2, BINS), dtype=int)
        for row, counts in enumerate((classes, bins)):
            found = counts.test[i] - counts.predict[i] if part == "rest" else getattr(counts, part)[i]
            wide[row, : len(found)] = found
        if draw.purpose.startswith("select-"):
            return wide[1:]
        return wide[[0, 0]] if network else wide

    return columns


@pytest.mark.parametrize("network", [False, True])
def test_combining_equals_the_procedure_at_every_threshold(network):
    rng = np.random.default_rng(0)
    inputs = 25
    classes, bins = drawn(rng, inputs)
    core = rng.integers(0, CLASSES, inputs)
    certified = of_classes(classes, ALPHA / 2, Gaussian(SIGMA), 4)
    selection = of_selection(bins, GRID, ALPHA / 2, Gaussian(SIGMA), 4)
    found = composed(selection, certified, core)
    source = NETWORK_SOURCE if network else ENTROPY_SOURCE
    seen = set()
    for t, theta in enumerate(GRID):
        for i in range(inputs):
            if (i + t) % 5:  # a fifth of them, every input and every threshold among them
                continue
            answers = answered(classes, bins, core, i, network)
            direct, _ = played(AcesProcedure(float(theta), N0, N, ALPHA, LOOK)(source, 4), answers)
            assert (direct.label, direct.radius) == (found.label[t, i], found.radius[t, i])
            natural, _ = played(AcesPredict(float(theta), LOOK, ALPHA)(source, 4), answers)
            assert natural.label == found.natural[t, i]
            seen.add((int(selection.label[t, i]), direct.label == ABSTAIN, direct.radius > 0))
    # Every branch was met: selected, core, agreement, and the abstentions of both kinds.
    assert {(1, False, True), (0, False, False), (-1, False, False), (1, True, False), (-1, True, False)} <= seen


def test_the_ends_of_the_grid_are_the_core_and_the_smoothed_network():
    rng = np.random.default_rng(1)
    classes, bins = drawn(rng, 200)
    core = rng.integers(0, CLASSES, 200)
    certified = of_classes(classes, ALPHA / 2, Gaussian(SIGMA), 4)
    found = composed(of_selection(bins, GRID[[0, -1]], ALPHA / 2, Gaussian(SIGMA), 4), certified, core)
    assert (found.label[0] == core).all() and (found.natural[0] == core).all() and (found.radius[0] == 0).all()
    assert (found.label[1] == certified.label).all() and (found.natural[1] == certified.natural).all()
    assert (found.radius[1] == certified.radius).all()
    plain = of_classes(classes, ALPHA, Gaussian(SIGMA), 4)
    assert (plain.radius >= certified.radius).all() and plain.radius.mean() > certified.radius.mean() > 0


def test_other_noises_and_levels():
    classes, _ = drawn(np.random.default_rng(2), 50)
    wide, narrow = (of_classes(classes, 0.01, Gaussian(sigma), 4) for sigma in (1.0, 0.5))
    assert wide.radius == pytest.approx(2 * narrow.radius)
    uniform = of_classes(classes, 0.01, Uniform(lam=0.5), 4)
    low = lower_bounds(np.take_along_axis(classes.test, classes.guess.argmax(1)[:, None], 1)[:, 0], N, 0.01)
    assert uniform.radius == pytest.approx(np.maximum(0.0, 0.5 * (2 * low - 1)))
    assert (uniform.label == narrow.label).all()


def test_the_median_is_the_bin_that_reaches_one_half():
    test = np.zeros((3, BINS), dtype=int)
    test[0, 7] = 10
    test[1, [0, 50]] = 5
    test[2, [0, 50]] = 4, 6
    assert median_bin(VoteCounts(test, test, test)).tolist() == [0.075, 0.005, 0.505]


SETTINGS = {  # P(class 0), P(selected), how much they go together: each exercises another branch
    "selected": (0.9, 0.8, 0.5),
    "core": (0.9, 0.2, 0.0),
    "a selector just below one half": (0.99, 0.499, -1.0),
    "a selector at one half": (0.7, 0.5, 0.0),
    "a class just below one half": (0.499, 0.99, 1.0),
    "both near one half": (0.52, 0.51, -1.0),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_hundred_thousand_inputs_are_wrong_as_rarely_as_alpha_says(setting):
    """Joint draws of class and entropy from a known distribution; θ = 0.01 separates the two bins that occur."""
    p, q, mixing = SETTINGS[setting]
    rng = np.random.default_rng(3)
    inputs, alpha = 100_000, 0.05
    shares = cells(p, q, mixing).ravel()  # neither, selected, class 0, both

    def tally(n):
        neither, alone, zero, both = rng.multinomial(n, np.clip(shares, 0, 1) / shares.sum(), size=inputs).T
        classes = np.stack([zero + both, neither + alone], axis=1)
        return classes, np.stack([alone + both, neither + zero], axis=1)

    drawn = [tally(n) for n in (10, 100, 300)]
    classes, bins = (
        VoteCounts(drawn[0][column], drawn[1][column], drawn[1][column] + drawn[2][column]) for column in (0, 1)
    )
    selection = of_selection(bins, np.array([0.01]), alpha / 2, Gaussian(SIGMA), 4)
    certified = of_classes(classes, alpha / 2, Gaussian(SIGMA), 4)
    assert (selection.label[0] == ABSTAIN).mean() > 0.9 or q not in (0.5, 0.499, 0.51)
    most = binom.ppf(1 - 1e-6, inputs, alpha)  # were each wrong with probability alpha, once in a million
    for core in (0, 1):
        label, radius, natural = (column[0] for column in composed(selection, certified, np.full(inputs, core)))
        right, reach = truth(p, q, core)
        assert ((label != ABSTAIN) & ((label != right) | (radius > reach))).sum() <= most
        assert ((natural != ABSTAIN) & (natural != right)).sum() <= most
        assert (label == right).mean() > 0.95 or setting not in ("selected", "core")


@pytest.mark.parametrize("width", [0.005, 0.02, 0.1, 0.3, 10.0])
def test_an_input_takes_less_than_two_kilobytes(width):
    """All answers of one input as they are stored, from narrow histograms to as flat as there can be, n = 100 000."""
    rng = np.random.default_rng(0)
    shares = np.exp(-(((np.arange(BINS) / BINS - 0.4) / width) ** 2))
    answers = []
    for purpose, draws in (("guess", 100), ("test", 10_000), ("test", 90_000), ("core", 1)):
        bins = rng.multinomial(draws, shares / shares.sum())
        classes = np.zeros(BINS, dtype=int)
        classes[:10] = rng.multinomial(draws, np.full(10, 0.1))
        answers.append(Answer(purpose, draws, (tuple(map(int, classes)), tuple(map(int, bins)))))
    row = Row(9980, 3, 3, 0.123456789012345, 100_100, 12.3456789, 3, 0.6543210987654321, tuple(answers))
    stored = values(row)
    assert sum(len(str(value)) for value in stored) < 2000
    assert _row_of(stored, None).answers == row.answers


def test_counts_prove_what_an_input_of_this_size_allows():
    from smoothcert.noise.gaussian_grid import GaussianGrid

    noise, counts = GaussianGrid(0.25), np.array([[0, 100]])
    tally = VoteCounts(counts, counts, 100 * counts)
    small, large = (of_classes(tally, 0.001, noise, dim).radius[0] for dim in (64, 3 * 224 * 224))
    low = torch.from_numpy(lower_bounds(np.array([10_000]), 10_000, 0.001))
    assert small == np.nextafter(float(noise.radius(low, 1 - low, 64)), 0) and 0 < large < small
