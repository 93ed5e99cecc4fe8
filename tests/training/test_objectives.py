"""Losses against finite differences, against each other in special cases, and against what they claim."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from smoothcert import catalog
from smoothcert.contracts import Batch
from smoothcert.errors import OptionError
from smoothcert.noise import gaussian as noises
from smoothcert.noise.uniform import Uniform
from smoothcert.training import Settings, setup
from smoothcert.training.noisy import ddn, evaluating, fresh, pgd, scores, smoothed_loss
from smoothcert.training.objectives import smoothmix
from smoothcert.training.objectives.advmacer import Advmacer
from smoothcert.training.objectives.consistency import Consistency
from smoothcert.training.objectives.gaussian import GaussianObjective
from smoothcert.training.objectives.macer import Macer, quantile_gap
from smoothcert.training.objectives.smoothadv import Smoothadv
from smoothcert.training.objectives.smoothmix import Smoothmix, mixed_labels

SIGMAS = {"one for all": torch.full((6,), 0.3), "per example": torch.tensor([0.05, 0.1, 0.2, 0.4, 0.8, 1.6])}


def tiny(seed=0, classes=3):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, classes)).double()


def batch(sigma=SIGMAS["one for all"], epoch=20.0, seed=1, noise=noises.Gaussian(0.3)):  # noqa: B008
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(6, 1, 2, 2, generator=generator, dtype=torch.float64)
    return Batch(x, torch.tensor([0, 1, 2, 0, 1, 2]), sigma.double(), generator, epoch, noise)


def total(objective, network, sigma):
    return torch.stack(list(objective(network, batch(sigma)).values())).sum()


def relative_error(value, network):
    """Between the gradient of value(network) along a random direction and the central difference."""
    parameters = list(network.parameters())
    generator = torch.Generator().manual_seed(9)
    direction = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parameters]
    slope = sum((g * d).sum() for g, d in zip(torch.autograd.grad(value(), parameters), direction, strict=True))
    step, values = 1e-6, []
    for sign in (1, -1):
        with torch.no_grad():
            for p, d in zip(parameters, direction, strict=True):
                p += sign * step * d
        values.append(float(value().detach()))
        with torch.no_grad():
            for p, d in zip(parameters, direction, strict=True):
                p -= sign * step * d
    difference = (values[0] - values[1]) / (2 * step)
    return abs(float(slope) - difference) / max(abs(difference), 1e-3)


@pytest.mark.parametrize("sigma", SIGMAS.values(), ids=SIGMAS)
@pytest.mark.parametrize("objective", [
    GaussianObjective(3), GaussianObjective(2, smoothing=0.3), Smoothadv(steps=0, copies=3),
    Macer(copies=3, beta=2.0), Macer(copies=1, beta=16.0), Consistency(copies=3),
    Advmacer(steps=0, copies=3, beta=2.0),
], ids=lambda o: f"{type(o).__name__}{o.copies}")  # fmt: skip
def test_gradients_are_those_of_finite_differences(objective, sigma):
    network = tiny()
    assert relative_error(lambda: total(objective, network, sigma), network) < 1e-5


def test_smoothmix_gradient_with_its_labels_held(monkeypatch):
    network, objective = tiny(), Smoothmix(copies=3, step_size=0.0, mixing=2.0)
    labels = torch.full((6, 3), 1 / 3, dtype=torch.float64)
    held = (labels, torch.tensor([True, False, True, True, True, True]))
    monkeypatch.setattr(smoothmix, "mixed_labels", lambda *_: held)
    assert relative_error(lambda: total(objective, network, SIGMAS["one for all"]), network) < 1e-5


@pytest.mark.parametrize("name", [n for n in catalog.names("training.objectives") if n not in ("denoise", "stability")])
def test_every_objective_learns_with_a_sigma_per_example(name):
    objective, network = catalog.build("training.objectives", name), tiny()
    terms = objective(network, batch(SIGMAS["per example"]))
    loss = torch.stack(list(terms.values())).sum()
    loss.backward()
    assert all(torch.isfinite(p.grad).all() and p.grad.abs().sum() > 0 for p in network.parameters())
    assert network.training  # an attack leaves the mode as it was


@pytest.mark.parametrize("kind", [noises.Gaussian, Uniform])
def test_macers_radius_term_is_the_radius_of_the_noise(kind):
    network, sigma = tiny(3), float(SIGMAS["one for all"][0])
    noise = kind(sigma=sigma)
    given = batch(noise=noise)
    objective = Macer(copies=4, strength=7.0, hinge=20.0, beta=1.0)
    answers = scores(network, fresh(batch(noise=noise), 4)(given.x))
    shares = answers.softmax(-1).mean(0)
    top = shares.gather(-1, given.y[:, None]).squeeze(-1)
    second = shares.scatter(-1, given.y[:, None], 0.0).amax(-1)
    correct = top > second
    assert 0 < int(correct.sum()) < 6
    radius = noise.radius(top, second, 4)
    expected = 7.0 * ((sigma / 2 * 20.0 - radius) * correct).mean()
    found = objective(network, batch(noise=noise))["radius"]
    assert float(found.detach()) == pytest.approx(float(expected.detach()), rel=1e-10)


def test_quantiles_near_certainty_keep_their_gradient():
    # Φ⁻¹(p) with 1 − p = 1e-30 is −Φ⁻¹(1e-30) = 11.46…; in float32, or by subtracting from 1, it would be infinite.
    answers = torch.tensor([[[0.0, -69.07755279, -90.0]]], requires_grad=True, dtype=torch.float64)
    gap, correct = quantile_gap(answers, torch.tensor([0]))
    (gradient,) = torch.autograd.grad(gap.sum(), answers)
    assert bool(correct) and float(gap) == pytest.approx(2 * 11.4640, abs=1e-3)
    assert torch.isfinite(gradient).all() and float(gradient[0, 0, 0]) > 0.1
    certain, _ = quantile_gap(torch.tensor([[[0.0, -1e4, -1e4]]], requires_grad=True), torch.tensor([0]))
    assert torch.isfinite(certain).all()


def test_a_surely_wrong_example_does_not_break_the_loss():
    answers = torch.tensor([[[0.0, 300.0, 0.0]], [[0.0, 300.0, 0.0]]], requires_grad=True)
    noise = noises.Gaussian(0.25)
    given = Batch(torch.zeros(1, 4), torch.tensor([0]), torch.tensor([0.25]), torch.Generator(), 0.0, noise)
    terms = Macer(copies=2).terms(answers, given)
    torch.stack(list(terms.values())).sum().backward()
    assert float(terms["radius"].detach()) == 0.0 and float(terms["cross_entropy"].detach()) == pytest.approx(300)
    assert torch.isfinite(answers.grad).all()


def test_special_cases_are_the_simpler_loss():
    def terms(objective):
        return {name: float(value) for name, value in objective(tiny(), batch()).items()}

    assert terms(Advmacer(epsilon=0.0, copies=4)) == pytest.approx(terms(Macer(copies=4)))
    assert terms(Smoothadv(steps=0, copies=4)) == pytest.approx(terms(GaussianObjective(4)))
    plain = terms(Macer(copies=4, strength=0.0))
    given = batch()
    answers = scores(tiny(), fresh(given, 4)(given.x))
    probability = answers.softmax(-1).mean(0).gather(-1, given.y[:, None])
    assert plain["radius"] == 0 and plain["cross_entropy"] == pytest.approx(float(-probability.log().mean()))
    one = terms(Consistency(copies=1, entropy=0.0))
    assert (
        one["consistency"] == pytest.approx(0, abs=1e-12)
        and one["cross_entropy"] == terms(GaussianObjective(1))["cross_entropy"]
    )


def test_consistency_is_nothing_for_a_network_that_ignores_the_noise():
    class Constant(nn.Module):
        def forward(self, x):
            return torch.tensor([1.0, 2.0, 3.0], dtype=x.dtype).expand(len(x), 3)

    terms = Consistency(copies=4)(Constant(), batch())
    assert float(terms["consistency"]) == pytest.approx(0, abs=1e-12) and float(terms["entropy"]) > 0
    assert float(Consistency(copies=4)(tiny(), batch())["consistency"]) > 1e-4


@pytest.mark.parametrize("attack", [pgd, ddn])
@pytest.mark.parametrize("radius", [0.05, 0.5, 3.0])
def test_attacks_raise_the_smoothed_loss_inside_their_ball(attack, radius):
    network = tiny(2)
    given = batch()
    noisy = fresh(given, 8)
    found = attack(network, given, noisy, radius, 10)

    def loss(x):
        with evaluating(network), torch.no_grad():
            return smoothed_loss(scores(network, noisy(x)), given.y)

    assert float(found.min()) >= 0 and float(found.max()) <= 1 and not found.requires_grad
    assert float((found - given.x).flatten(1).norm(dim=1).max()) <= radius * (1 + 1e-9)
    if attack is pgd:  # ddn shrinks again where it succeeds
        assert (loss(found) > loss(given.x)).all()
    assert float(loss(found).mean()) > float(loss(given.x).mean())


def test_attacks_leave_batch_statistics_alone():
    network = nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(4, 3)).double().train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    given = batch()
    pgd(network, given, fresh(given, 2), 0.5, 2)
    assert network.training and all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


def test_smoothmix_labels_are_distributions_and_its_path_climbs():
    answers, share = torch.randn(4, 6, 3, dtype=torch.float64), torch.rand(6, dtype=torch.float64) / 2
    labels, _ = mixed_labels(answers, torch.zeros(6, dtype=torch.int64), share)
    assert torch.allclose(labels.sum(-1), torch.ones(6, dtype=torch.float64)) and float(labels.min()) > 0
    even, _ = mixed_labels(answers, torch.zeros(6, dtype=torch.int64), torch.ones(6, dtype=torch.float64))
    assert torch.allclose(even, torch.full_like(even, 1 / 3))
    network, given = tiny(2), batch()
    noisy = fresh(given, 4)
    path = Smoothmix(steps=4, step_size=0.1).path(network, given, noisy)
    losses = [float(smoothed_loss(scores(network, noisy(x)), given.y).mean()) for x in (given.x, *path)]
    assert len(path) == 4 and losses == sorted(losses)
    assert float(torch.stack(path).min()) >= 0 and float(torch.stack(path).max()) <= 1


def test_warm_up_grows_by_the_epoch():
    network, distances = tiny(2), []
    for epoch in (0.0, 4.5, 9.0, 30.0):
        given = batch(epoch=epoch)
        found = Smoothadv(steps=4, epsilon=0.2, copies=4).points(network, given, fresh(given, 4))
        distances.append(float((found - given.x).flatten(1).norm(dim=1).max()))
    assert distances == pytest.approx([0.02, 0.1, 0.2, 0.2], rel=0.02)


@pytest.mark.parametrize(("name", "sigma", "expected"), [
    ("smoothadv", 0.25, {"steps": 10, "epsilon": 1.0, "copies": 8}),
    ("smoothadv", 0.5, {"steps": 2, "epsilon": 2.0, "copies": 2}),
    ("macer", 0.5, {"strength": 4.0, "copies": 16}), ("macer", 1.0, {"strength": 12.0}),
    ("consistency", 0.12, {"consistency": 20.0}), ("consistency", 1.0, {"consistency": 10.0}),
    ("smoothmix", 1.0, {"step_size": 2.0}), ("advmacer", 1.0, {"copies": 4, "epsilon": 2.0}), ("gaussian", 1.0, {}),
])  # fmt: skip
def test_published_values_by_sigma_unless_told_otherwise(name, sigma, expected):
    built = dataclasses.asdict(setup.objective(Settings("digits", "mlp", name, sigma)))
    assert {key: built[key] for key in expected} == expected
    told = setup.objective(Settings("digits", "mlp", name, sigma, objective_options={"copies": 3}))
    assert told.copies == 3


def test_smoothed_labels_give_a_share_of_the_loss_to_every_class():
    network, share = tiny(), 0.3

    def loss(objective, y=None):
        given = batch()
        labelled = given if y is None else given._replace(y=torch.full((6,), y))
        return float(objective(network, labelled)["cross_entropy"].detach())

    plain, spread = loss(GaussianObjective(2)), sum(loss(GaussianObjective(2), y) for y in range(3)) / 3
    assert loss(GaussianObjective(2, smoothing=share)) == pytest.approx((1 - share) * plain + share * spread)


@pytest.mark.parametrize(("part", "options"), [
    ("gaussian", {"smoothing": 1.0}), ("gaussian", {"smoothing": -0.1}),
    ("smoothadv", {"copies": 0}), ("smoothadv", {"steps": -1}), ("smoothadv", {"epsilon": float("nan")}),
    ("smoothadv", {"attack": "fgsm"}), ("macer", {"copies": 1.5}), ("macer", {"beta": -1.0}),
    ("consistency", {"entropy": float("inf")}), ("smoothmix", {"first_step": 2}), ("smoothmix", {"steps": 0}),
    ("advmacer", {"hinge": "much"}), ("advmacer", {"attack": "none"}), ("denoise", {"copies": 0}),
])  # fmt: skip
def test_bad_options_are_refused_by_name(part, options):
    with pytest.raises(OptionError, match=next(iter(options))):
        catalog.build("training.objectives", part, options)
