"""The curves that pictures of a forecast hold observations against."""

from __future__ import annotations

import numpy as np
import pytest

from smoothcert.report.forecast_plots import normal, of_few


@pytest.mark.parametrize("members", [4, 5, 12])
def test_the_density_of_one_of_few_is_a_density_of_unit_spread(members):
    limit = (members - 1) / np.sqrt(members)
    at = np.linspace(-limit, limit, 200_001)
    density, step = of_few(at, members), at[1] - at[0]
    assert density.sum() * step == pytest.approx(1.0, abs=1e-3)
    # The squares of all k deviations sum to k − 1.
    assert (at**2 * density).sum() * step == pytest.approx((members - 1) / members, abs=1e-3)


def test_it_is_what_normal_values_do():
    values = np.random.default_rng(0).standard_normal((200_000, 3))
    scaled = (values[:, 0] - values.mean(axis=1)) / values.std(axis=1, ddof=1)
    # Arcsine law: |one of three| is below half of its limit with probability 1/3.
    assert (np.abs(scaled) < 1 / np.sqrt(3)).mean() == pytest.approx(1 / 3, abs=5 * np.sqrt(2 / 9 / 200_000))
    at = np.linspace(-1 / np.sqrt(3), 1 / np.sqrt(3), 20_001)
    assert of_few(at[1:], 3).sum() * (at[1] - at[0]) == pytest.approx(1 / 3, abs=1e-6)
    assert np.abs(of_few(at, 10_000) - normal(at)).max() < 1e-3
    assert np.isnan(of_few(at, 2)).all()
