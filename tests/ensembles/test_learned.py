"""Learned weights: the mixture's minimum exactly, then both ways to it on members under noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ensemble_cases import inputs_of

from smoothcert.ensembles.holdout import HoldoutInputs
from smoothcert.ensembles.weights import mixture, mixture_gap, mixture_loss
from smoothcert.ensembles.weights.learned import Learned
from smoothcert.errors import DataError, ModelError, OptionError
from smoothcert.noise.gaussian import Gaussian


def quiet(rows):
    return None


@pytest.mark.parametrize("k", [1, 2, 4, 9])
def test_the_mixture_is_solved_to_its_optimality_conditions(k):
    rng = np.random.default_rng(k)
    for sharpness in (0.3, 3.0):
        q = np.exp(sharpness * rng.standard_normal((400, k)))
        q /= 1 + q
        w = mixture(q)
        assert abs(w.sum() - 1) < 1e-12 and (w >= 0).all()
        assert mixture_gap(q, w) <= 1e-9
        corners = [*np.eye(k), np.full(k, 1 / k), *rng.dirichlet(np.ones(k), 50)]
        assert mixture_loss(q, w) <= min(mixture_loss(q, other) for other in corners) + 1e-9


def test_two_members_that_are_right_by_turns_get_weights_by_how_often():
    # −(3 log w₁ + log w₂)/4 is least at w = (¾, ¼), whatever the likelihood of being right.
    q = np.array([[0.8, 1e-30]] * 3 + [[1e-30, 0.8]])
    assert mixture(q) == pytest.approx([0.75, 0.25], abs=1e-9)


def test_equal_members_get_equal_weights_and_a_useless_one_none():
    rng = np.random.default_rng(0)
    good = rng.uniform(0.5, 0.9, 500)
    w = mixture(np.stack([good, good, np.full(500, 0.1)], axis=1))
    assert w == pytest.approx([0.5, 0.5, 0.0], abs=1e-8)


def sharp(column, scale=8.0):
    """Looks at one coordinate: class 1 above a half."""
    return lambda x: torch.stack([torch.zeros(len(x)), scale * (x[:, column] - 0.5)], dim=1)


def case():
    """Members that look at coordinates which tell the label well, less well, and not at all."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, 300)
    told = np.where(labels[:, None] == 1, 0.8, 0.2) + rng.normal(0, [[0.15, 0.3, 1.0]], (300, 3))
    told[:, 2] = rng.uniform(0, 1, 300)
    return inputs_of(300, 3, labels, np.clip(told, 0, 1)), [sharp(0), sharp(1), sharp(2)]


def test_both_ways_agree_and_the_useless_member_gets_nothing():
    inputs, members = case()
    told = []
    convex = Learned(draws=10)
    exact = convex.fit(members, HoldoutInputs(inputs, Gaussian(0.25), 0, told.append))
    assert sum(told) == convex.work(3, 300) == 3 * 300 * 10
    gradient = Learned("gradient", steps=150, batch=80, rate=0.3)
    steps = gradient.fit(members, HoldoutInputs(inputs, Gaussian(0.25), 0, quiet))
    assert exact.report["gap"] < 1e-9
    assert exact.report["loss"] <= min(exact.report["loss_uniform"], exact.report["loss_best_member"])
    assert exact.weights[2] < 0.01 and steps.weights[2] < 0.02
    # The two have different noise: what is left of the loss is the test, then the weights themselves.
    assert steps.report["gap"] < 0.02 * (steps.report["loss_uniform"] - steps.report["loss"])
    assert steps.weights == pytest.approx(exact.weights, abs=0.05)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    inputs, members = case()
    for way in (Learned(draws=2), Learned("gradient", steps=20, batch=50)):
        first = way.fit(members, HoldoutInputs(inputs, Gaussian(0.25), 1, quiet))
        assert first == way.fit(members, HoldoutInputs(inputs, Gaussian(0.25), 1, quiet))
        assert first.weights != way.fit(members, HoldoutInputs(inputs, Gaussian(0.25), 2, quiet)).weights
        assert sum(first.weights) == pytest.approx(1)


def test_one_member_has_all_the_weight():
    inputs, members = case()
    assert Learned(draws=1).fit(members[:1], HoldoutInputs(inputs, Gaussian(0.25), 0, quiet)).weights == pytest.approx(
        (1.0,)
    )


def test_bad_input_is_refused_in_one_line():
    inputs, members = case()
    for options, text in (
        ({"method": "newton"}, "method of learned must be one of convex, gradient; got 'newton'"),
        ({"draws": 0}, "draws of learned must be a positive whole number; got 0"),
        ({"rate": 0.0}, "rate of learned must be a positive number; got 0.0"),
    ):
        with pytest.raises(OptionError, match=text):
            Learned(**options)
    with pytest.raises(ModelError, match="members of learned weights must be at least 1; got 0"):
        Learned().fit([], HoldoutInputs(inputs, Gaussian(0.25), 0, quiet))
    with pytest.raises(ModelError, match=r"must have the same classes; got \[2, 3\]"):
        Learned().fit([members[0], lambda x: x], HoldoutInputs(inputs, Gaussian(0.25), 0, quiet))
    with pytest.raises(DataError, match="must be classes of the members, below 2; got 2"):
        Learned().fit(members, HoldoutInputs(inputs_of(3, 3, [0, 1, 2]), Gaussian(0.25), 0, quiet))
