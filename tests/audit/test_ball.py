"""Points of a ball: on its rim, never outside, on the grid where they must be, and the steepest way."""

from __future__ import annotations

import math

import pytest
import torch

from smoothcert.audit.search import Ball
from smoothcert.noise.discrete import Discrete
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_grid import GaussianGrid
from smoothcert.noise.splitting import Splitting
from smoothcert.noise.uniform import Uniform


def tensor(shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def point(shape=(3, 8, 8), seed=1):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("radius", [3.0, 0.5, 1e-3, 1e-7])
@pytest.mark.parametrize("seed", range(4))
def test_the_rim_is_inside_and_as_far_as_one_can_go(norm, radius, seed):
    x, space = point(), Ball(norm, radius)
    y = space.rim(x, tensor(x.shape, seed))
    assert y.dtype == torch.float32 and space.holds(x, y)
    assert radius < 1e-4 or space.distance(x, y) > 0.999 * radius  # below that, float32 has no point to go to
    exact = math.fsum(
        abs(a - b) ** (1 if norm == "l1" else 2)
        for a, b in zip(x.flatten().tolist(), y.flatten().tolist(), strict=True)
    )
    assert (exact if norm == "l1" else math.sqrt(exact)) <= radius


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("closed", [False, True])
def test_points_of_a_grid_stay_on_it_and_inside(norm, closed):
    x = (point() * 255).round() / 255
    space = Ball(norm, 6 / 255, grid=255, closed=closed)
    y = space.rim(x, space.steepest(tensor(x.shape), x, 3))
    steps = ((y - x).double() * 255).round().flatten()
    assert torch.equal(y, ((y * 255).round() / 255)) and float(y.min()) >= 0 and float(y.max()) <= 1
    size = float(steps.abs().sum()) if norm == "l1" else float(steps.square().sum().sqrt())
    assert 0 < size <= 6 and (closed or size < 6)


def test_a_ball_smaller_than_a_step_is_a_point():
    x = (point() * 255).round() / 255
    assert torch.equal(Ball("l2", 0.9 / 255, grid=255).rim(x, tensor(x.shape)), x)


def test_l0_switches_the_coordinates_that_gain_most():
    x = torch.tensor([0.0, 1.0, 0.5, 0.5, 0.2])
    space = Ball("l0", 2.0, closed=True)
    gradient = torch.tensor([-9.0, 9.0, 1.0, -2.0, 0.1])  # the first two are at their end already
    y = space.put(x, space.steepest(gradient, x))
    assert y.tolist() == pytest.approx([0.0, 1.0, 1.0, 0.0, 0.2]) and space.holds(x, y)
    assert torch.equal(space.put(x, torch.zeros(5)), x)
    assert not Ball("l0", 1.0, closed=True).holds(x, y)


@pytest.mark.parametrize(("norm", "spread", "gain"), [("l2", 1, 5.0), ("l1", 1, 4.0), ("l1", 2, 25 / 7)])
def test_the_steepest_way_gains_what_the_norm_allows(norm, spread, gain):
    gradient = torch.tensor([3.0, -4.0, 0.0])
    moved = Ball(norm, 0.5).steepest(gradient, torch.full((3,), 0.5), spread)
    assert float(moved @ gradient) == pytest.approx(0.5 * gain)


def test_inputs_stay_in_the_box_where_asked():
    x = torch.tensor([0.95, 0.05])
    assert Ball("l2", 0.5, box=True).rim(x, torch.tensor([1.0, -1.0])).tolist() == [1.0, 0.0]
    assert float(Ball("l2", 0.5).rim(x, torch.tensor([1.0, -1.0])).max()) > 1


def test_every_noise_has_its_ball():
    assert Ball.of(Gaussian(0.25), 0.5) == Ball("l2", 0.5)
    assert Ball.of(GaussianGrid(0.25), 0.5) == Ball("l2", 0.5, 255)
    assert Ball.of(Uniform(lam=0.5), 0.5) == Ball("l1", 0.5)
    assert Ball.of(Splitting(lam=0.5), 0.5, exact=True) == Ball("l1", 0.5, 255, closed=True)
    assert Ball.of(Discrete(keep=0.8, values=2), 3.0) == Ball("l0", 3.0, closed=True)


def test_on_the_grid_the_rim_is_told_from_the_inside_in_whole_numbers():
    x, y = torch.zeros(2), torch.tensor([3.0, 4.0]) / 255
    assert Ball("l2", math.nextafter(5 / 255, 1), grid=255).holds(x, y)
    assert not Ball("l2", math.nextafter(5 / 255, 0), grid=255).holds(x, y)
    assert Ball("l2", math.nextafter(5 / 255, 0), grid=255, closed=True).holds(x, y)
