"""Weights of scores with any sign: the minimum, what cannot be fitted, and the vote they make."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ensemble_cases import inputs_of, linear_network

from smoothcert.classifiers import wrap
from smoothcert.ensembles.holdout import HoldoutInputs
from smoothcert.ensembles.spec import Ensemble
from smoothcert.ensembles.weights.signed import Signed, loss, newton
from smoothcert.errors import DataError, OptionError
from smoothcert.noise.gaussian import Gaussian


def gaps_of(rng, rows, members, classes, truth):
    """Gaps whose labels are drawn from softmax(Σ w f): the minimum is near w."""
    scores = rng.normal(size=(rows, members, classes))
    shares = np.exp(np.einsum("rmc,m->rc", scores, truth))
    labels = (rng.random(rows)[:, None] > (shares / shares.sum(1, keepdims=True)).cumsum(1)).sum(1)
    return scores - scores[np.arange(rows), :, labels][:, :, None]


def test_newton_finds_the_minimum_also_with_negative_weights():
    from scipy.optimize import minimize

    truth = np.array([1.2, -0.4, 0.6])
    gaps = gaps_of(np.random.default_rng(1), 4000, 3, 5, truth)
    found = newton(gaps)
    other = minimize(
        lambda w: loss(gaps, w), np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13}
    )
    assert loss(gaps, found) <= other.fun + 1e-10
    assert np.abs(found - other.x).max() < 1e-4 and found[1] < 0
    # A maximum-likelihood estimate from 4000 rows: its error is 1/√(rows · information), below 0.05 here.
    assert np.abs(found - truth).max() < 0.15


def test_members_alike_share_their_weight():
    gaps = gaps_of(np.random.default_rng(2), 500, 1, 4, np.array([1.0]))
    both = newton(np.concatenate([gaps, gaps], axis=1))
    assert both == pytest.approx([newton(gaps)[0] / 2] * 2, rel=1e-6)


def test_fitted_weights_beat_equal_ones_on_the_inputs_of_the_fit():
    rng = np.random.default_rng(3)
    x = rng.random((60, 4))
    good = rng.normal(size=(3, 4))
    members = [linear_network(10 * good), linear_network(10 * rng.normal(size=(3, 4)))]
    labels = (x @ good.T).argmax(1)
    holdout = HoldoutInputs(inputs_of(60, 4, labels, x), Gaussian(0.1), 0)
    fitted = Signed(draws=3).fit([wrap(member) for member in members], holdout)
    assert sum(fitted.weights) == pytest.approx(1) and fitted.weights[0] > abs(fitted.weights[1])
    assert fitted.report["loss"] <= fitted.report["loss_uniform"] + 1e-12 and 0 <= fitted.report["gap"] < 1e-9
    assert fitted.report["rows"] == 180 and fitted.report["sum"] > 0
    vote = Ensemble(members, weights=list(fitted.weights))
    z = torch.rand(7, 4)
    wanted = sum(weight * member(z) for weight, member in zip(fitted.weights, members, strict=True))
    assert torch.allclose(vote(z), wanted, atol=1e-4)


def test_members_that_are_always_wrong_get_no_weights():
    rng = np.random.default_rng(4)
    x, good = rng.random((40, 4)), rng.normal(size=(2, 4))
    holdout = HoldoutInputs(inputs_of(40, 4, (x @ good.T).argmin(1), x), Gaussian(0.05), 0)
    with pytest.raises(DataError, match="signed weights must have a sum above 0"):
        Signed().fit([wrap(linear_network(5 * good))], holdout)
    with pytest.raises(OptionError, match="draws of signed"):
        Signed(draws=0)
