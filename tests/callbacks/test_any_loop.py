"""Certified accuracy for any loop: against known truth, and without a trace on the network that trains."""

from __future__ import annotations

import random

import numpy as np
import pytest
import stripes
import torch
from known_inputs import LINE, RADIUS, SIGMA, at, small
from torch import nn

import smoothcert
from smoothcert.callbacks import certified_accuracy
from smoothcert.callbacks.question import GUESS
from smoothcert.errors import DataError, ModelError, OptionError, SmoothcertError
from smoothcert.sampling.spending import Spending


def test_inputs_count_whose_true_radius_is_larger_and_whose_label_is_right():
    x, y = at(0.45, -0.45, 0.45, 0.1, -0.02), [1, 0, 0, 1, 0]  # far, far, far with a wrong label, near, near
    found = certified_accuracy(LINE, x, y, sigma=SIGMA, radius=RADIUS)
    assert (found.certified, found.abstained, found.of, found.share) == (2, 2, 5, 0.4)
    assert (found.radius, found.norm) == (RADIUS, "l2")
    assert "0.400 of 5 inputs certified at l2 radius 0.25" in str(found)


def test_it_is_what_smoothed_says_with_these_draws():
    torch.manual_seed(1)
    x, network = torch.rand(20, 4), small().eval()
    y = network(x).argmax(1)
    found = certified_accuracy(network, x, y, sigma=SIGMA, radius=0.1, cap=500, alpha=0.01, seed=7)
    smoothed = smoothcert.Smoothed(network, smoothcert.Gaussian(SIGMA), engine="torch")
    sampling = Spending((0.1,), 0.01, cap=500)
    expected = smoothed.certify_all(list(x), n0=GUESS, sampling=sampling, seed=7)
    right = sum(one.label == int(label) for one, label in zip(expected, y, strict=True))
    assert 0 < right < 20 and found.certified == right
    assert found.abstained == sum(one.abstained for one in expected) > 0
    assert found.draws == sum(one.evidence.draws for one in expected) + 20 * GUESS <= 20 * (500 + GUESS)


def test_the_interval_is_exact():
    found = certified_accuracy(LINE, at(0.45, 0.4), [1, 1], sigma=SIGMA, radius=RADIUS)
    assert found.interval == pytest.approx((0.025**0.5, 1.0), rel=1e-9)  # Clopper–Pearson with 2 of 2


def test_other_noises_and_norms():
    found = certified_accuracy(LINE, at(0.45, 0.1), [1, 1], sigma=smoothcert.Uniform(lam=1.0), radius=0.3)
    assert (found.certified, found.norm) == (1, "l1")
    numbers = certified_accuracy(LINE, at(0.45).numpy(), np.array([1]), sigma=np.float32(0.25), radius=np.float64(0.25))
    assert numbers.certified == 1
    eight = torch.tensor([[240, 8]], dtype=torch.uint8)
    whole, divided = (certified_accuracy(LINE, x, [1], sigma=SIGMA, radius=RADIUS) for x in (eight, eight / 255))
    assert whole == divided and whole.certified == 1


def test_a_noise_of_few_cases_is_counted():
    x, y = stripes.images(6)
    found = certified_accuracy(stripes.a, x, y, sigma=smoothcert.Band(width=2), radius=1)
    largest = smoothcert.Smoothed(stripes.a, smoothcert.Band(width=2), progress=False).certify_all(x)
    wanted = sum(one.label == label and one.radius >= 1 for one, label in zip(largest, y, strict=True))
    assert (found.certified, found.norm, found.draws) == (wanted, "patch", 6 * 12) and wanted >= 3


def test_a_network_in_training_is_left_as_it_was():
    network = small().train()
    network[2].eval()  # a frozen part
    x, y = torch.rand(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    nn.functional.cross_entropy(network(x), y).backward()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    modes, gradients = [part.training for part in network.modules()], [p.grad.clone() for p in network.parameters()]
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()

    found = certified_accuracy(network, x, y, sigma=SIGMA, radius=0.1)

    assert [part.training for part in network.modules()] == modes and len(set(modes)) == 2
    assert all(torch.equal(a, p.grad) for a, p in zip(gradients, network.parameters(), strict=True))
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1:] == (np.random.get_state()[1].tolist(), random.getstate())
    assert found == certified_accuracy(network.eval(), x, y, sigma=SIGMA, radius=0.1)


class Remembers(nn.Module):
    """Makes what it needs in its first forward pass, as rotary embeddings do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.scale = nn.Linear(4, 3), None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.scale is None:
            self.scale = torch.ones(4) * 2
        return self.layer(x * self.scale)


def test_a_network_that_keeps_tensors_can_train_on():
    """A tensor made in inference mode and kept would end the next backward pass."""
    network, x, y = Remembers(), torch.rand(3, 4, requires_grad=True), torch.tensor([0, 1, 2])
    certified_accuracy(network, x.detach(), y, sigma=SIGMA, radius=0.1)
    nn.functional.cross_entropy(network(x), y).backward()


class Moody(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.rand(len(x), 3)


def test_modes_stay_when_it_raises():
    network = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), Moody()).train()
    network[1].eval()
    with pytest.raises(ModelError, match="same scores"):
        certified_accuracy(network, torch.rand(2, 4), [0, 1], sigma=SIGMA, radius=0.1)
    assert [part.training for part in network.modules()] == [True, True, False, True]


class Locked(Moody):
    def __deepcopy__(self, memo: object) -> None:
        raise RuntimeError("only leaves can be copied")


X, Y = torch.rand(3, 4), torch.tensor([0, 1, 2])


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"x": X * 4 - 2}, DataError, r"in \[0,1\]; got values from .*\(normalisation belongs inside"),
        ({"x": (X * 255).int()}, DataError, "input 0 must be of floats"),
        ({"x": X * float("nan")}, DataError, "finite"),
        ({"x": 3}, DataError, "x must be inputs .*; got 3"),
        ({"x": ["a", "b", "c"]}, DataError, "input 0 must be an array"),
        ({"x": X[:0], "y": Y[:0]}, DataError, "at least one; got 0 inputs"),
        ({"y": Y[:2]}, DataError, r"got 3 inputs and labels of shape \[2\]"),
        ({"y": nn.functional.one_hot(Y)}, DataError, r"shape \[3, 3\] .*y.argmax\(1\)"),
        ({"y": Y.float()}, DataError, "y must be whole numbers"),
        ({"y": ["a", "b", "c"]}, DataError, "y must be the labels"),
        ({"sigma": "0.25"}, OptionError, "σ of Gaussian noise, or a noise such as .*got '0.25'"),
        ({"sigma": 0}, OptionError, "positive number"),
        ({"sigma": True}, OptionError, "σ of Gaussian noise.*got True"),
        ({"sigma": None}, OptionError, "σ of Gaussian noise.*got None"),
        ({"radius": (0.25, 0.5)}, OptionError, "radius of certified_accuracy must be a number; got tuple"),
        ({"radius": -1.0}, OptionError, "at least 0"),
        ({"radius": 0.75, "cap": 2000}, OptionError, r"at least \d+ draws .*raise the cap"),
        ({"cap": 0}, OptionError, "cap"),
        ({"alpha": 1.5}, OptionError, "alpha"),
        ({"seed": -1}, OptionError, "seed"),
        ({"batch": 0}, OptionError, "batch"),
        ({"network": 3}, ModelError, "torch network.* or a callable"),
        ({"network": nn.Linear(5, 3)}, ModelError, "accept inputs of shape"),
        ({"network": nn.Sequential(Locked())}, ModelError, "copy.deepcopy.*only leaves can be copied.*give the part"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(changes, error, says):
    given = {"network": small(), "x": X, "y": Y, "sigma": SIGMA, "radius": 0.1} | changes
    with pytest.raises(SmoothcertError, match=says) as caught:
        certified_accuracy(**given)
    assert isinstance(caught.value, error) and "\n" not in str(caught.value)
