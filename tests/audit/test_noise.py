"""Noise as the theorem assumes it passes; noise that repeats, is too wide, leans, or hangs together does not."""

from __future__ import annotations

import pytest
import torch

from smoothcert.audit import assumptions
from smoothcert.audit.assumptions import check_noise
from smoothcert.contracts import Answer, Stream
from smoothcert.noise import NoNoise
from smoothcert.noise.discrete import Discrete
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_grid import GaussianGrid
from smoothcert.noise.splitting import Splitting
from smoothcert.noise.uniform import Uniform
from smoothcert.runs.run import Row

NOISES = [
    Gaussian(0.25),
    Uniform(lam=0.5),
    GaussianGrid(0.1),
    Discrete(keep=0.8, values=2),
    Discrete(keep=0.3, values=16),
    Splitting(lam=20 / 255),
]
X = (torch.rand(1, 8, 8, generator=torch.Generator().manual_seed(0)) * 255).round() / 255


def rows(number=12):
    answers = (Answer("guess", 100, ((100,),)), Answer("test", 1000, ((1000,),)), Answer("clean", 1, ((1,),)))
    return {3 * i: Row(3 * i, 0, 0, 0.1, answers=answers) for i in range(number)}


def found(noise, number=12, seed=5):
    return check_noise(noise, X, rows(number), seed, 0.001)


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_the_noises_pass(noise):
    check = found(noise)
    assert check.violations == () and check.trials > 100_000 + 12 * 612
    assert "7344 draws of 24 streams" in check.tried


def test_laws_are_those_of_the_definitions():
    grid, width = GaussianGrid(0.1).moments(X), 0.1**2 + 1 / (12 * 255**2)
    assert grid.spread[0] ** 2 == pytest.approx(width, rel=1e-9)  # Sheppard: rounding adds a twelfth of a step
    assert grid.fourth[0] == pytest.approx(
        (3 * 0.1**4 + 0.1**2 / (2 * 255**2) + 1 / (80 * 255**4)) / width**2, rel=1e-9
    )
    two = Discrete(keep=0.8, values=2).moments(torch.tensor([0.0, 1.0]))
    assert two.centre == pytest.approx([0.2, 0.8]) and two.spread == pytest.approx([0.4, 0.4])
    assert two.fourth == pytest.approx([(0.8 * 0.2**4 + 0.2 * 0.8**4) / 0.4**4] * 2)
    uniform = Uniform(lam=0.6).moments(torch.tensor([0.25]))
    assert (uniform.centre[0], uniform.spread[0], uniform.fourth[0]) == pytest.approx((0.25, 0.6 / 3**0.5, 1.8))
    assert NoNoise(Gaussian(0.1)).moments(X) is None


class Wrong(Gaussian):
    """Gaussian noise, spoilt in one way."""

    def __init__(self, sigma, spoil):
        super().__init__(sigma)
        object.__setattr__(self, "spoil", spoil)

    def fill(self, out, x, stream, first):
        self.spoil(super().fill, out, x, stream, first)


def wider(fill, out, x, stream, first):
    fill(out, x, stream, first)
    out.sub_(x).mul_(1.02).add_(x)


def leaning(fill, out, x, stream, first):
    fill(out, x, stream, first)
    out.add_(0.003)


def same_for_all_inputs(fill, out, x, stream, first):
    fill(out, x, stream._replace(input=0), first)


def always_from_the_start(fill, out, x, stream, first):
    fill(out, x, stream, 0)


def hanging_together(fill, out, x, stream, first):
    """Moments of single numbers as they should be; neighbours share a little."""
    fill(out, x, stream, first)
    noise = (out - x).reshape(len(out), -1)
    mixed = (noise + 0.1 * noise.roll(1, dims=1)) / 1.01**0.5
    out.copy_(x + mixed.reshape(out.shape))


def from_draw_to_draw(fill, out, x, stream, first):
    before = torch.zeros_like(out)
    fill(out, x, stream, first)
    fill(before, x, stream, first + 1)
    out.copy_(x + ((out - x) + 0.1 * (before - x)) / 1.01**0.5)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (wider, "variance of the noise"),
        (leaning, "mean of the noise"),
        (same_for_all_inputs, "is that of"),
        (same_for_all_inputs, "correlation of two streams"),
        (always_from_the_start, "is that of"),
        (always_from_the_start, "depends on the batch"),
        (hanging_together, "correlation of neighbouring coordinates"),
        (from_draw_to_draw, "correlation of successive draws"),
    ],
)
def test_spoilt_noise_is_named(spoil, said):
    assert any(said in violation for violation in found(Wrong(0.25, spoil)).violations)


def test_a_repeated_word_is_named(monkeypatch):
    """A generator that keeps only 8 bits of an input's number gives inputs 256 apart the same noise."""
    true = assumptions.words

    def short(stream, *rest):
        return true(Stream(stream.seed, stream.input % 256, stream.purpose), *rest)

    monkeypatch.setattr(assumptions, "words", short)
    answers = (Answer("test", 5, ((5,),)),)
    two = {index: Row(index, 0, 0, 0.1, answers=answers) for index in (1, 257)}
    check = check_noise(Gaussian(0.25), X, two, 0, 0.001)
    assert check.violations[0] == "test draw 0 of input 257 has the random words of test draw 0 of input 1"


def test_nothing_drawn_leaves_nothing_to_look_at():
    check = check_noise(
        Splitting(lam=20 / 255), X, {0: Row(0, 0, 0, 0.1, answers=(Answer("every", 40, ((40,),)),))}, 0, 0.1
    )
    assert check.held and check.trials == 0


def test_levels_are_nominal():
    """Over many seeds an honest noise is accused about as often as it says; the level is large so that this shows."""
    wrong = sum(not check_noise(Gaussian(0.25), X, rows(2), seed, 0.6).held for seed in range(60))
    assert 2 <= wrong <= 24  # a share of 0.2, or a little less, of 60 are 12; 4 standard deviations are 12
