"""Gaussian noise in whole numbers: its sampler against exact arithmetic, and what it protects from."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np
import pytest
import torch
from low_bits import coarse
from scipy.special import ndtr, ndtri
from scipy.stats import chisquare

from smoothcert.classifiers import wrap
from smoothcert.contracts import ABSTAIN, Job, Source, Stream
from smoothcert.engine.engine import Engine
from smoothcert.errors import DataError, OptionError
from smoothcert.noise import gaussian_grid
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_grid import GaussianGrid, _drawn, _sampler, lower_tail
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.fixed import Fixed
from smoothcert.smoothed import Smoothed

SIGMAS = [0.004, 0.12, 0.25, 1.0]


def test_tails_are_right_to_many_digits():
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        for sigma in SIGMAS:
            for k in (0, 1, 5, int(255 * sigma * 4), int(255 * sigma * 9)):
                exact = mpmath.ncdf(-(mpmath.mpf(k) + 0.5) / (mpmath.mpf(sigma) * 255))
                found = mpmath.mpf(str(lower_tail(k, sigma, 255)))
                assert abs(found - exact) < mpmath.mpf(10) ** -45
                assert float(found) == pytest.approx(float(ndtr(-(k + 0.5) / (sigma * 255))), rel=1e-12, abs=1e-45)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_drawn_distribution_is_within_the_stated_error_of_the_true_one(sigma):
    """½Σ|p̂ − p| in sixty digits, beyond the last threshold as far as it counts."""
    sampler, unit = _sampler(sigma, 255), Decimal(2) ** -64
    half = len(sampler.thresholds) // 2
    with localcontext() as context:
        context.prec = 60
        tails = [lower_tail(k, sigma, 255) for k in range(int(255 * sigma * 11) + 3)]
        drawn = [Decimal(int(t)) * unit for t in sampler.thresholds[:half][::-1]] + [Decimal(0)] * (len(tails) - half)
        masses = ([one - next_ for one, next_ in pairwise(column)] for column in (tails, drawn))
        # Both sides have the same masses; the middle one is what they leave.
        distance = sum(abs(p - q) for p, q in zip(*masses, strict=True)) + abs(tails[0] - drawn[0])
    assert 0 <= float(distance) <= GaussianGrid(sigma).error(1)
    assert [int(t) for t in sampler.thresholds[half:]] == [2**64 - int(t) for t in sampler.thresholds[:half][::-1]]
    assert GaussianGrid(0.25).error(3072) == pytest.approx(2.144e-13, rel=1e-3)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_every_number_of_64_bits_gets_the_value_of_its_thresholds(monkeypatch, sigma):
    """Numbers at, just below and just above thresholds, where guide, upper and lower halves take turns."""
    sampler = _sampler(sigma, 255)
    edges = [int(t) for t in sampler.thresholds]
    numbers = {0, 2**64 - 1, *(t + d for t in edges for d in (-(2**40), -(2**32), -1, 0, 1, 2**32, 2**40))}
    asked = np.array(sorted(n for n in numbers if 0 <= n < 2**64), dtype=np.uint64)

    def words(stream, first, draws, per_draw):
        part = asked & np.uint64(2**32 - 1) if stream.purpose.endswith("lower half") else asked >> np.uint64(32)
        return part.astype(np.uint32)[None, :]

    monkeypatch.setattr(gaussian_grid, "words", words)
    found = _drawn(sampler, Stream(0, 0, "test"), 0, 1, len(asked))[0]
    expected = [sum(t <= int(n) for t in edges) + sampler.lowest for n in asked[:: max(1, len(asked) // 200)]]
    assert found[:: max(1, len(asked) // 200)].tolist() == expected
    assert (np.diff(found) >= 0).all() and found[0] == -len(edges) // 2 and found[-1] == len(edges) // 2


def test_values_are_whole_steps_with_the_right_frequencies():
    noise = GaussianGrid(0.01)
    x = torch.arange(0, 256, 5).float() / 255
    out = torch.empty(4000, len(x))
    noise.fill(out, x, Stream(0, 0, "test"), 0)
    moved = torch.round(out.double() * 255).long() - torch.round(x * 255).long()
    assert torch.equal(out, (torch.round(out.double() * 255) / 255).float())
    found = np.bincount((moved + 20).ravel().numpy(), minlength=41)
    edges = ndtr((np.arange(-20, 21)[:, None] + np.array([0.5, -0.5])) / 2.55)
    expected = (edges[:, 0] - edges[:, 1]) * out.numel()
    keep = expected > 10
    assert chisquare(found[keep], expected[keep] * found[keep].sum() / expected[keep].sum()).pvalue > 1e-3


def test_radius_is_that_of_gaussian_noise_less_the_error_of_the_sampler():
    p = torch.tensor(0.99, dtype=torch.float64, requires_grad=True)
    sound, plain = (noise.radius(p, 1 - p, 3072) for noise in (GaussianGrid(0.25), Gaussian(0.25)))
    assert 0 <= float((plain - sound).detach()) < 1e-11
    (slope,) = torch.autograd.grad(sound, p)
    assert float(slope) > 0
    assert GaussianGrid(0.25).p_needed(0.5, 3072) > Gaussian(0.25).p_needed(0.5, 3072)
    certain = torch.tensor(1.0, dtype=torch.float64)
    assert math.isfinite(float(GaussianGrid(0.25).radius(certain, 1 - certain, 3072)))


@pytest.mark.parametrize("sigma", [0.12, 0.25, 1.0])
def test_a_half_space_across_one_axis_attains_the_bound(sigma):
    """The class of all x with 255·x ≤ c has P(K ≤ c) at 0: its radius is c + ½ steps, and there it ends.

    c steps away the class keeps the majority, c + 1 steps away it has lost it.
    """
    noise, q = GaussianGrid(sigma), 255
    for c in (0, 1, 10, int(2 * sigma * q)):
        p = 1 - lower_tail(c, sigma, q)
        top = torch.tensor(float(p), dtype=torch.float64)
        steps = float(noise.radius(top, 1 - top, 1)) * q
        assert steps == pytest.approx(c + 0.5, abs=1e-9)
        assert 1 - lower_tail(0, sigma, q) > Decimal("0.5") > lower_tail(0, sigma, q)  # P(K ≤ 0) and P(K ≤ −1)
        assert noise.p_needed((c + 0.5) / q, 1) == pytest.approx(float(p), rel=1e-12)


def test_a_classifier_that_reads_the_last_bits_betrays_float_noise_and_not_whole_numbers():
    bright, dark = torch.full((3,), 204 / 255), torch.zeros(3)
    distance = 0.8 * math.sqrt(3)
    source = Source(wrap(coarse), Gaussian(0.5))  # without the probe, which refuses it
    jobs = [Job(name, x, Certify(100, Fixed(10_000, 0.001))(source, 3)) for name, x in enumerate((bright, dark))]
    betrayed, other = (outcome.result for outcome in sorted(Engine().run(jobs), key=lambda found: found.index))
    assert betrayed.label == 1 and betrayed.radius > distance
    assert other.label == 0  # inside the certified ball
    sound = Smoothed(coarse, GaussianGrid(0.5))
    # The same classifier, its probability at every grid input summed exactly over K in one coordinate.
    mass = {k: float(ndtr((k + 0.5) / 127.5) - ndtr((k - 0.5) / 127.5)) for k in range(-1200, 1201)}

    def true_p(step):
        values = torch.tensor([(step + k) / 255 for k in mass]).float()
        return sum(m for m, hit in zip(mass.values(), coarse(values[:, None])[:, 1] > 0, strict=True) if hit) ** 3

    certificate = sound.certify(bright, n=10_000)
    p = true_p(204)
    assert certificate.label in (ABSTAIN, int(p > 0.5))
    assert certificate.radius <= 0.5 * abs(ndtri(p))
    inside = [s for s in range(256) if (s - 204) ** 2 * 3 < (255 * certificate.radius) ** 2]
    assert all((true_p(s) > 0.5) == (p > 0.5) for s in inside) and 0 not in inside


def test_inputs_off_the_grid_are_refused():
    with pytest.raises(DataError, match="inputs of gaussian_grid must be multiples of 1/255"):
        GaussianGrid(0.25).fill(torch.empty(1, 1), torch.tensor([0.5]), Stream(0, 0, "test"), 0)


@pytest.mark.parametrize("sigma", [0, -1, math.nan, math.inf, 12, "0.5", True])
def test_bad_sigmas_are_refused(sigma):
    with pytest.raises(OptionError, match=r"sigma of gaussian_grid must be positive and at most 11\.7647"):
        GaussianGrid(sigma)
