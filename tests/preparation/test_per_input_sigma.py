"""The search climbs to the level a linear classifier or a full scan would name, with draws that are nobody else's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from placement import CUDA, moved, watched_cuda
from torch import nn

from smoothcert.classifiers.composed import DenoisedClassifier
from smoothcert.classifiers.module import Module
from smoothcert.contracts import Stream
from smoothcert.engine.batch_check import FixedShape
from smoothcert.errors import OptionError
from smoothcert.noise.discrete import Discrete
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_grid import GaussianGrid
from smoothcert.noise.uniform import Uniform
from smoothcert.preparation import device_of, estimate
from smoothcert.preparation.per_input_sigma import PerInputSigma, copies_here, copies_there

CENTRE = torch.full((1, 4, 4), 0.5)


class Ball(nn.Module):
    """Class 1 far from the centre, class 0 near it: too much noise leaves the ball, too little proves little."""

    def forward(self, x):
        far = ((x - CENTRE) ** 2).flatten(1).sum(1)
        return torch.stack([torch.zeros_like(far), 8 * (far - 4.0)], dim=1)


def streams(count):
    return [Stream(7, index, "test") for index in range(count)]


@pytest.mark.parametrize("noise", [Gaussian(0.2), Uniform(sigma=0.2)], ids=["gaussian", "uniform"])
def test_the_ascent_ends_near_the_best_level_of_a_scan(noise):
    x = CENTRE.expand(3, 1, 4, 4).clone()
    found = PerInputSigma(steps=150, step_size=0.002, draws=100)(Ball(), noise, x, streams(3))
    unit = type(noise)(sigma=1.0)
    draws = torch.empty(4000, 1, 4, 4)
    unit.fill(draws, torch.zeros(1, 4, 4), Stream(1, 1, "scan"), 0)
    levels = torch.linspace(0.06, 0.8, 75)

    def radius(level):
        return float(estimate(Ball(), unit, x[:1], level.view(1), draws.unsqueeze(1), torch.tensor([0]))[0])

    radii = [radius(level) for level in levels]
    best = float(levels[radii.index(max(radii))])
    assert 0.2 < best < 0.8
    for level in found:
        assert type(level) is type(noise) and level.norm == noise.norm
        # A hundred draws a step make the slope noisy: the radius lost by that is what counts.
        reached = radius(torch.tensor(level.sigma))
        assert reached > 0.93 * max(radii)


class Unsure(Ball):
    """The same classes, and scores that are equally unsure everywhere."""

    def forward(self, x):
        return 0.1 * super().forward(x).sign()


def test_votes_find_the_level_that_certification_would_where_softmax_cannot():
    """σΦ⁻¹(p), p from the χ² of 16 coordinates, as far as 400 votes can tell: the best level is known exactly."""
    from scipy.special import chdtr, ndtri

    x = CENTRE.expand(2, 1, 4, 4).clone()

    def radius(level):
        return level * ndtri(np.minimum(chdtr(16, 4.0 / level**2), 1 - 0.5 / 400))

    best = radius(np.linspace(0.05, 0.8, 751)).max()
    for network in (Ball(), Unsure()):
        search = PerInputSigma(search="votes", draws=400, evaluations=8000)
        for level in search(network, Gaussian(0.2), x, streams(2)):
            assert radius(level.sigma) > best / 16 ** (1 / 19)  # 20 levels: the next one below the best
    (blind,) = PerInputSigma(search="grid", draws=400, evaluations=8000)(Unsure(), Gaussian(0.2), x[:1], streams(1))
    assert radius(blind.sigma) < 0.8 * best and blind.sigma > 0.35  # σ(2p − 1) is largest there


@pytest.mark.parametrize("noise", [Gaussian(0.2), GaussianGrid(0.2), Uniform(sigma=0.2)], ids=["plain", "grid", "l1"])
@pytest.mark.parametrize("search", ["ascent", "grid", "votes"])
def test_a_level_where_nothing_votes_for_the_class_is_never_chosen(noise, search):
    """Near the centre only small levels see class 0, and everything beyond them sees class 1: 0 votes are no trap."""
    x = torch.full((2, 1, 4, 4), 128 / 255)
    x[1] = 1.0
    found = PerInputSigma(search=search, draws=40, evaluations=800, steps=100, step_size=0.005, low=0.02, high=2.0)
    near, far = found(Ball(), noise, x, streams(2))
    assert near.sigma < 0.6 and far.sigma > near.sigma


def test_the_grid_takes_the_best_of_its_levels_within_the_bounds():
    x = CENTRE.expand(2, 1, 4, 4).clone()
    search = PerInputSigma(search="grid", draws=20, evaluations=400, low=0.1, high=0.5)
    for level in search(Ball(), Gaussian(0.2), x, streams(2)):
        assert 0.3 < level.sigma <= 0.5
    plain = PerInputSigma(search="grid", evaluations=10)(lambda x: Ball()(x).detach(), Gaussian(0.2), x, streams(2))
    assert len(plain) == 2  # no gradients needed


def test_levels_depend_on_the_stream_of_their_input_and_on_nothing_beside_it():
    x = torch.rand(3, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    search = PerInputSigma(steps=5, step_size=0.01)
    together = [level.sigma for level in search(Ball(), Gaussian(0.2), x, streams(3))]
    alone = [search(Ball(), Gaussian(0.2), x[i : i + 1], streams(3)[i : i + 1])[0].sigma for i in range(3)]
    assert together == pytest.approx(alone, rel=1e-6)
    other = [Stream(8, index, "test") for index in range(3)]
    assert [level.sigma for level in search(Ball(), Gaussian(0.2), x, other)] != pytest.approx(together, rel=1e-6)


def test_levels_stay_inside_their_bounds():
    x = CENTRE.expand(1, 1, 4, 4).clone()
    (level,) = PerInputSigma(steps=50, step_size=1.0, high=0.25)(Ball(), Gaussian(0.2), x, streams(1))
    assert 0.05 <= level.sigma <= 0.25


def test_a_step_in_lam_is_a_third_of_one_in_sigma():
    """λ = √3σ, so a·dr/dλ in λ is a/3·dr/dσ in σ (Alfarra et al. 2022, App. G: λ is what is climbed)."""
    x, noise = CENTRE.expand(2, 1, 4, 4).clone(), Uniform(lam=0.3)
    one, third = (
        PerInputSigma(steps=1, step_size=0.01, draws=50, steps_in=unit)(Ball(), noise, x, streams(2))
        for unit in ("sigma", "lam")
    )
    for long, short in zip(one, third, strict=True):
        assert long.sigma != noise.sigma
        assert short.sigma - noise.sigma == pytest.approx((long.sigma - noise.sigma) / 3, rel=1e-5)
        assert short.lam - 0.3 == pytest.approx((long.sigma - noise.sigma) / 3 * 3**0.5, rel=1e-5)
    with pytest.raises(OptionError, match="steps_in of per_input_sigma must be sigma for gaussian noise; got lam"):
        PerInputSigma(steps_in="lam").check(Gaussian(0.2))


def test_the_published_grid_ends_at_one_and_begins_a_step_above_nothing():
    """App. B: levels n/200, 2n/200, … 1, so 200 evaluations in all; here n = 10."""
    x, seen = CENTRE.expand(1, 1, 4, 4).clone(), []

    def watched(rows):
        seen.append(len(rows))
        return Ball()(rows)

    (level,) = PerInputSigma(search="grid", draws=10, low=0.0, high=1.0)(watched, Gaussian(0.25), x, streams(1))
    assert sum(seen) == 200 + 10  # and the class at the given level
    assert level.sigma * 20 == pytest.approx(round(level.sigma * 20)) and 0.05 <= level.sigma <= 1.0
    with pytest.raises(OptionError, match="low of per_input_sigma"):
        PerInputSigma(search="votes", draws=20, low=0.0)
    with pytest.raises(OptionError, match="low of per_input_sigma"):
        PerInputSigma(low=0.0)


@pytest.mark.parametrize("options", [
    {"steps": 0}, {"steps_in": "volts"}, {"high": 0.0, "search": "grid"},
    {"draws": 1.5}, {"step_size": 0.0}, {"step_size": float("nan")}, {"search": "random"},
    {"low": -1.0}, {"high": float("inf")}, {"low": 0.5, "high": 0.2}, {"evaluations": 0},
])  # fmt: skip
def test_bad_options_are_refused(options):
    with pytest.raises(OptionError, match="per_input_sigma"):
        PerInputSigma(**options)


def test_noises_without_a_level_and_starts_outside_the_bounds_are_refused():
    with pytest.raises(OptionError, match="must be gaussian or uniform; got discrete"):
        PerInputSigma().check(Discrete(keep=0.8))
    with pytest.raises(OptionError, match="within the bounds"):
        PerInputSigma(high=0.1).check(Gaussian(0.2))


@pytest.mark.parametrize("search", ["ascent", "grid", "votes"])
def test_a_search_looks_at_as_many_copies_as_it_says(search):
    part, seen = PerInputSigma(steps=7, draws=20, search=search, evaluations=100), []

    def network(x):
        seen.append(len(x))
        return Ball()(x)

    part(network, Gaussian(0.2), CENTRE.expand(3, 1, 4, 4).clone(), streams(3))
    assert sum(seen) == 3 * part.copies


@pytest.mark.parametrize("unit", [Gaussian(1.0), Uniform(sigma=1.0)], ids=["gaussian", "uniform"])
def test_copies_made_on_a_device_are_the_same_draws(unit):
    x, own = torch.rand(3, 1, 4, 4), [Stream(7, 2**64 - 1 - index, "test") for index in range(3)]
    here, there = (make(unit, 5, x, own) for make in (copies_here, copies_there))
    for number in (0, 4):
        assert here(number).shape == (5, 3, 1, 4, 4)
        assert torch.allclose(here(number), there(number), atol=1e-5)
    assert not torch.allclose(here(0).clone(), here(1))


@pytest.mark.parametrize("search", ["grid", "votes"])  # torch without CUDA has no gradients there, not even fake ones
def test_where_the_network_is_on_a_device_so_is_the_search(search):
    with watched_cuda() as guard:
        network = moved(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)))
        x, part, unit = torch.empty(3, 1, 4, 4, device=CUDA), PerInputSigma(20, draws=20, search=search), Gaussian(1.0)
        draw = copies_there(unit, part.draws, x, streams(3))
        draw(0)  # what noise needs of the host is kept
        with guard:
            noisy = draw(1)
        assert guard.made == {"cuda"} and noisy.shape == (20, 3, 1, 4, 4)
        found = part._best(network, Gaussian(0.2), unit, x, draw)
        assert found.device == torch.device(CUDA) and found.shape == (3,)
        assert device_of(network) == device_of(Module(network.eval())) == CUDA


def test_the_device_of_a_network_is_where_its_weights_are():
    network = Module(nn.Linear(4, 3).eval())
    both = DenoisedClassifier(Module(nn.Identity().eval()), network)
    assert {device_of(one) for one in (network, network.network, both, FixedShape(both, 8), lambda x: x)} == {"cpu"}
