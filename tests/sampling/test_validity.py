"""Every scheme that certifies a known radius: its error at the worst p, computed exactly, is at most alpha."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from smoothcert.boundaries import Boundaries, Crossings, leader_alpha, profile, smallest
from smoothcert.bounds import lower_bound
from smoothcert.sampling.anytime import Anytime
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.spending import Spending, looks
from smoothcert.sampling.staged import Staged

RATIOS = (0.1, 0.5, 1.0, 2.0, 3.0)  # r/σ
ALPHAS = (0.05, 0.001)


def schemes(alpha, beta=0.001):
    return {
        "fixed": Fixed(alpha=alpha),
        "staged": Staged((1.0,), alpha, beta),
        "spending": Spending((1.0,), alpha, beta),
        "anytime": Anytime((1.0,), alpha, beta),
    }


def without_giving_up(table: Boundaries) -> Boundaries:
    return Boundaries(table.size, table.accept, table.size + 1, table.fresh)


def test_every_scheme_for_known_radii_is_here():
    from smoothcert import catalog

    known = [name for name in catalog.names("sampling") if hasattr(catalog.find("sampling", name)[0], "boundaries")]
    assert sorted(schemes(0.05)) == known


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("name", sorted(schemes(0.05)))
def test_the_error_at_the_worst_p_is_at_most_alpha(name, ratio, alpha):
    p0 = float(ndtr(ratio))
    table = schemes(alpha)[name].boundaries(p0)
    # The null is p ≤ p0; crossing is likelier the larger p, so p0 is the worst. Giving up can only lower the error.
    assert profile(without_giving_up(table), p0).certified <= alpha
    assert profile(table, p0).certified <= alpha
    assert profile(table, p0 - 0.01).certified <= profile(table, p0).certified


@pytest.mark.parametrize("beta", ALPHAS)
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("name", ["staged", "spending", "anytime"])
def test_the_error_of_giving_up_is_at_most_beta(name, ratio, beta):
    p0 = float(ndtr(ratio))
    table = schemes(0.001, beta)[name].boundaries(p0)
    assert profile(table, p0).given_up <= beta
    assert profile(Boundaries(table.size, table.size + 1, table.reject, table.fresh), p0).given_up <= beta


@pytest.mark.parametrize("ratio", RATIOS)
def test_spending_wastes_nothing(ratio):
    p0 = float(ndtr(ratio))
    table = Spending((1.0,), 0.05).boundaries(p0)
    assert profile(without_giving_up(table), p0).certified >= 0.95 * 0.05


def retested(alpha: float, p0: float) -> Boundaries:
    """The negative control: Clopper–Pearson at full alpha at every look, as if each were the only one."""
    size = looks(100, 120_000)
    accept = [smallest(0, n, lambda k, n=n: lower_bound(k, n, alpha) >= p0) for n in size.tolist()]
    return Boundaries(size, np.array(accept), size + 1)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("ratio", RATIOS[:4])
def test_retesting_at_every_look_fails_the_same_test(ratio, alpha):
    p0 = float(ndtr(ratio))
    assert profile(retested(alpha, p0), p0).certified > 2 * alpha


def brute(table: Boundaries, p: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """P(certify), P(give up), E[draws] by rational arithmetic over every count, as the rule reads."""
    alive, certify, give_up, draws = {0: Fraction(1)}, Fraction(0), Fraction(0), Fraction(0)
    for j, more in enumerate(table.draws.tolist()):
        draws += more * sum(alive.values())
        new: dict[int, Fraction] = {}
        for hits, mass in alive.items():
            for k in range(more + 1):
                at = (0 if table.fresh else hits) + k
                new[at] = new.get(at, Fraction(0)) + mass * comb(more, k) * p**k * (1 - p) ** (more - k)
        alive = {}
        for hits, mass in new.items():
            verdict = table.verdict(j, hits).value
            if verdict == "certify":
                certify += mass
            elif verdict == "give up":
                give_up += mass
            else:
                alive[hits] = mass
    return certify, give_up, draws


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("p", [Fraction(1, 10), Fraction(3, 5), Fraction(19, 20)])
def test_profiles_are_exact(fresh, p):
    size = np.array([5, 9, 16])
    table = Boundaries(size, np.array([5, 8, 12]), np.array([4, 5, 17]), fresh)
    certify, give_up, draws = brute(table, p)
    found = profile(table, float(p))
    assert found.certify.sum() == pytest.approx(float(certify), rel=1e-12)
    assert found.give_up.sum() == pytest.approx(float(give_up), rel=1e-12)
    assert found.draws == pytest.approx(float(draws), rel=1e-12)
    assert found.certify.sum() + found.give_up.sum() + found.running[-1] == pytest.approx(1.0, abs=1e-12)


def test_spending_is_at_most_alpha_in_rational_arithmetic():
    p0 = 0.75
    table = Spending((1.0,), 0.05, 0.05, cap=40, spacing=5).boundaries(p0)
    certify, give_up, _ = brute(table, Fraction(p0))
    assert 0.03 < certify <= Fraction(0.05)
    assert brute(without_giving_up(table), Fraction(p0))[0] <= Fraction(0.05)
    assert give_up <= Fraction(0.05)


def test_large_windows_lose_next_to_nothing():
    """A whole test at p0 = .9987 against scipy's binomial for its first look, and dust that stays dust."""
    p0 = float(ndtr(3.0))
    table = Spending((1.0,), 0.05).boundaries(p0)
    found = profile(table, p0)
    assert found.truncated_mass < 1e-15
    single = Boundaries(table.size[-1:], table.accept[-1:], table.size[-1:] + 1)
    assert profile(single, p0).certified == pytest.approx(binom.sf(table.accept[-1] - 1, 120_000, p0), rel=1e-9)


def test_looking_at_any_of_the_looks_is_allowed():
    """Optional stopping on top: looks skipped at random, and hits that already reach a later boundary."""
    rng, alpha = np.random.default_rng(0), 0.05
    for ratio in (0.5, 2.0):
        p0 = float(ndtr(ratio))
        for scheme in (Spending((1.0,), alpha, cap=5000), Anytime((1.0,), alpha, cap=5000)):
            table = scheme.boundaries(p0)
            hits = np.cumsum(rng.binomial(table.draws, p0, size=(20_000, len(table.size))), axis=1)
            seen = rng.random(hits.shape) < rng.random((20_000, 1))
            wrong = ((hits >= table.accept) & seen).any(axis=1).sum()
            assert wrong <= binom.ppf(1 - 1e-6, 20_000, alpha)


# --- the leader -------------------------------------------------------------------------------------------------


def crossing_of_any_class(table: Boundaries, p: tuple[float, float, float], counted: set[int]) -> float:
    """P(some counted class ever reaches the boundary), by carrying all three counts; giving up ignored."""
    top = int(table.size[-1]) + 1
    state = np.zeros((top, top))
    state[0, 0], crossed = 1.0, 0.0
    for j, draws in enumerate(table.draws.tolist()):
        for _ in range(draws):
            new = state * p[2]
            new[1:, :] += state[:-1, :] * p[0]
            new[:, 1:] += state[:, :-1] * p[1]
            state = new
        rows, columns = np.indices(state.shape)
        hits = (rows, columns, int(table.size[j]) - rows - columns)
        over = np.zeros(state.shape, dtype=bool)
        for which in range(3):
            over |= hits[which] >= table.accept[j]
        wrong = np.zeros(state.shape, dtype=bool)
        for which in counted:
            wrong |= hits[which] >= table.accept[j]
        crossed += state[wrong].sum()
        state[over] = 0.0
    return crossed


@pytest.mark.parametrize(
    "scheme", [Spending((1.0,), 0.05, cap=60, spacing=10), Anytime((1.0,), 0.05, cap=60, spacing=10)]
)
@pytest.mark.parametrize("p0", [0.5001, 0.55, 0.7, 0.9])
def test_the_leader_is_wrong_at_most_alpha_for_any_distribution(scheme, p0):
    table = scheme.boundaries(p0, leader_alpha(scheme, (p0,), p0))
    below = p0 * (1 - 1e-9)
    for first in np.linspace(1 / 3, below, 6):
        for share in (0.0, 0.2, 0.5):
            rest = 1 - first
            p = (first, rest * (1 - share), rest * share)
            if max(p) < p0:
                assert crossing_of_any_class(table, p, {0, 1, 2}) <= scheme.alpha
    for first in (p0, (1 + p0) / 2):  # a class that may be certified: the others may not
        assert crossing_of_any_class(table, (first, 1 - first, 0.0), {1, 2}) <= scheme.alpha


@pytest.mark.parametrize("p0", [0.55, 0.9])
def test_crossings_move_to_other_probabilities_exactly(p0):
    table = Spending((1.0,), 0.05, cap=2000).boundaries(p0)
    crossings = Crossings.of(table, p0)
    for p in (p0, p0 - 0.02, 0.5):
        assert crossings.at(p) == pytest.approx(profile(without_giving_up(table), p).certified, rel=1e-8, abs=1e-15)


def test_the_leader_costs_little_where_one_half_is_far():
    scheme = Spending((1.0,), 0.001)
    assert leader_alpha(scheme, (p0 := float(ndtr(0.25)),), p0) > 0.00099
    assert leader_alpha(scheme, (0.5,), 0.5) == pytest.approx(0.0005)
