"""The probe for networks that read the last bits of float noise: whom it accuses, and whom not."""

from __future__ import annotations

import low_bits
import pytest
import torch
from torch import nn

from smoothcert import Aces, Smoothed
from smoothcert.arithmetic import probe, refuse_low_bits
from smoothcert.classifiers import load, quantise, ready, wrap
from smoothcert.classifiers.onnx import from_network
from smoothcert.errors import ModelError
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_grid import GaussianGrid
from smoothcert.noise.uniform import Uniform

NOISES = [Gaussian(0.5), Uniform(sigma=0.5)]


@pytest.mark.parametrize("noise", NOISES, ids=["gaussian", "uniform"])
@pytest.mark.parametrize("network", [low_bits.coarse, low_bits.last_bit])
def test_a_network_that_reads_the_last_bits_is_accused(network, noise):
    for dim in (1, 3, 50):
        found = probe(network, noise, [torch.full((dim,), 0.8)])
        assert found.rows == 256 and found.suspicious, dim
    with pytest.raises(ModelError, match="must not read the last bits of noise") as error:
        refuse_low_bits(network, noise, [torch.full((3,), 0.8)])
    assert "\n" not in str(error.value) and "--arithmetic exact" in str(error.value)


def test_one_that_does_so_in_a_fifth_of_all_cases_is_accused_too():
    found = probe(low_bits.last_bit_at_times, Gaussian(0.25), [torch.full((20,), 0.5)])
    assert found.suspicious and 0.05 < found.changed / found.rows < 0.15  # half of a fifth


def test_one_bad_input_of_eight_suffices():
    dark, bright = torch.zeros(100), torch.full((100,), 0.8)
    assert not probe(low_bits.coarse, Gaussian(0.5), [dark] * 8).suspicious  # at zero it has nothing to read
    assert probe(low_bits.coarse, Gaussian(0.5), [dark] * 7 + [bright]).suspicious


def balanced(z):
    """Every input of mean 0.3 is on the boundary."""
    margin = z.flatten(1).double().mean(1) - 0.3
    return torch.stack([margin, -margin], dim=1)


@pytest.mark.parametrize("sigma", [1e-5, 1e-4, 1e-3, 0.01, 0.25, 1.0, 100.0])
def test_who_stands_on_the_boundary_is_not(sigma):
    assert not probe(balanced, Gaussian(sigma), [torch.full((50,), 0.3)], rows=2048).suspicious
    assert probe(low_bits.last_bit, Gaussian(sigma), [torch.full((50,), 0.3)], rows=2048).suspicious


def test_ties_constants_and_rounding_to_8_bits_are_not():
    inputs = [torch.full((3, 8, 8), 0.5), torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(0))]
    weights = torch.randn(192, 4, generator=torch.Generator().manual_seed(1))
    for network in (
        lambda z: torch.zeros(len(z), 4),
        lambda z: (z.flatten(1)[:, :4] > 0.5).float(),  # mostly ties
        lambda z: (torch.round(z * 255) / 255).flatten(1) @ weights,
    ):
        assert not probe(network, Gaussian(0.25), inputs, rows=1024).suspicious


def test_networks_of_the_zoo_and_their_8_bit_kin_are_not():
    generator = torch.Generator().manual_seed(0)
    smooth = nn.functional.interpolate(torch.rand(4, 3, 6, 6, generator=generator), size=32, mode="bilinear")
    network = ready(load("cifar10-resnet8-gaussian-0"), smooth[0]).classifier
    noisy = smooth + 0.25 * torch.randn(smooth.shape, generator=generator)
    kin = quantise.quantise(network, noisy, "test")
    assert probe(network, Gaussian(0.01), list(smooth)).changed <= 1
    for one in (network, kin):
        assert not probe(one, Gaussian(0.25), list(smooth)).suspicious


def test_a_network_of_frozen_rows_is_asked_as_it_must_be():
    network = from_network(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).eval(), torch.rand(1, 4, 4))

    class Frozen:
        rows = 7

        def __call__(self, x):
            assert len(x) == 7
            return network(x)

    assert probe(Frozen(), Gaussian(0.25), [torch.rand(1, 4, 4)]).rows == 256


def test_nothing_is_asked_where_noise_is_exact_or_none():
    def never(z):
        raise AssertionError("asked")

    for noise in (GaussianGrid(0.5), None):
        assert probe(never, noise, [torch.full((3,), 0.8)]).rows == 0


def test_a_network_that_is_no_function_is_left_to_the_check_that_says_so():
    def moody(z):
        return torch.rand(len(z), 2)

    assert not probe(moody, Gaussian(0.5), [torch.full((3,), 0.8)]).suspicious
    with pytest.raises(ModelError, match="when the same batch is given twice"):
        Smoothed(moody, Gaussian(0.5), arithmetic="float").certify(torch.full((3,), 0.8), n=100)


def test_smoothed_refuses_it_in_floats_and_defeats_it_on_8_bit_data():
    bright, dark, between = torch.full((3,), 204 / 255), torch.zeros(3), torch.full((3,), 0.8001)
    smoothed = Smoothed(low_bits.coarse, Gaussian(0.5))
    certificate = smoothed.certify(bright, n=2000)  # 8-bit: in whole steps
    assert smoothed.predict(dark) == certificate.label or certificate.radius < 0.8 * 3**0.5
    for refused in ([between], [bright, between]):  # one off the grid takes all to floats
        with pytest.raises(ModelError, match="last bits"):
            smoothed.certify_all(refused, n=1000)
    with pytest.raises(ModelError, match="last bits"):
        Smoothed(low_bits.coarse, Gaussian(0.5), arithmetic="float").predict(bright)


def test_every_network_of_a_composition_is_asked():
    x = torch.full((3,), 0.8001)

    def honest(z):
        margin = z.flatten(1).mean(1) - 0.2
        return torch.stack([-margin, margin], dim=1)

    Aces(honest, low_bits.coarse, Gaussian(0.5)).certify(x, n=200)  # a core sees no noise
    with pytest.raises(ModelError, match="last bits"):
        Aces(low_bits.coarse, honest, Gaussian(0.5)).certify(x, n=200)
    with pytest.raises(ModelError, match="last bits"):
        Aces(honest, honest, Gaussian(0.5), select=wrap(low_bits.coarse)).certify(x, n=200)
