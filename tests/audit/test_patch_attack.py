"""Patches inside a ball, and the attack with them: points are where they must be, and what a patch can win it wins."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from smoothcert.audit.certificates import Certified, check_attack, votes
from smoothcert.audit.patches import stick
from smoothcert.audit.search import Ball, Force, Target, worst
from smoothcert.contracts import EVERY, Source, Stream
from smoothcert.noise import HIDDEN
from smoothcert.noise.band import Band
from smoothcert.noise.block import Block
from smoothcert.sampling.exhaustive import Exhaustive
from smoothcert.smoothed import Smoothed

IMAGE = (1, 6, 12)


class Bright(nn.Module):
    """Class 1 where a pixel that is shown is bright: a patch turns every copy that sees it."""

    def forward(self, x):
        brightest = torch.where(x == HIDDEN, 0.0, x).flatten(1).amax(dim=1)
        return torch.stack([0.5 - brightest, brightest - 0.5], dim=1) * 5


def point(shape=IMAGE, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("patch", [(1, 1), (1, 3), (2, 1)])
@pytest.mark.parametrize("radius", [1.0, 2.0, 4.0])
def test_points_of_a_ball_differ_in_one_patch(patch, radius):
    x, ball = point((3, 6, 12)), Ball("patch", radius, closed=True, patch=patch)
    moved = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    for y in (ball.rim(x, moved), ball.put(x, ball.steepest(moved, x)), ball.put(x, 0.1 * moved)):
        changed = (y != x).any(dim=0).nonzero()
        rows, columns = (changed.max(dim=0).values - changed.min(dim=0).values + 1).tolist()
        assert rows <= radius * patch[0] and columns <= radius * patch[1] and ball.holds(x, y)
        assert float(y.min()) >= 0 and float(y.max()) <= 1 and ball.distance(x, y) == radius
    assert ball.distance(x, x) == 0 and not Ball("patch", radius - 1, closed=True, patch=patch).holds(x, y)


def test_a_ball_of_radius_0_is_the_input():
    x, ball = point(), Ball.of(Band(2), 0.0, exact=True)
    assert torch.equal(ball.put(x, torch.ones(IMAGE)), x) and ball == Ball("patch", 0.0, closed=True)
    assert Ball.of(Block(2, patch=(3, 7)), 2.0) == Ball("patch", 2.0, closed=True, patch=(3, 7))


def test_a_patch_goes_where_it_moves_most():
    x = torch.full(IMAGE, 0.5)
    moved = torch.zeros(IMAGE)
    moved[0, 2:4, 7:9] = 1.0
    y = Ball("patch", 2.0, closed=True).put(x, moved)
    assert (y != x).nonzero()[:, 1:].tolist() == [[2, 7], [2, 8], [3, 7], [3, 8]]


def dark(bright, noise):
    """An image of which so many far columns are bright, with what is certified of it."""
    x = torch.full(IMAGE, 0.2)
    x[:, :, :bright] = 0.9
    return x, Smoothed(Bright().eval(), noise, progress=False).certify(x, sampling=Exhaustive())


@pytest.mark.parametrize("slopes", [True, False])
@pytest.mark.parametrize("noise", [Band(1, image=(6, 12)), Band(2, image=(6, 12)), Block(2, image=(6, 12))], ids=str)
def test_nothing_is_found_inside_a_certificate_and_a_pixel_more_is(noise, slopes):
    network = Bright().eval()
    force = Force(network if slopes else None, 4, 16, 0)
    found = [dark(bright, noise) for bright in range(4)]
    source = Source(network, noise)

    def claims(more):
        return [
            Certified(i, x, one.label, one.radius + more, 0.0, source, None)
            for i, (x, one) in enumerate(found)
            if one.label == 0 and one.radius > 0
        ]

    assert len(claims(0)) >= 2
    honest = check_attack(claims(0), force, 0.001, lambda: None)
    assert honest.held and honest.trials == len(claims(0))
    bold = check_attack(claims(2), force, 0.001, lambda: None)
    assert not bold.held and "of all cases say 1, not 0" in bold.violations[0]


def test_climbing_turns_every_copy_that_sees_the_patch():
    noise, network, x = Band(2, image=(6, 12)), Bright(), torch.full(IMAGE, 0.2)
    target = Target(Source(network, noise), 0, x, 0, Ball.of(noise, 3.0, exact=True))
    points = stick(target, network, Force(network, 4, 16, 0))
    assert len(points) == 18 and all(target.ball.holds(x, y) for y in points)
    seen = [votes(target.source, y, Stream(0, 0, EVERY), noise.cases, 0) for y in points]
    assert all(found == [12 - noise.moved(3), noise.moved(3)] for found in seen)
    assert target.ball.holds(x, worst(target, [], Force(network, 4, 16, 0)))


def test_a_network_without_slopes_is_left_where_it_is():
    noise, x = Band(2, image=(6, 12)), torch.full(IMAGE, 0.2)
    target = Target(Source(lambda x: torch.zeros(len(x), 2), noise), 0, x, 0, Ball.of(noise, 2.0, exact=True))
    assert all(torch.equal(y, x) for y in stick(target, lambda x: torch.zeros(len(x), 2), Force(None, 4, 16, 0)))
