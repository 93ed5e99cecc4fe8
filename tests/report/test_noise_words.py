"""Noises are named by their own letters."""

from __future__ import annotations

from typing import Any

import pytest
from made_runs import log_of, run_of

from smoothcert.catalog import describe
from smoothcert.noise.discrete import Discrete
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_grid import GaussianGrid
from smoothcert.noise.splitting import Splitting
from smoothcert.noise.uniform import Uniform
from smoothcert.report.meaning import noise_words
from smoothcert.runs.run import Row


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (Gaussian(0.25), "Gaussian noise, σ = 0.25"),
        (GaussianGrid(0.5), "Gaussian noise in steps of 1/255, σ = 0.5"),
        (Uniform(lam=0.5), "uniform noise, λ = 0.5 (σ = 0.2887)"),
        (Splitting(lam=0.4), "splitting noise, λ = 0.4 (σ = 0.2309)"),
        (Discrete(keep=0.8, values=2), "discrete noise, each coordinate kept with probability 0.8, of 2 values"),
    ],
)
def test_kind_and_level(noise: Any, words: str) -> None:
    assert noise_words(run_of((), noise=describe(noise))) == words


def test_levels_of_inputs_and_logs() -> None:
    rows = (Row(0, 1, 1, 0.1, sigma=0.12), Row(1, 1, 1, 0.1, sigma=0.5))
    assert noise_words(run_of(rows)) == "Gaussian noise, σ chosen for each input, 0.12 to 0.5"
    assert noise_words(log_of(rows[:0])) == ""
