"""The readouts of ACES: bins that agree with every threshold, and close calls that miss no change."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import entropy

from smoothcert.decisions import BINS, grid_place, split
from smoothcert.errors import ModelError, OptionError
from smoothcert.readouts import ClassAndEntropy, SelectorUncertainty


def selected(bins, theta):
    """How many copies counted in bins [≥ 100] are selected at this threshold."""
    return int(split(np.asarray(bins)[None], [theta])[0, 0, 1])


GRID = [k / BINS for k in range(BINS + 1)]


def scores(rows=2000, classes=10, size=3.0):
    spread = torch.rand(rows, 1, generator=torch.Generator().manual_seed(1)) * size
    return torch.randn(rows, classes, generator=torch.Generator().manual_seed(0)) * spread


def histogram(column):
    return np.bincount(column.numpy(), minlength=BINS)


@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_bins_of_the_entropy_answer_every_threshold(classes):
    """Against scipy's entropy, to the base of the number of classes."""
    given = scores(classes=classes, rows=500)
    votes = ClassAndEntropy()(given)
    assert votes.dtype == torch.int64 and votes.shape == (500, 2)
    assert torch.equal(votes[:, 0], given.argmax(1))
    expected = entropy(torch.softmax(given.double(), 1).numpy(), base=classes, axis=1)
    bins = histogram(votes[:, 1])
    assert [selected(bins, theta) for theta in GRID] == [0] + [int((expected <= theta).sum()) for theta in GRID[1:]]
    assert votes.max() < ClassAndEntropy().outcomes(classes) == max(classes, BINS)


def test_bins_are_closed_on_the_right_and_hold_both_ends():
    """A doubt of exactly k/100 is selected at θ = k/100 and not at the threshold before."""
    doubts = torch.tensor(GRID, dtype=torch.float64)
    logits = torch.stack([doubts.log(), (1 - doubts).log()], dim=1)  # −inf at the ends
    back = torch.softmax(logits, 1)[:, 0]
    bins = SelectorUncertainty()(logits)[:, 0]
    exact = back == doubts  # some roots are rounded on the way
    assert exact.sum() >= 50
    places = torch.arange(BINS + 1)
    assert torch.equal(bins[exact], (places[exact] - 1).clamp(min=0))
    assert bins[0] == 0 and bins[-1] == BINS - 1


def test_certain_and_uniform_scores_are_the_ends():
    certain = torch.tensor([[40.0, -400.0, -400.0]])
    uniform = torch.zeros(1, 3)
    lone = torch.zeros(1, 1)
    assert [int(ClassAndEntropy()(given)[0, 1]) for given in (certain, uniform, lone)] == [0, BINS - 1, 0]


def test_no_threshold_selects_at_zero_and_all_at_one():
    bins = histogram(ClassAndEntropy()(scores())[:, 1])
    assert selected(bins, 0.0) == 0 and selected(bins, 1.0) == 2000
    assert selected(np.array([5] + [0] * 99), 0.0) == 0  # entropy 0 is not selected either


def test_thresholds_off_the_grid_are_refused():
    assert [grid_place(theta, "x") for theta in (0, 0.07, 0.29, 0.57, 1)] == [0, 7, 29, 57, 100]
    for wrong in (0.005, -0.01, 1.01, math.nan, math.inf, "0.3"):
        with pytest.raises(OptionError, match=r"theta of aces must be one of 0, 0.01, …, 1; got"):
            grid_place(wrong, "aces")


def test_a_selection_network_has_two_classes():
    with pytest.raises(ModelError, match="a selection network must have 2 classes, core and certified; got 10"):
        SelectorUncertainty()(scores())


@pytest.mark.parametrize(("readout", "classes"), [(ClassAndEntropy(), 10), (SelectorUncertainty(), 2)])
def test_close_calls_miss_no_change(readout, classes):
    """Scores moved by less than the error change no outcome that is not close; and most are not."""
    given = scores(rows=5000, classes=classes).double()
    before, close = readout(given), readout.close(given, 1e-4)
    assert close.shape == before.shape and close.dtype == torch.bool
    changed = torch.zeros_like(close)
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        signs = torch.randint(0, 2, given.shape, generator=generator) * 2 - 1
        moved = given + signs * 0.99e-4
        changed |= readout(moved) != before
    assert changed.any() and not (changed & ~close).any()
    assert close.double().mean() < 0.1
