"""Splitting noise: its values against the paper's formula, its theorem by brute force on small grids."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from smoothcert.bounds import MARGIN
from smoothcert.contracts import EVERY, Stream
from smoothcert.errors import DataError, OptionError
from smoothcert.noise.splitting import Splitting

HALF = Fraction(1, 2)


def every(noise, x):
    """All noisy copies of x, float32 [cases, *x.shape]."""
    out = torch.empty(noise.cases, *x.shape)
    noise.fill(out, x, Stream(0, 0, EVERY), 0)
    return out


def middle(value, cut, lam):
    """The paper's formula for λ and a cut s, in rationals."""
    upper = 2 * lam * math.ceil((value - cut) / (2 * lam)) + cut
    return (min(upper, Fraction(1)) + max(upper - 2 * lam, Fraction(0))) / 2


@pytest.mark.parametrize(("grid", "cases"), [(7, 1), (7, 3), (7, 7), (7, 10), (7, 40), (255, 128), (255, 600)])
def test_values_are_the_middles_of_the_papers_pieces(grid, cases):
    noise, lam = Splitting(lam=cases / (2 * grid), grid=grid), Fraction(cases, 2 * grid)
    steps = range(0, grid + 1, max(1, grid // 50))
    found = every(noise, torch.tensor([s / grid for s in steps]))
    for t in range(0, cases, max(1, cases // 50)):
        exact = [middle(Fraction(s, grid), (t + HALF) / grid, lam) for s in steps]
        assert found[t].tolist() == np.array([float(e) for e in exact], dtype=np.float32).tolist()


@pytest.mark.parametrize("pattern", [None, 5])
@pytest.mark.parametrize("cases", [3, 7, 10])
def test_values_k_steps_apart_are_told_apart_by_exactly_k_offsets(cases, pattern):
    grid = 7
    noise = Splitting(lam=cases / (2 * grid), grid=grid, pattern=pattern)
    for low, high in itertools.combinations(range(grid + 1), 2):
        apart = (every(noise, torch.tensor([low / grid])) != every(noise, torch.tensor([high / grid]))).sum()
        assert int(apart) == min(high - low, cases)


def test_every_case_comes_once_whatever_the_stream_and_the_batch():
    noise, x = Splitting(lam=0.5, pattern=1), torch.arange(12.0).view(3, 4) * 20 / 255
    whole = every(noise, x)
    out = torch.empty(100, 3, 4)
    noise.fill(out, x, Stream(9, 9, EVERY), 50)
    assert torch.equal(out, whole[50:150])


def test_other_streams_draw_every_offset_equally_often():
    noise = Splitting(lam=20 / 14, grid=7)
    out = torch.empty(20_000, 8)
    noise.fill(out, torch.arange(8.0) / 7, Stream(0, 0, "test"), 0)
    patterns = {tuple(row.tolist()): t for t, row in reversed([*enumerate(every(noise, torch.arange(8.0) / 7))])}
    found = np.bincount([patterns[tuple(row.tolist())] for row in out], minlength=20)
    # Cuts above all values cannot be told apart: the thirteen of them look like the first.
    assert (found[8:] == 0).all()
    assert chisquare(found[:8], np.array([1] * 7 + [13]) * 1000).pvalue > 1e-3  # seed fixed


def votes(noise, classifier, x):
    """Votes of the base classifier, a table from noisy inputs to classes."""
    classes = [classifier[tuple(row.tolist())] for row in every(noise, x)]
    return np.bincount(classes, minlength=3)


def certified(noise, counts):
    """Label and radius in steps, straight from the formula of METHODS."""
    label = int(counts.argmax())
    return label, min((int(counts[label] - counts[c]) - (c < label)) // 2 for c in range(3) if c != label)


@pytest.mark.parametrize("pattern", [None, 2])
@pytest.mark.parametrize("cases", [3, 5, 8])
def test_no_input_inside_the_radius_has_another_label_and_some_just_outside_have(cases, pattern):
    """All inputs of a 5×5 grid, all their neighbours, forty random classifiers of three classes."""
    grid = 4
    noise, rng = Splitting(lam=cases / (2 * grid), grid=grid, pattern=pattern), np.random.default_rng(0)
    inputs = {s: torch.tensor([s[0] / grid, s[1] / grid]) for s in itertools.product(range(grid + 1), repeat=2)}
    noisy = sorted({tuple(row.tolist()) for x in inputs.values() for row in every(noise, x)})
    tight = proven = 0
    for _ in range(40):
        classifier = dict(zip(noisy, rng.choice(3, size=len(noisy), p=[0.2, 0.6, 0.2]).tolist(), strict=True))
        found = {s: certified(noise, votes(noise, classifier, x)) for s, x in inputs.items()}
        for (s, (label, steps)), (other, (theirs, _)) in itertools.product(found.items(), found.items()):
            distance = abs(s[0] - other[0]) + abs(s[1] - other[1])
            if distance <= steps:
                assert theirs == label
                proven += distance > 0
            tight += distance == steps + 1 and theirs != label
    assert proven > 50 and tight > 10


def test_radius_is_rounded_down_to_the_grid_and_keeps_its_slope():
    noise = Splitting(lam=0.5)
    p = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    radius = noise.radius(p, 1 - p, 1)
    radius.backward()
    assert float(radius.detach()) == math.floor(0.5 * 0.6 * 255) / 255 and float(p.grad) == pytest.approx(1.0)


@pytest.mark.parametrize("cases", [1, 7, 255, 1000, 16_384])
def test_radii_of_counts_are_whole_steps_exactly(cases):
    noise = Splitting(lam=cases / 510)
    hits = torch.arange(cases + 1, dtype=torch.float64)
    radius = noise.radius(hits / cases, (cases - hits) / cases, 1)
    assert radius.tolist() == [((2 * k - cases) // 2) / 255 for k in range(cases + 1)]


@pytest.mark.parametrize("cases", [2, 7, 255, 16_384])
def test_a_bound_that_was_rounded_down_never_gains_a_step(cases):
    noise = Splitting(lam=cases / 510)
    steps = torch.arange(1, cases // 2 + 1, dtype=torch.float64)
    low = (0.5 + steps / cases) * (1 - MARGIN)  # as `lower_bound` gives it where the exact bound is that of a step
    assert noise.radius(low, 1 - low, 1).tolist() == [(k - 1) / 255 for k in steps.tolist()]


def test_need_is_what_a_radius_needs_and_no_step_more():
    noise = Splitting(lam=0.5)
    for steps in (0, 1, 10, 126):
        p = torch.tensor(noise.p_needed(steps / 255, 1), dtype=torch.float64)
        assert float(noise.radius(p, 1 - p, 1)) == steps / 255
        assert float(p) == pytest.approx(0.5 + steps / 255, rel=1e-14)


def test_a_standard_deviation_is_met_from_below_and_survives_a_record():
    noise = Splitting(sigma=0.25)
    assert noise.cases == 220 and noise.lam == 220 / 510 and noise.sigma == pytest.approx(0.2490, abs=1e-4)
    assert Splitting(lam=noise.lam, sigma=noise.sigma) == noise
    assert Splitting(lam=0.5, grid=16).cases == 16


@pytest.mark.parametrize("value", [0.5, 1 / 256, 1 + 1 / 255, -1 / 255, 1000.4 / 65535])
def test_inputs_off_the_grid_are_refused(value):
    with pytest.raises(
        DataError, match=r"inputs of splitting must be multiples of 1/255 in .0,1. .*; got one of value"
    ):
        every(Splitting(lam=0.5), torch.tensor([0.0, value]))


def test_8_bit_values_are_on_the_grid_however_they_were_divided():
    steps = torch.arange(256)
    for x in (steps.float() / 255, (steps.double() / 255).float(), steps.float() * (1 / 255)):
        assert torch.equal(every(Splitting(lam=0.5), x), every(Splitting(lam=0.5), steps / 255))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "splitting needs a value for sigma"),
        ({"lam": 0.301}, "lam of splitting must be a multiple of 1/510, so that 2·lam·grid is whole; got 0.301"),
        ({"sigma": 1e-4}, "lam of splitting must be a multiple of 1/510"),
        ({"lam": 1e300}, "lam of splitting must be at most 32.1255; got 1e.300"),
        ({"lam": 0.5, "grid": 0}, "grid of splitting must be a whole number from 1 to 4095; got 0"),
        ({"lam": 0.5, "grid": 2.5}, "grid of splitting must be a whole number"),
        ({"lam": 0.5, "pattern": -1}, "pattern of splitting must be none or a whole number"),
        ({"lam": 0.5, "pattern": "x"}, "pattern of splitting must be none or a whole number"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        Splitting(**options)
