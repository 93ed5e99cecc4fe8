"""The noise of docs/extending.md keeps the contract of every noise, and its numbers are what its page says they are."""

from __future__ import annotations

import sys

import pytest
import torch
from page_blocks import blocks
from page_shell import ROOT, write
from scipy.stats import kstest

from smoothcert import catalog
from smoothcert.contracts import Stream
from smoothcert.noise import ScalableNoise
from smoothcert.testing import check_noise

SIGMA = 0.5


@pytest.fixture
def noise(tmp_path, monkeypatch):
    (block,) = (
        block for block in blocks(ROOT / "docs" / "extending.md") if block.title == "smoothcert/noise/laplace.py"
    )
    write(block, tmp_path, monkeypatch)
    yield catalog.build("noise", "laplace", {"sigma": SIGMA})
    sys.modules.pop("smoothcert.noise.laplace", None)


def test_it_keeps_the_contract(noise):
    check_noise(noise)


def test_its_draws_and_those_of_training_have_its_distribution(noise):
    out = torch.empty(2000, 25)
    noise.fill(out, torch.zeros(25), Stream(0, 0, "test"), 0)
    unit = noise.unit((50_000,), torch.Generator().manual_seed(0))
    assert isinstance(noise, ScalableNoise)
    for drawn, sigma in ((out, SIGMA), (unit, 1.0)):
        assert kstest(drawn.flatten().double().numpy(), "laplace", args=(0, sigma / 2**0.5)).pvalue > 1e-3


def test_its_radius_is_that_of_a_half_space_along_an_axis(noise):
    """P(ε₁ > −t) = 1 − e^(−t/b)/2 for a boundary at distance t: there the bound is tight."""
    scale = SIGMA / 2**0.5
    for distance in (0.01, 0.1, 0.5):
        p = 1 - torch.tensor(-distance / scale, dtype=torch.float64).exp() / 2
        assert float(noise.radius(p, 1 - p, 25)) == pytest.approx(distance, rel=1e-12)
