"""Bounds against exact rational arithmetic for small n, against scipy's test and mpmath for large."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import mpmath
import pytest
from scipy.stats import binomtest

from smoothcert.bounds import MARGIN, best_lower_bound, fewest_draws, lower_bound, tie_p_value, upper_bound

ALPHAS = (0.5, 0.05, 0.001, 1e-9)


def upper_tail(k: int, n: int, p: Fraction) -> Fraction:
    return sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 12, 20])
def test_lower_bound_is_valid_and_tight_exactly(n, alpha):
    for k in range(n + 1):
        low = Fraction(lower_bound(k, n, alpha))
        if k == 0:
            assert low == 0
            continue
        assert upper_tail(k, n, low) <= Fraction(alpha)
        assert upper_tail(k, n, low * (1 + Fraction(1, 10**9))) > Fraction(alpha)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 12, 20])
def test_upper_bound_is_valid_and_tight_exactly(n, alpha):
    for k in range(n + 1):
        high = Fraction(upper_bound(k, n, alpha))
        if k == n:
            assert high == 1
            continue
        assert 1 - upper_tail(k + 1, n, high) <= Fraction(alpha)
        assert 1 - upper_tail(k + 1, n, high * (1 - Fraction(1, 10**9))) > Fraction(alpha)


@pytest.mark.parametrize("n", [1000, 100_000, 10_000_000])
@pytest.mark.parametrize("share", [0.001, 0.5, 0.51, 0.9, 0.9999, 1.0])
@pytest.mark.parametrize("alpha", [0.05, 0.001, 1e-12])
def test_lower_bound_at_large_n_against_high_precision(n, share, alpha):
    k = max(1, round(n * share))
    low = lower_bound(k, n, alpha)
    with mpmath.workdps(40):
        tail = mpmath.mpf(low) ** n if k == n else _tail(k, n, mpmath.mpf(low))
        assert tail <= mpmath.mpf(alpha)
        # A relative step m down in p costs at most about n·m of the tail: that is all the margin may give away.
        assert tail >= mpmath.mpf(alpha) * (1 - 2 * n * mpmath.mpf(MARGIN) - mpmath.mpf("1e-9"))


def _tail(k: int, n: int, p: mpmath.mpf) -> mpmath.mpf:
    """P(Bin(n, p) ≥ k) for k above the mean, summed term by term in high precision until nothing is added."""
    term = mpmath.exp(
        mpmath.loggamma(n + 1)
        - mpmath.loggamma(k + 1)
        - mpmath.loggamma(n - k + 1)
        + k * mpmath.log(p)
        + (n - k) * mpmath.log1p(-p)
    )
    total, i, ratio = mpmath.mpf(0), k, p / (1 - p)
    while i <= n and term > total * mpmath.mpf("1e-25"):
        total += term
        term *= ratio * (n - i) / (i + 1)
        i += 1
    return total


@pytest.mark.parametrize(("first", "second"), [(1, 0), (0, 1), (5, 5), (6, 4), (600, 400), (50_500, 49_500), (11, 0)])
def test_tie_p_value_is_scipys_two_sided_test(first, second):
    assert tie_p_value(first, second) == pytest.approx(binomtest(first, first + second, 0.5).pvalue, rel=1e-9)


def test_tie_p_value_of_nothing_is_one():
    assert tie_p_value(0, 0) == 1.0


def test_fewest_draws_are_the_ones_that_can_certify():
    # Ten draws that all hit give .5012 at alpha .001: the case users of Cohen's scripts run into.
    assert fewest_draws(0.5, 0.001) == 10
    assert best_lower_bound(10, 0.001) == pytest.approx(0.501187, abs=1e-6)
    for alpha in (0.3, 0.05, 1e-6):
        n = fewest_draws(0.5, alpha)
        assert best_lower_bound(n, alpha) > 0.5
        assert n == 1 or best_lower_bound(n - 1, alpha) <= 0.5
