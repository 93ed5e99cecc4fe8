"""Noisy copies for training: of the certified distribution, the same draws at any point, a slope where there is one."""

from __future__ import annotations

import pytest
import torch

from smoothcert.contracts import Batch, Stream
from smoothcert.noise import ScalableNoise
from smoothcert.noise.discrete import Discrete
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_grid import GaussianGrid
from smoothcert.noise.splitting import Splitting
from smoothcert.noise.uniform import Uniform
from smoothcert.training.noisy import fresh

ADDED = [Gaussian(0.5), GaussianGrid(0.5), Uniform(sigma=0.5)]
OTHERS = [Splitting(lam=0.5, pattern=3), Splitting(lam=0.5), Discrete(keep=0.6, values=5)]
NOISES = [*ADDED, *OTHERS]


def batch(noise, x, levels=None, seed=0):
    level = float(getattr(noise, "sigma", 1.0))
    levels = torch.full((len(x),), level) if levels is None else levels
    return Batch(x, torch.zeros(len(x)), levels, torch.Generator().manual_seed(seed), 0.0, noise)


def whole(*shape, seed=0):
    """Inputs on the grid of 8-bit images."""
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(seed)) / 255


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_training_sees_the_distribution_that_is_certified(noise):
    """First two moments of each coordinate, and of a pair of them, against 20 000 draws of `fill`."""
    x, copies = whole(2, 1, 3, 3), 20_000
    trained = fresh(batch(noise, x), copies)(x)
    assert trained.shape == (copies, 2, 1, 3, 3) and trained.dtype == torch.float32
    for number, own in enumerate(x):
        filled = torch.empty(copies, 1, 3, 3)
        noise.fill(filled, own, Stream(7, number, "test"), 0)
        ours, theirs = trained[:, number].flatten(1).double(), filled.flatten(1).double()
        # Values lie within 3 of the mean in standard deviations or so: 0.05 is seven standard errors of a difference.
        size = float(theirs.std(0).max())
        assert float((ours.mean(0) - theirs.mean(0)).abs().max()) < 0.05 * size
        assert float((ours.T.cov() - theirs.T.cov()).abs().max()) < 0.05 * size**2 * 2


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_draws_are_held_and_the_next_are_others(noise):
    x, other = whole(4, 1, 5, 5), whole(4, 1, 5, 5, seed=1)
    given = batch(noise, x)
    noisy, again = fresh(given, 3), fresh(batch(noise, x), 3)
    assert torch.equal(noisy(x), noisy(x)) and torch.equal(noisy(x), again(x))
    assert torch.equal(noisy(other), again(other)) and not torch.equal(noisy(x), noisy(other))
    assert not torch.equal(fresh(given, 3)(x), noisy(x))
    assert len({tuple(copy.ravel().tolist()) for copy in noisy(x).flatten(0, 1)}) == 12


@pytest.mark.parametrize("noise", ADDED, ids=repr)
def test_added_noise_has_each_examples_level_and_a_slope(noise):
    levels = torch.tensor([0.1, 1.0, 3.0])
    x = torch.zeros(3, 2, 50, 50, requires_grad=True)
    copies = fresh(batch(noise, x, levels), 4)(x)
    # 20 000 values each: the deviation's own deviation is at most σ/√40 000 = 0.5 %, so 3 % is six of them.
    assert isinstance(noise, ScalableNoise) and torch.allclose(copies.std(dim=(0, 2, 3, 4)), levels, rtol=0.03)
    copies.sum().backward()
    assert bool((x.grad == 4).all())


@pytest.mark.parametrize("noise", OTHERS, ids=repr)
def test_other_noises_have_no_slope(noise):
    x = whole(2, 1, 3, 3).requires_grad_()
    assert not isinstance(noise, ScalableNoise) and not fresh(batch(noise, x), 2)(x).requires_grad


def test_gaussian_noise_of_training_is_torchs_own_bit_for_bit():
    """Networks made by earlier versions, those of the zoo among them, must come out the same."""
    x, levels = torch.rand(3, 2, 4, 4), torch.tensor([0.1, 0.25, 1.0])
    random = torch.Generator().manual_seed(0)
    expected = x + torch.randn((5, 3, 2, 4, 4), generator=random) * levels.view(1, -1, 1, 1, 1)
    assert torch.equal(fresh(batch(Gaussian(0.25), x, levels), 5)(x), expected)


def test_uniform_noise_of_training_keeps_to_its_width():
    x = torch.zeros(4, 1000)
    copies = fresh(batch(Uniform(lam=0.3), x), 10)(x)
    assert 0.299 < float(copies.abs().max()) <= 0.3 * (1 + 1e-6)
