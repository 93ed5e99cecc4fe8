"""Attacks on linear classifiers, whose true radius is known: a radius 10 % too large is found, a true one never."""

from __future__ import annotations

import dataclasses

import linear
import pytest
import torch
from torch import nn

from smoothcert.audit.certificates import Certified, check_attack, check_fresh, judged
from smoothcert.audit.search import Ball, Force, Target, falling, search
from smoothcert.classifiers import wrap
from smoothcert.contracts import Evidence, Source, Stream
from smoothcert.noise.discrete import Discrete
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_grid import GaussianGrid
from smoothcert.noise.splitting import Splitting
from smoothcert.noise.uniform import Uniform

BLACK = Force(None, 5, 64, 0)


def network():
    layer = nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.stack([-linear.WEIGHT, linear.WEIGHT]))
        layer.bias.copy_(torch.tensor([-linear.BIAS, linear.BIAS]))
    return layer.eval()


def claims(stretch, number=12, alpha=0.001):
    """Certificates at the true radius, times a factor; of inputs that have one worth attacking."""
    x = torch.rand(400, 4, generator=torch.Generator().manual_seed(0))
    radii = linear.margin(x)
    chosen = [i for i in range(len(x)) if abs(radii[i]) > 0.25][:number]
    source = Source(wrap(linear.score), Gaussian(0.25))
    return [Certified(i, x[i], int(radii[i] > 0), stretch * abs(float(radii[i])), alpha, source, None) for i in chosen]


def nothing():
    return None


@pytest.mark.parametrize("slopes", [True, False])
def test_radii_ten_percent_too_large_are_found_and_true_ones_never(slopes):
    force = Force(network(), 5, 64, 0) if slopes else BLACK
    honest = check_attack(claims(1.0), force, 0.001, nothing)
    assert honest.held and honest.excused == () and honest.trials == 12
    wrong = check_attack(claims(1.1), force, 0.001, nothing)
    assert not wrong.held and len(wrong.violations) >= 10
    assert ("by search and 5 steps of ascent" in wrong.tried) == slopes


def test_one_wrong_certificate_among_many_is_told_and_excused_unless_nothing_was_left_to_chance():
    mixed = [claims(1.3, 1)[0], *claims(1.0)[1:]]
    told = check_attack(mixed, BLACK, 0.001, nothing)
    assert told.held and len(told.excused) == 1 and told.excused[0].startswith(f"input {mixed[0].index}: ")
    assert check_attack(mixed[:1], BLACK, 0.02, nothing).violations != ()


def test_gradient_and_noise_agree_on_the_way():
    claim = claims(1.0)[0]
    target = Target(claim.source, 0, claim.x, claim.label, Ball.of(claim.source.noise, claim.radius))
    way = falling(target, claim.x, Stream(0, 0, "slope"))
    wanted = linear.WEIGHT * (1 if claim.label == 0 else -1)
    assert float(torch.cosine_similarity(way, wanted, dim=0)) > 0.9
    y = search(target, [], 0)
    assert target.ball.holds(claim.x, y)
    assert float(torch.cosine_similarity(y - claim.x, wanted, dim=0)) > 0.95


@pytest.mark.parametrize(
    ("noise", "norm"),
    [(GaussianGrid(0.25), 2), (Uniform(lam=1.0), 1)],
)
def test_other_balls_are_searched_as_well(noise, norm):
    """On the grid the true radius is the same up to a step; in l1 it is the margin over the largest weight."""
    x = (torch.rand(60, 4, generator=torch.Generator().manual_seed(0)) * 255).round() / 255
    side = linear.margin(x) * linear.WEIGHT.double().norm()
    true = side.abs() / (linear.WEIGHT.double().norm() if norm == 2 else linear.WEIGHT.abs().max())
    source = Source(wrap(linear.score), noise)
    chosen = [i for i in range(len(x)) if true[i] > 0.25][:6]

    def made(stretch):
        return [Certified(i, x[i], int(side[i] > 0), stretch * float(true[i]), 0.001, source, None) for i in chosen]

    assert check_attack(made(1.0), BLACK, 0.001, nothing).excused == ()
    assert len(check_attack(made(1.3), BLACK, 0.001, nothing).violations) >= 4


def test_every_case_is_counted_where_nothing_was_left_to_chance():
    """A classifier of one pixel under splitting noise: one step too far is one violation, alpha or not."""

    def first(x):
        return torch.stack([0.5 - x[:, 0], x[:, 0] - 0.5], dim=1)

    noise = Splitting(lam=16 / 255)
    source = Source(wrap(first), noise)
    x = torch.tensor([150 / 255, 0.0])
    true = next(s for s in range(150) if judged_label(source, 150 - s) == 0) - 1
    for steps, held in ((true, True), (true + 1, False)):
        claim = Certified(0, x, 1, steps / 255, 0.0, source, Evidence(1, ((0, 32),), 32, 1.0, 0.0, 0.0))
        assert check_attack([claim], BLACK, 0.001, nothing).held is held


def judged_label(source, steps):
    every = torch.zeros(source.noise.cases, 2)
    source.noise.fill(every, torch.tensor([steps / 255, 0.0]), Stream(0, 0, "every"), 0)
    return int(source.classifier(every).argmax(1).bincount(minlength=2).argmax())


def test_few_switched_pixels_are_found():
    """A majority of seven pixels under noise that keeps four of five: two switched ones leave it, three do not."""

    def majority(x):
        return torch.stack([3.5 - x.sum(dim=1), x.sum(dim=1) - 3.5], dim=1)

    source = Source(wrap(majority), Discrete(keep=0.8, values=2))
    x = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    for radius, held in ((2.0, True), (3.0, False)):
        some = [Certified(i, x, 1, radius, 0.001, source, None) for i in range(4)]
        assert check_attack(some, BLACK, 0.001, nothing).held is held


def test_who_is_second_counts_only_where_the_certificate_says_so():
    """With 45 % of votes against 30 and 25 the label is not lost, but half of the votes is."""
    z = torch.special.ndtri(torch.tensor([0.45, 0.75], dtype=torch.float64)).float()

    def three(x):
        place = torch.bucketize(x[:, 0], z)
        return nn.functional.one_hot(place, 3).float()

    source, x = Source(wrap(three), Gaussian(1.0)), torch.zeros(1)
    evidence = Evidence(0, ((60, 25, 15),), 100, 0.4, 0.35, 0.001)
    by_half = Certified(0, x, 0, 0.1, 0.001, source, None)
    by_rival = Certified(0, x, 0, 0.1, 0.001, source, evidence)
    assert by_half.by_half and not by_rival.by_half and by_rival.least == 0.4
    assert judged(by_half, x, 1e-5, 0) is not None and judged(by_rival, x, 1e-5, 0) is None


def test_fresh_draws_stand_by_true_certificates_and_against_others():
    """The least favourable honest case: every radius is exactly what the probability allows."""
    honest = check_fresh(claims(1.0, 40), 1000, 0.001, 0, nothing)
    assert honest.held and honest.excused == () and honest.trials == 40
    wrong = check_fresh(claims(1.5, 40), 1000, 0.001, 0, nothing)
    assert len(wrong.violations) > 20


def test_invented_votes_are_named_one_by_one():
    claim, *rest = claims(1.0, 10)
    votes = tuple(1000 if label == claim.label else 0 for label in range(2))
    invented = Evidence(claim.label, (votes,), 1000, 0.99, 0.01, 0.001)
    p = float(torch.special.ndtr(torch.tensor(claim.radius / 0.25)))
    true = Evidence(
        claim.label, ((1000 - round(1000 * p), round(1000 * p))[:: 1 if claim.label else -1],), 1000, p, 1 - p, 0.001
    )
    assert check_fresh([dataclasses.replace(claim, evidence=true), *rest], 1000, 0.001, 0, nothing).held
    found = check_fresh([dataclasses.replace(claim, evidence=invented), *rest], 1000, 0.001, 0, nothing)
    assert len(found.violations) == 1 and "stored votes are for" in found.violations[0]
