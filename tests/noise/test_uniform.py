"""Uniform noise: its values, its distribution, its theorem, the last by exact volumes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch
from scipy.stats import kstest

from smoothcert.contracts import Stream
from smoothcert.errors import OptionError
from smoothcert.noise.uniform import Uniform

HALF = Fraction(1, 2)
LAM = Fraction(3, 4)
# Perturbations of three coordinates, along axes, spread out and mixed.
DIRECTIONS = [(1, 0, 0), (0, 0, 1), (1, 1, 1), (1, -2, 1), (-3, 0, 1)]


def drawn(rows, shape=(3072,), lam=0.5, x=None, first=0):
    out = torch.empty(rows, *shape)
    Uniform(lam=lam).fill(out, torch.zeros(shape) if x is None else x, Stream(0, 0, "test"), first)
    return out


def positive_part(value):
    return max(value, Fraction(0))


def below(weights, limit):
    """P(w·u ≤ c) for u uniform on [−λ, λ]^d, w > 0: the cube's corners, signed (inclusion and exclusion)."""
    d = len(weights)
    shifted = limit + LAM * sum(weights)  # u = −λ + 2λv, v in [0,1]^d
    corners = itertools.product((0, 1), repeat=d)
    signed = sum(
        (-1) ** sum(v)
        * positive_part(shifted - 2 * LAM * sum(w for w, in_v in zip(weights, v, strict=True) if in_v)) ** d
        for v in corners
    )
    return Fraction(signed) / (math.factorial(d) * math.prod(2 * LAM * w for w in weights))


def inside(box, at):
    """P(at + u in box), a product of overlaps."""
    overlaps = (positive_part(min(high, a + LAM) - max(low, a - LAM)) for (low, high), a in zip(box, at, strict=True))
    return math.prod(overlaps) / (2 * LAM) ** len(box)


def test_the_distribution_is_uniform_with_the_asked_width():
    values = drawn(64).ravel().double()
    assert kstest(values.numpy(), "uniform", args=(-0.5, 1.0)).pvalue > 1e-3  # seed fixed: one exact computation
    assert values.abs().max() <= 0.5
    assert float(values.std()) == pytest.approx(Uniform(lam=0.5).sigma, rel=5e-3)


def test_coordinates_and_draws_are_uncorrelated():
    values = drawn(50_000, (8,)).double()
    assert (torch.corrcoef(values.T) - torch.eye(8)).abs().max() < 5 / math.sqrt(50_000)
    assert torch.corrcoef(torch.stack([values[:-1].ravel(), values[1:].ravel()]))[0, 1].abs() < 5 / math.sqrt(400_000)


def test_noise_is_added_to_the_input():
    x = torch.rand(3, 5)
    assert torch.allclose(drawn(4, (3, 5), x=x) - x, drawn(4, (3, 5)), atol=1e-6)


@pytest.mark.parametrize("weights", [(1, 2, 5), (1, 1, 1), (7, 1, 3)])
@pytest.mark.parametrize("limit", [Fraction(1, 10), Fraction(3, 5), Fraction(2)])
def test_half_spaces_keep_the_majority_inside_the_radius(weights, limit):
    weights = [Fraction(w) for w in weights]
    p = below(weights, limit)
    assert p > HALF
    radius = LAM * (2 * p - 1)
    for direction in DIRECTIONS:
        length = radius * Fraction(999, 1000) / sum(map(abs, direction))
        moved = limit - length * sum(w * s for w, s in zip(weights, direction, strict=True))
        assert below(weights, moved) > HALF


@pytest.mark.parametrize("size", [Fraction(2), Fraction(13, 10)])
def test_boxes_change_by_no_more_than_the_theorem_says(size):
    box, at = [(-size, size), (Fraction(-1, 2), size), (-size, 2 * size)], (Fraction(1, 10), Fraction(0), Fraction(1))
    p = inside(box, at)
    for direction in DIRECTIONS:
        for length in (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2)):
            step = length / sum(map(abs, direction))
            moved = [a + step * s for a, s in zip(at, direction, strict=True)]
            assert abs(inside(box, moved) - p) <= length / (2 * LAM)


def test_a_half_space_across_one_axis_attains_the_bound():
    """p falls by exactly r/2λ along that axis: at `need` the majority is lost exactly at the radius."""
    noise = Uniform(lam=float(LAM))
    for r in (Fraction(0), Fraction(1, 8), Fraction(1, 2)):
        p = below([Fraction(1)], r)
        assert below([Fraction(1)], r - r) == HALF
        assert noise.p_needed(float(r), 3) == pytest.approx(float(p), rel=1e-14) and noise.p_needed(float(r), 3) > p
        top = torch.tensor(float(p), dtype=torch.float64)
        assert float(noise.radius(top, 1 - top, 3)) == pytest.approx(float(r), abs=1e-15)


def test_two_slabs_attain_the_bound_of_the_runner_up():
    """A below one cut, B above another, nobody between: at λ(p_A − p_B) along the axis both are equally likely."""
    cut, other = Fraction(1, 5), Fraction(1, 2)
    p_a, p_b = below([Fraction(1)], cut), 1 - below([Fraction(1)], other)
    top, second = (torch.tensor(float(p), dtype=torch.float64) for p in (p_a, p_b))
    radius = float(Uniform(lam=float(LAM)).radius(top, second, 1))
    assert radius == pytest.approx(float(LAM * (p_a - p_b)), abs=1e-15)
    moved = LAM * (p_a - p_b)
    assert below([Fraction(1)], cut - moved) == 1 - below([Fraction(1)], other - moved)


def test_radius_has_a_gradient():
    p = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    Uniform(lam=0.5).radius(p, 1 - p, 1).backward()
    assert float(p.grad) == 1.0


def test_a_radius_out_of_reach_needs_more_than_certainty():
    assert Uniform(lam=0.5).p_needed(0.6, 1) > 1.0


def test_sigma_and_lam_are_two_names_for_one_width():
    by_sigma = Uniform(sigma=0.25)
    assert by_sigma.lam == pytest.approx(0.25 * math.sqrt(3)) and by_sigma.sigma == 0.25
    by_lam = Uniform(lam=1)
    assert by_lam.lam == 1.0 and by_lam.sigma == pytest.approx(1 / math.sqrt(3))
    assert Uniform(lam=by_lam.lam, sigma=by_lam.sigma) == by_lam


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "uniform needs a value for sigma, its standard deviation, or for lam"),
        ({"lam": 0}, "uniform needs a value for sigma"),
        ({"lam": -1}, "lam of uniform must be a positive number, for inputs in .0,1.; got -1"),
        ({"sigma": math.nan}, "sigma of uniform must be a positive number"),
        ({"sigma": math.inf}, "sigma of uniform must be a positive number"),
        ({"sigma": "0.5"}, "sigma of uniform must be a positive number"),
        ({"sigma": 0.5, "lam": 0.5}, "lam of uniform must be sigma·√3, here 0.866025, or given alone; got 0.5"),
    ],
)
def test_bad_widths_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        Uniform(**options)
