"""Optimal weights: the quadratic programme exactly, then the covariances it is fed with."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ensemble_cases import inputs_of, linear_network
from scipy.optimize import minimize

from smoothcert.classifiers.module import Module
from smoothcert.contracts import Stream
from smoothcert.ensembles.holdout import HoldoutInputs
from smoothcert.ensembles.soft_vote import SoftVote
from smoothcert.ensembles.weights import gap, quadratic
from smoothcert.ensembles.weights.optimal import (
    FLOOR,
    MarginMoments,
    Optimal,
    by_kind,
    has_parameters,
    objective,
    perturbed,
)
from smoothcert.errors import DataError, ModelError, OptionError
from smoothcert.noise.gaussian import Gaussian


def covariance(rng, k, rank):
    root = rng.standard_normal((k, rank))
    return root @ root.T


def on_simplex(w):
    return abs(w.sum() - 1) < 1e-12 and (w >= 0).all()


@pytest.mark.parametrize("k", [1, 2, 3, 5, 12])
@pytest.mark.parametrize("rank", ["full", "two", "one"])
def test_the_solution_satisfies_its_optimality_conditions(k, rank):
    rng = np.random.default_rng(k)
    for _ in range(20):
        form = covariance(rng, k, {"full": k + 2, "two": 2, "one": 1}[rank])
        w = quadratic(2 * form)
        assert on_simplex(w) and w @ form @ w <= form.mean() + 1e-12
        # Convexity: no point of the simplex is better than this by more than the gap.
        assert gap(2 * form @ w, w) <= 1e-9 * np.trace(form)


def test_a_linear_term_is_minimised_too():
    rng = np.random.default_rng(7)
    for k in (2, 4, 6):
        form, linear = covariance(rng, k, k), rng.standard_normal(k)
        w = quadratic(form, linear)
        free = minimize(
            lambda v, form=form, linear=linear: v @ form @ v / 2 + linear @ v,
            np.full(k, 1 / k),
            bounds=[(0, 1)] * k,
            constraints={"type": "eq", "fun": lambda v: v.sum() - 1},
            options={"ftol": 1e-14},
        )
        assert w @ form @ w / 2 + linear @ w <= free.fun + 1e-9
        assert gap(form @ w + linear, w) < 1e-10


def closed_form(b, c, d):
    """E1: b, d the variances and c twice the covariance, all weighed by a and summed."""
    a_, b_ = b - c + d, c - 2 * d
    return 0.5 if a_ == 0 else float(np.clip(-b_ / (2 * a_), 0, 1))


def test_two_members_have_the_closed_form():
    rng = np.random.default_rng(1)
    for _ in range(200):
        form = covariance(rng, 2, 2)
        first = closed_form(form[0, 0], 2 * form[0, 1], form[1, 1])
        assert quadratic(2 * form) == pytest.approx([first, 1 - first], abs=1e-9)


def test_members_that_cannot_be_told_apart_share_their_weight():
    assert quadratic(np.zeros((4, 4))) == pytest.approx([0.25] * 4)
    assert quadratic(np.ones((3, 3))) == pytest.approx([1 / 3] * 3)
    twins = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert quadratic(twins) == pytest.approx([0.25, 0.25, 0.5])


def test_the_objective_weighs_and_drops_as_the_formula_says():
    mean = np.array([[[0.5, 0.4], [0.2, -0.1]], [[0.001, 0.3], [0.9, 0.8]]])  # [inputs, rivals, members]
    spread = np.arange(1, 17, dtype=float).reshape(2, 2, 2, 2)
    form, pairs = objective(MarginMoments(mean, spread))
    expected = (spread[0, 0] / 0.4**2 + spread[1, 0] / FLOOR**2 + spread[1, 1] / 0.8**2) / 2
    assert pairs == 3
    assert form == pytest.approx(expected)


def test_covariances_of_the_members_are_those_of_their_margins():
    inputs = inputs_of(count=3, dim=2, labels=[0, 1, 1])
    members = [Module(linear_network([[1.0, 0.0], [0.0, 0.0]])), Module(linear_network([[0.0, 1.0], [1.0, 0.0]]))]
    draws, seed, sigma = 6, 5, 0.3
    fitted = Optimal(perturbations=1, draws=draws, share=0.0).fit(members, HoldoutInputs(inputs, Gaussian(sigma), seed))

    total = np.zeros((2, 2))
    for position in range(3):
        x = torch.empty(draws, 2)
        Gaussian(sigma).fill(x, inputs.tensor(position), Stream(seed, int(inputs.indices[position]), "weights"), 0)
        label = int(inputs.labels[position])
        shares = [member(x).double().softmax(1) for member in members]
        margins = torch.stack([part[:, label] - part[:, 1 - label] for part in shares]).numpy()
        total += np.cov(margins, ddof=0)
    found = [[fitted.report[f"covariance_{min(i, j)}_{max(i, j)}"] for j in range(2)] for i in range(2)]
    assert np.array(found) == pytest.approx(total / 3, abs=1e-12)


def test_weights_beat_equal_ones_in_their_own_objective_and_leave_the_members_alone():
    inputs = inputs_of(count=20, dim=4, labels=[0, 1] * 10)
    members = [
        Module(linear_network(np.random.default_rng(s).standard_normal((2, 4)) + np.array([[2], [0]])))
        for s in range(4)
    ]
    before = [{k: v.clone() for k, v in member.network.state_dict().items()} for member in members]
    told = []
    optimal = Optimal(perturbations=3, draws=4, size=0.1)
    fitted = optimal.fit(members, HoldoutInputs(inputs, Gaussian(0.5), 0, told.append))
    assert fitted.report["variance_bound"] <= fitted.report["variance_bound_uniform"]
    assert fitted.report["gap"] <= 1e-9 * fitted.report["variance_bound_uniform"]
    assert sum(fitted.weights) == pytest.approx(1) and min(fitted.weights) >= 0
    assert fitted.report["members_perturbed"] == 4
    assert sum(told) == optimal.work(4, 20)
    for member, state in zip(members, before, strict=True):
        assert all(torch.equal(value, state[name]) for name, value in member.network.state_dict().items())
    assert fitted == optimal.fit(members, HoldoutInputs(inputs, Gaussian(0.5), 0, told.append))
    assert fitted.weights != optimal.fit(members, HoldoutInputs(inputs, Gaussian(0.5), 1, told.append)).weights


def test_perturbing_moves_the_asked_share_by_the_asked_size():
    member = Module(torch.nn.Linear(400, 100).eval())
    moved = perturbed(member, 0.3, 0.01, Stream(0, 0, "p"), 0)
    step = (moved.network.weight - member.network.weight).detach().double().ravel()
    n, changed = step.numel(), step[step != 0]
    # Four standard errors of a share and of a standard deviation.
    assert len(changed) / n == pytest.approx(0.3, abs=4 * (0.3 * 0.7 / n) ** 0.5)
    assert float(changed.std()) == pytest.approx(0.01, rel=4 / (2 * len(changed)) ** 0.5)
    again, other = (
        perturbed(member, 0.3, 0.01, Stream(0, 0, "p"), 0),
        perturbed(member, 0.3, 0.01, Stream(0, 0, "p"), 1),
    )
    assert torch.equal(again.network.weight, moved.network.weight)
    assert not torch.equal(other.network.weight, moved.network.weight)


def test_members_inside_votes_move_and_callables_do_not():
    network = Module(linear_network([[1.0, 0.0], [0.0, 1.0]]))
    vote = SoftVote((network, network))
    moved = perturbed(vote, 1.0, 1.0, Stream(0, 0, "p"), 0)
    first, second = (part.network.weight for part in moved.members)
    assert not torch.equal(first, network.network.weight) and not torch.equal(first, second)

    def callable_member(x):
        return x

    assert perturbed(callable_member, 1.0, 1.0, Stream(0, 0, "p"), 0) is callable_member
    assert has_parameters(vote) and not has_parameters(callable_member)
    inputs = inputs_of(count=4, dim=2, labels=[0, 1, 0, 1], values=[[0.9, 0.1], [0.1, 0.9]] * 2)
    report = (
        Optimal(2, 3).fit([network, callable_member], HoldoutInputs(inputs, Gaussian(0.1), 0, lambda rows: None)).report
    )
    assert report["members_perturbed"] == 1


def test_covariances_by_kind():
    matrix = np.array([[4.0, 1.0, 2.0], [1.0, 4.0, 3.0], [2.0, 3.0, 16.0]])
    report = {f"covariance_{i}_{j}": matrix[i, j] for i in range(3) for j in range(i, 3)}
    found = by_kind(report, ["a", "a", "b"])
    assert found["itself"] == pytest.approx((8.0, 1.0))
    assert found["another of its kind"] == pytest.approx((1.0, 1 / 4))
    assert found["one of another kind"] == pytest.approx((2.5, (2 / 8 + 3 / 8) / 2))
    assert by_kind(report, ["a", "a", "a"]).keys() == {"itself", "another of its kind"}


def test_bad_input_is_refused_in_one_line():
    inputs = inputs_of(count=2, dim=2, labels=[0, 0], values=[[0.0, 1.0]] * 2)
    wrong = Module(linear_network([[5.0, 0.0], [0.0, 5.0]]))
    with pytest.raises(
        DataError, match="hold-out inputs of optimal must include one that all members favour; got none"
    ):
        Optimal(2, 2).fit([wrong, wrong], HoldoutInputs(inputs, Gaussian(0.01), 0, lambda rows: None))
    with pytest.raises(ModelError, match="members of optimal weights must be at least 1; got 0"):
        Optimal().fit([], HoldoutInputs(inputs, Gaussian(0.1), 0, lambda rows: None))
    for options, text in (
        ({"perturbations": 0}, "perturbations of optimal must be a positive whole number; got 0"),
        ({"draws": 1, "perturbations": 1}, "draws of optimal must be at least 2 where perturbations is 1; got 1"),
        ({"share": 1.5}, "share of optimal must be from 0 to 1; got 1.5"),
        ({"size": -1.0}, "size of optimal must be a number of at least 0; got -1.0"),
    ):
        with pytest.raises(OptionError, match=text):
            Optimal(**options)
