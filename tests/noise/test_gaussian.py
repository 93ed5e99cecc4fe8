"""Gaussian noise: its values, its distribution, its theorem."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import kstest

from smoothcert.contracts import Stream
from smoothcert.errors import OptionError
from smoothcert.noise.gaussian import Gaussian

SHAPES = [(1,), (2,), (3,), (17,), (8, 8), (1, 28, 28), (3, 32, 32), (3, 33, 31)]


def noise_of(shape, rows, sigma=1.0, stream=Stream(0, 0, "test"), first=0, x=None):  # noqa: B008
    out = torch.empty(rows, *shape)
    Gaussian(sigma).fill(out, torch.zeros(shape) if x is None else x, stream, first)
    return out


@pytest.mark.parametrize("shape", SHAPES)
def test_a_draw_is_the_same_in_any_batch(shape):
    whole = noise_of(shape, 130)
    for size in (1, 7, 64):
        pieces = torch.cat([noise_of(shape, min(size, 130 - at), first=at) for at in range(0, 130, size)])
        assert torch.equal(pieces, whole)


def test_a_draw_is_the_same_with_one_and_with_two_threads():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = noise_of((3, 32, 32), 64)
        torch.set_num_threads(2)
        assert torch.equal(noise_of((3, 32, 32), 64), one)
    finally:
        torch.set_num_threads(before)


def test_the_distribution_is_normal_with_the_asked_sigma():
    for shape in ((3072,), (17,)):
        values = noise_of(shape, 200_000 // math.prod(shape), sigma=0.25).ravel().double() / 0.25
        # Seed fixed, so this is one exact computation; 1e-3 leaves room for an honest sample only.
        assert kstest(values.numpy(), "norm").pvalue > 1e-3
        assert values.abs().max() < 6.8


def test_coordinates_and_draws_are_uncorrelated():
    drawn = noise_of((8,), 50_000).double()
    assert (torch.corrcoef(drawn.T) - torch.eye(8)).abs().max() < 5 / math.sqrt(50_000)
    assert (torch.corrcoef(torch.stack([drawn[:-1].ravel(), drawn[1:].ravel()]))[0, 1]).abs() < 5 / math.sqrt(400_000)
    squares = drawn**2
    assert (torch.corrcoef(squares.T) - torch.eye(8)).abs().max() < 6 / math.sqrt(50_000)


def test_noise_is_added_to_the_input():
    x = torch.rand(3, 5)
    assert torch.allclose(noise_of((3, 5), 4, x=x) - x, noise_of((3, 5), 4), atol=1e-6)


def test_radius_is_the_half_space_radius():
    # A half-space at distance r has P = Φ(r/σ): the bound is attained, so radius must invert it.
    sigma = 0.3
    for r in (0.0, 0.01, 0.25, 1.0):
        p = torch.special.ndtr(torch.tensor(r / sigma, dtype=torch.float64))
        assert float(Gaussian(sigma).radius(p, 1 - p, 10)) == pytest.approx(r, abs=1e-12)
        need = Gaussian(sigma).p_needed(r, 10)
        assert need >= float(p) and need == pytest.approx(float(p), rel=1e-14)


def test_radius_has_a_gradient():
    p = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    Gaussian(0.5).radius(p, 1 - p, 1).backward()
    density = math.exp(-(float(torch.special.ndtri(p.detach())) ** 2) / 2) / math.sqrt(2 * math.pi)
    assert float(p.grad) == pytest.approx(0.5 / density, rel=1e-9)


@pytest.mark.parametrize("sigma", [0, -1, float("nan"), float("inf"), "0.5", None])
def test_bad_sigmas_are_refused(sigma):
    with pytest.raises(OptionError, match=r"sigma of gaussian must be a positive number.*got"):
        Gaussian(sigma)
