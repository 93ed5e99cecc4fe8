"""How sure the audit is, by exact computation: no honest run is accused more often than it says."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb

import pytest

from smoothcert.audit import chance


def binomial(k, n, p):
    return comb(n, k) * p**k * (1 - p) ** (n - k)


@pytest.mark.parametrize(("n", "level"), [(10, 0.02), (31, 0.001), (60, 1e-6)])
def test_half_is_rejected_wrongly_with_at_most_the_level_and_no_sooner_than_it_could_be(n, level):
    rejected = [k for k in range(n + 1) if chance.shown_below(k, n, 0.5, level)]
    assert rejected == list(range(len(rejected))) and rejected
    for p in (Fraction(1, 2), Fraction(51, 100), Fraction(9, 10)):
        assert sum(binomial(k, n, p) for k in rejected) <= level
    assert sum(binomial(k, n, Fraction(1, 2)) for k in [*rejected, len(rejected)]) > level


def test_nothing_drawn_shows_nothing():
    assert not chance.shown_below(0, 0, 0.5, 0.1)


def test_stored_against_fresh_is_fishers_test():
    for k1, k2 in itertools.product(range(0, 13, 3), range(0, 10)):
        total, ways = k1 + k2, comb(21, k1 + k2)
        tail = sum(comb(9, j) * comb(12, total - j) for j in range(max(0, total - 12), k2 + 1))
        assert chance.as_few(k1, 12, k2, 9) == pytest.approx(min(1.0, tail / ways), rel=1e-10)


@pytest.mark.parametrize("p", [0.05, 0.4, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("level", [0.2, 0.01])
def test_honest_votes_are_called_invented_with_at_most_the_level(p, level):
    wrong = sum(
        binomial(k1, 12, p) * binomial(k2, 9, p)
        for k1 in range(13)
        for k2 in range(10)
        if chance.as_few(k1, 12, k2, 9) <= level
    )
    assert wrong <= level


def test_invented_votes_are_named():
    assert chance.as_few(10_000, 10_000, 900, 1000) < 1e-50
    assert chance.as_few(9_000, 10_000, 900, 1000) > 0.4


@pytest.mark.parametrize("trials", [1, 12, 200, 5000])
@pytest.mark.parametrize("alpha", [0.0, 0.001, 0.05])
def test_as_many_are_excused_as_alpha_makes_likely_and_no_more(trials, alpha):
    error, number = 0.001, chance.excused(trials, alpha, 0.001)
    with localcontext(prec=60):
        p, allowed = Decimal(alpha) + Decimal(chance.each(error, trials)), Decimal(error) / 6

        def more_than(r):
            return 1 - sum(binomial(k, trials, p) for k in range(r + 1))

        assert more_than(number) <= allowed * (1 + Decimal("1e-9"))
        assert number == 0 or more_than(number - 1) > allowed * (1 - Decimal("1e-9"))
    assert alpha > 0 or number == 0


def test_all_ways_to_accuse_an_honest_run_add_up_to_the_error():
    """Fresh: every invented vote or too many contradicted; attack: too many contradicted; noise: one of five."""
    error, trials = 0.001, 200
    share = chance.share(error)
    invented, contradicted = trials * chance.each(error, trials), share / 2
    assert (invented + contradicted) + contradicted + share <= error
