"""Schemes as a user meets them: what they prove on draws with known probabilities, and what they refuse."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from smoothcert.boundaries import profile
from smoothcert.bounds import lower_bound
from smoothcert.contracts import ABSTAIN, Source
from smoothcert.errors import OptionError
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.anytime import Anytime, log_mixture
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.pilot import Pilot
from smoothcert.sampling.runner_up import RunnerUp
from smoothcert.sampling.spending import Spending, looks, tables_folder
from smoothcert.sampling.staged import Staged
from smoothcert.testing import check_error_rate

NOISE = Gaussian(0.5)
SOURCE = Source(lambda x: x, NOISE)
KNOWN = [Spending, Staged, Anytime]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path / "cache"))


def runs(answer, procedure, p, repetitions, truth=None):
    rng = np.random.default_rng(0)
    return [answer(procedure(SOURCE, 4, truth), p, rng) for _ in range(repetitions)]


@pytest.mark.parametrize("scheme", KNOWN)
def test_clear_inputs_are_decided_with_few_draws(answer, scheme):
    procedure = Certify(100, scheme((0.5,)))
    certain = runs(answer, procedure, [0.995, 0.005], 20)
    hopeless = runs(answer, procedure, [0.6, 0.4], 20)
    assert all(c.label == 0 and c.radius == 0.5 and c.guarantee == "smoothing" for c in certain)
    assert all(c.label == ABSTAIN and c.radius == 0.0 for c in hopeless)
    assert max(c.evidence.draws for c in [*certain, *hopeless]) < 3000


@pytest.mark.parametrize("against", ["guess", "leader", "labels"])
@pytest.mark.parametrize("scheme", [Spending, Anytime])
def test_wrong_certificates_are_as_rare_as_alpha(scheme, against):
    """p just below what the radius needs: whoever certifies is wrong."""
    procedure = Certify(20, scheme((0.5,), 0.05, 0.05, cap=3000), against)
    p = NOISE.p_needed(0.5, 4) - 1e-6
    check_error_rate(procedure, SOURCE, [p, 1 - p], radius=0.0, inputs=1500, dim=4)


def test_used_draws_are_those_the_exact_profile_expects(answer):
    scheme = Spending((0.5,), cap=20_000)
    for p in (0.8, 0.9, 0.99):
        exact = profile(scheme.boundaries(NOISE.p_needed(0.5, 4)), p)
        used = [c.evidence.draws for c in runs(answer, Certify(100, scheme), [p, 1 - p], 400)]
        assert np.mean(used) == pytest.approx(exact.draws, abs=5 * np.std(used) / 20 + 1e-9)


@pytest.mark.parametrize("scheme", KNOWN)
def test_a_curve_of_radii_proves_the_largest_it_can(answer, scheme):
    radii = (0.0, 0.25, 0.5, 0.75, 1.0)
    for true in (0.1, 0.4, 0.9):
        p = float(ndtr(true / 0.5))
        found = {c.radius for c in runs(answer, Certify(100, scheme(radii)), [p, 1 - p], 10)}
        assert found <= {r for r in radii if r <= true} and max(found) == max(r for r in radii if r <= true)


def test_one_alpha_covers_the_whole_curve(answer):
    """Between two radii: the smaller is proven almost always, the larger, wrongly, with probability ≤ alpha."""
    p = NOISE.p_needed(0.5, 4) - 1e-6
    found = runs(answer, Certify(20, Spending((0.1, 0.2, 0.5, 0.6), 0.05, 0.05, cap=3000)), [p, 1 - p], 1500)
    assert sum(c.radius >= 0.5 for c in found) <= binom.ppf(1 - 1e-6, 1500, 0.05)
    assert sum(c.radius >= 0.2 for c in found) > 1400


def test_draws_of_a_curve_are_shared(answer):
    one = runs(answer, Certify(100, Spending((0.5,))), [0.99, 0.01], 1)[0].evidence.draws
    several = runs(answer, Certify(100, Spending((0.1, 0.2, 0.3, 0.4, 0.5))), [0.99, 0.01], 1)[0].evidence.draws
    assert several <= one + 200


def test_the_true_label_is_tested_when_asked_and_never_another(answer):
    procedure = Certify(100, Spending((0.25,)), "labels")
    assert runs(answer, procedure, [0.01, 0.99], 1, truth=1)[0].label == 1
    assert runs(answer, procedure, [0.01, 0.99], 1, truth=0)[0].label == ABSTAIN


def test_the_leader_needs_no_draws_for_choosing(answer):
    steps = Certify(100, Spending((0.25,)), "leader")(SOURCE, 4)
    assert next(steps).purpose == "test"
    assert runs(answer, Certify(100, Spending((0.25,)), "leader"), [0.02, 0.98], 1)[0].label == 1


def test_runner_up_gains_where_the_rest_is_spread_and_loses_little_where_not(answer):
    def radius(sampling, p):
        return np.mean([c.radius for c in runs(answer, Certify(100, sampling), p, 30)])

    spread, lone = [0.7, *[0.03] * 10], [0.7, 0.3]
    plain, bound = Fixed(10_000), RunnerUp(10_000)
    assert radius(bound, spread) > 1.2 * radius(plain, spread)
    assert 0.98 * radius(plain, lone) < radius(bound, lone) <= radius(plain, lone)
    certificate = runs(answer, Certify(100, bound), [0.45, 0.3, 0.25], 1)[0]
    assert certificate.label == 0 and certificate.evidence.low < 0.5 and certificate.radius > 0


def test_runner_up_is_wrong_at_most_alpha():
    p = np.array([0.55, 0.4, 0.05])
    true = 0.5 / 2 * (ndtri(0.55) - ndtri(0.4))
    check_error_rate(Certify(30, RunnerUp(400, 0.05)), SOURCE, p, true, inputs=3000, dim=4)


def test_pilot_spends_where_it_pays_and_its_pilot_is_not_evidence(answer):
    pilot = Pilot()
    hopeless, clear = (runs(answer, Certify(100, pilot), p, 5) for p in ([0.3, 0.35, 0.35], [1.0, 0.0]))
    assert all(c.abstained and c.evidence.draws < 1000 for c in hopeless)
    assert all(c.evidence.draws > 10_000 for c in clear)
    steps = Certify(100, pilot)(SOURCE, 4)
    next(steps)
    first = steps.send(np.array([[90, 10]]))
    test = steps.send(np.array([[900, 100]]))
    assert (first.purpose, test.purpose) == ("pilot", "test") and test.draws <= pilot.cap
    with pytest.raises(StopIteration) as end:
        steps.send(np.array([[test.draws, 0]]))
    assert end.value.value.evidence.low == lower_bound(test.draws, test.draws, 0.001)


def test_looks_are_every_100_then_2_percent_apart_and_end_at_the_cap():
    found = looks(100, 120_000)
    assert found[:5].tolist() == [100, 200, 300, 400, 500] and found[-1] == 120_000
    assert (np.diff(found) >= 100).all() or found[-1] - found[-2] < 100
    late = found[:-1] >= 5000
    assert ((found[1:] / found[:-1])[late] <= 1.04).all()
    assert looks(100, 50).tolist() == [50]


def test_the_mixture_is_a_probability_bound():
    """E[M] = 1 under p0 exactly: the sum over all counts of the likelihood times M."""
    for p0, n in ((0.5, 30), (0.9, 50)):
        total = sum(binom.pmf(k, n, p0) * np.exp(log_mixture(k, n, p0)) for k in range(n + 1))
        assert total == pytest.approx(1.0, rel=1e-9)


def test_tables_are_cached_checked_and_rebuilt_when_damaged(tmp_path):
    from smoothcert.sampling.spending import _table

    _table.cache_clear()
    fresh = Spending((0.5,)).boundaries(0.8)
    (path,) = tables_folder().iterdir()
    good = path.read_bytes()
    for damaged in (
        b"",
        good[:100],
        good.replace(b"columns", b"coLumns"),
        good.replace(b"key", b"kEy"),
        b"[" + good + b"]",
        bytes([*good[:-900], good[-900] ^ 1, *good[-899:]]),
    ):
        path.write_bytes(damaged)
        _table.cache_clear()
        again = Spending((0.5,)).boundaries(0.8)
        assert (again.accept == fresh.accept).all() and (again.reject == fresh.reject).all()
        assert path.read_bytes() == good or damaged == good
    stored = json.loads(good)
    stored["columns"][1] = [hits - 1 for hits in stored["columns"][1]]  # a lower boundary would certify wrongly
    path.write_text(json.dumps(stored))
    _table.cache_clear()
    assert (Spending((0.5,)).boundaries(0.8).accept == fresh.accept).all()


def test_a_cache_that_cannot_be_written_only_costs_time(monkeypatch):
    from smoothcert.sampling.spending import _table

    monkeypatch.setenv("SMOOTHCERT_CACHE", "/proc/nowhere")
    _table.cache_clear()
    assert len(Spending((0.5,)).boundaries(0.81).size) == len(looks(100, 120_000))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Spending(()), "spending certifies a radius known in advance; give --radius or --radii"),
        (lambda: Spending((-0.1,)), "radii of spending must be finite numbers of at least 0"),
        (lambda: Spending((float("nan"),)), "radii of spending must be finite"),
        (lambda: Spending((0.5, 0.25)), "radii of spending must be rising"),
        (lambda: Spending((0.5,), beta=0), "beta of spending must be between 0 and 1"),
        (lambda: Spending((0.5,), spacing=500), "spacing of spending must be at most 100; got 500"),
        (lambda: Spending((1.5,)).check(Gaussian(0.25), 4), "spending must allow at least"),
        (lambda: Spending((100.0,)).check(Gaussian(0.25), 4), "must be within reach of the noise"),
        (lambda: Staged((0.5,), stages=(1000, 100)), "stages of staged must be rising"),
        (lambda: Staged((0.5,), stages=()), "stages of staged must be rising"),
        (
            lambda: Staged((1.0,), stages=(10, 100)).check(Gaussian(0.25), 4),
            "the last stage of staged must allow at least",
        ),
        (lambda: Anytime((1.5,), cap=1000).check(Gaussian(0.25), 4), "anytime must allow at least"),
        (lambda: Pilot(loss=0), "loss of pilot must be between 0 and 1"),
        (lambda: Pilot(cap=5), "cap of pilot must be at least 10"),
        (lambda: RunnerUp(n=10), "n of runner_up must be at least 11"),
        (lambda: Certify(100, Fixed(), "leader"), "sampling must be one that can follow the leading class"),
        (lambda: Certify(100, Fixed(), "truth"), "against of certify must be one of guess, labels, leader"),
    ],
)
def test_what_cannot_work_is_refused_before_any_draw(make, message):
    with pytest.raises(OptionError) as error:
        make()
    assert message in str(error.value)
