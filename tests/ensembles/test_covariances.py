"""Covariances of clean and noise parts: exactly as they were made, and what the forecast shows of them."""

from __future__ import annotations

import numpy as np
import pytest
from ensemble_cases import Family

from smoothcert.ensembles.covariances import covariance_maps
from smoothcert.ensembles.forecast import Forecast
from smoothcert.ensembles.variance import MarginSample, estimate
from smoothcert.noise.gaussian import Gaussian
from smoothcert.report.forecast_plots import maps_figure, save_forecast
from smoothcert.report.forecast_text import forecast_text

CLEAN, NOISE = np.array([[0.6, 0.0], [0.2, 0.4]]), np.array([[1.0, 0.0], [0.5, 0.8]])
FAMILY = Family(np.tile([2.0, 3.0], (60, 1)), CLEAN, NOISE, 0.7)


def sample(members=8, draws=400):
    return FAMILY.sample(members, draws, np.random.default_rng(0))


def test_they_are_those_of_the_family():
    """60 inputs of 8 members: 420 degrees of freedom, so a variance is known to about 7 % (one standard error)."""
    found = covariance_maps(drawn := sample(), estimate(drawn))
    assert found.mean.noise == pytest.approx(NOISE @ NOISE.T, rel=0.05)
    assert found.mean.clean == pytest.approx(CLEAN @ CLEAN.T, rel=0.3, abs=0.05)
    assert found.observed == pytest.approx(0.7 * NOISE @ NOISE.T, rel=0.08) and found.misfit < 0.05
    assert not found.mean.between.any() and found.mean.correlation == 0.0
    # Noise has mean 0 here, so around the point there is next to nothing between the parts either.
    assert found.point.correlation < 0.15
    assert found.point.blocks.shape == (4, 4) and np.array_equal(found.point.blocks, found.point.blocks.T)


def test_a_noise_part_that_leans_on_the_clean_part_shows():
    plain = sample()
    leaning = MarginSample(
        plain.clean, plain.noisy - 0.5 * (plain.clean - plain.clean.mean(1, keepdims=True))[:, :, None]
    )
    found = covariance_maps(leaning, estimate(leaning, "point"))
    assert np.diagonal(found.point.between) == pytest.approx(-0.5 * np.diagonal(found.point.clean), rel=0.2)
    assert found.point.correlation > 0.1 and found.mean.correlation == 0.0


def test_by_hand():
    """Two members, one input, one rival, two draws."""
    made = MarginSample(np.array([[[1.0], [3.0]]]), np.array([[[[1.0], [3.0]], [[5.0], [5.0]]]]))
    found = covariance_maps(made, estimate(made))
    # Means 2 and 5: variance 4.5. Noise moves the first by ±1 and the second not: (2 + 0)/2. The point: 1 and 3.
    assert (found.mean.clean, found.mean.noise) == (pytest.approx(np.array([[4.5]])), pytest.approx(np.array([[1.0]])))
    assert found.point.clean == pytest.approx(np.array([[2.0]]))
    # What noise adds on average: 1 and 2; variance ½, covariance with 1 and 3: 1.
    assert found.point.noise == pytest.approx(np.array([[1.5]])) and found.point.between == pytest.approx(
        np.array([[1.0]])
    )


def test_numbers_words_and_pictures(tmp_path):
    found = Forecast(sizes=(1, 2), n=1000, seed=0).result(sample(3, 50), Gaussian(0.25))
    told = found.as_json()["covariances"]
    assert np.shape(told["clean_part_as_point"]["between"]) == (2, 2)
    assert told["noise_parts_of_two_members"]["misfit"] == found.maps.misfit
    words = " ".join(forecast_text(found, 200).split())
    assert "clean part at the point and noise part: correlation up to 0." in words and "% from the model's" in words
    save_forecast(found, tmp_path / "f.svg")
    assert {path.name for path in tmp_path.iterdir()} == {
        f"f{part}.{kind}" for part in ("", "-fit", "-maps") for kind in ("svg", "png")
    }
    assert len(maps_figure(found.maps).axes) == 8  # four maps, each with its scale


def test_nothing_that_varies_is_no_correlation():
    still = MarginSample(np.ones((2, 3, 2)), np.ones((2, 3, 4, 2)))
    found = covariance_maps(still, estimate(still))
    assert found.point.correlation == 0.0 and found.misfit == 0.0
    maps_figure(found)
