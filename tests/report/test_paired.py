"""The exact interval of a paired difference: its tail by brute force, and its coverage by counting every outcome."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from smoothcert.report import paired
from smoothcert.report.metrics import LEVEL, Interval

SMALL = 9  # inputs: 55 outcomes


def chances(inputs: int, up: float, down: float) -> np.ndarray:
    """P(gained − lost = t) for t = −inputs … inputs, by convolution."""
    total = np.ones(1)
    for _ in range(inputs):
        total = np.convolve(total, [down, 1.0 - up - down, up])
    return total


@cache
def interval(gained: int, lost: int) -> Interval:
    return paired.interval(gained, lost, SMALL)


@pytest.mark.parametrize(("inputs", "share", "difference"), [(7, 0.6, 0.2), (30, 0.35, -0.1), (900, 0.06, 0.01)])
def test_the_tail_is_that_of_the_sum(inputs: int, share: float, difference: float) -> None:
    """The last one is on a window of places narrower than the sum's range."""
    known = chances(inputs, (share + difference) / 2, (share - difference) / 2)
    for total in (-inputs // 4, -1, 0, 1, round(inputs * difference) + 2, inputs // 3):
        tail = paired._tail(total, difference, inputs, Interval(share, share))
        assert tail == pytest.approx(known[total + inputs :].sum(), abs=1e-12)


def test_the_worst_share_of_changed_inputs_counts() -> None:
    tails = [paired._tail(3, 0.0, 40, Interval(share, share)) for share in (0.1, 0.2, 0.4)]
    assert tails == sorted(tails)
    assert paired._tail(3, 0.0, 40, Interval(0.1, 0.4)) == pytest.approx(tails[-1])


def test_the_interval_covers_at_its_level_whatever_the_truth() -> None:
    """For every pair of probabilities on a grid, all outcomes of SMALL inputs are counted."""
    outcomes = [(g, lost) for g in range(SMALL + 1) for lost in range(SMALL + 1 - g)]
    for up in np.linspace(0.0, 1.0, 21):
        for down in np.linspace(0.0, 1.0 - up, 11):
            covered = 0.0
            for gained, lost in outcomes:
                ways = math.comb(SMALL, gained) * math.comb(SMALL - gained, lost)
                chance = ways * up**gained * down**lost * max(0.0, 1 - up - down) ** (SMALL - gained - lost)
                low, high = interval(gained, lost)
                covered += chance * (low - 1e-12 <= up - down <= high + 1e-12)
            assert covered >= LEVEL, (up, down, covered)


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (3, 0), (2, 5), (9, 0)])
def test_it_is_symmetric_and_holds_the_estimate(gained: int, lost: int) -> None:
    low, high = interval(gained, lost)
    assert (-high, -low) == pytest.approx(tuple(interval(lost, gained)), abs=1e-6)
    assert low <= (gained - lost) / SMALL <= high
    assert -1.0 <= low < high <= 1.0


def test_more_inputs_say_more() -> None:
    widths = [np.diff(paired.interval(12 * k, 4 * k, 100 * k))[0] for k in (1, 4, 16)]
    assert widths[0] > 1.7 * widths[1] > 1.7**2 * widths[2]  # halved by four times the inputs, nearly
    wald = 2 * 1.96 * math.sqrt(0.16 - 0.08**2) / math.sqrt(1600)
    assert wald < widths[2] < 1.25 * wald


def test_the_p_value_is_the_binomial_one() -> None:
    for gained, lost in [(0, 0), (1, 0), (5, 5), (3, 11), (20, 6)]:
        changed, most = gained + lost, max(gained, lost)
        tail = sum(math.comb(changed, k) for k in range(most, changed + 1)) / 2**changed
        assert paired.p_value(gained, lost) == pytest.approx(min(1.0, 2 * tail))


def test_of_many_inputs_the_normal_limit_stands_for_resampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same spread, and the same correlation between runs, as by picking inputs; tolerances are five deviations."""
    rng = np.random.default_rng(0)
    shared = rng.random((3000, 1))
    values = np.concatenate([shared + rng.random((3000, 1)), shared + rng.random((3000, 1)) > 1.0], axis=1)[:, :, None]
    picked = paired.resampled(values, 4000)
    monkeypatch.setattr(paired, "MANY", 2999)
    drawn = paired.resampled(values, 4000)
    assert np.array_equal(picked.means, drawn.means) and drawn.drawn.shape == picked.drawn.shape == (4000, 2, 1)
    for one in (picked, drawn):
        flat = one.drawn[:, :, 0]
        expected = np.cov(values[:, :, 0], rowvar=False) / 3000
        assert np.cov(flat, rowvar=False) == pytest.approx(expected, rel=5 * np.sqrt(2 / 4000))
        assert flat.mean(axis=0) == pytest.approx(values.mean(axis=0)[:, 0], abs=5 * float(flat.std()) / np.sqrt(4000))
