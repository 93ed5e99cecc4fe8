"""Plans: exact figures are the tables' own, simulated ones agree with exact ones and with the driver itself."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from made_runs import log_of, record
from scipy.stats import binom

from smoothcert.boundaries import profile
from smoothcert.bounds import lower_bound, proven_radii
from smoothcert.contracts import Answer, Source
from smoothcert.errors import OptionError, RunError
from smoothcert.noise.gaussian import Gaussian
from smoothcert.plan import cost
from smoothcert.plan.like import counted, recorded_rate, recovered
from smoothcert.runs.run import Row
from smoothcert.sampling import Budget
from smoothcert.sampling.exhaustive import Exhaustive
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.pilot import Pilot
from smoothcert.sampling.spending import Spending

NOISE = Gaussian(0.25)
CAP, N0, DIM = 4000, 50, 4
SCHEMES = ("fixed", "staged", "anytime", "spending", "leader")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMOOTHCERT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def planned(radii=(0.3,), alpha=0.01, cap=CAP, n=CAP):
    able, unable = cost.radius_tests(NOISE, DIM, Budget(radii, alpha, alpha, cap, n), N0)
    assert unable == []
    return dict(zip(SCHEMES, able, strict=True))


@pytest.mark.parametrize("name", SCHEMES)
def test_expected_draws_are_those_of_the_table(name):
    scheme = planned()[name]
    (p0, table), *none = scheme.tables
    assert none == [] and p0 == NOISE.p_needed(0.3, 1)
    for p in cost.kinds([p0]).values():
        found = cost.prospect(scheme, p)
        assert found.draws.value == profile(table, p).draws + (0 if name == "leader" else N0)
        assert found.gain.value == pytest.approx(profile(table, p).certified) and found.draws.error == 0.0


def test_kinds_are_what_they_say():
    p0 = NOISE.p_needed(0.3, 1)
    for name, scheme in planned().items():
        found = {kind: cost.prospect(scheme, p) for kind, p in cost.kinds([p0]).items()}
        assert found["certain"].gain.value > 0.999 > 0.011 > found["uncertain"].gain.value
        assert found["hopeless"].gain.value < 1e-6 and found["comfortable"].gain.value > 0.9
        if name != "fixed":
            draws = {kind: prospect.draws.value for kind, prospect in found.items()}
            assert draws["certain"] < draws["comfortable"] < draws["uncertain"] > 10 * draws["hopeless"]
    for wanted in ([0.5], [0.6, 0.999999], [0.99]):
        kinds = cost.kinds(wanted)
        assert 0 < kinds["hopeless"] < min(wanted) <= max(wanted) == kinds["uncertain"]
        assert max(wanted) < kinds["comfortable"] <= kinds["certain"] < 1


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("radii", [(0.3,), (0.1, 0.3)])
def test_the_worst_error_is_within_alpha_and_spending_wastes_nothing(name, radii):
    error = planned(radii)[name].error()
    assert error <= 0.01
    if name in ("spending", "leader"):
        assert error >= 0.0095


@pytest.mark.parametrize("name", SCHEMES)
def test_simulated_means_agree_with_exact_ones(name):
    """Inputs above ½ by far, so that no guess is wrong and no other class leads; five standard errors."""
    scheme = planned()[name]
    table = scheme.tables[0][1]
    p = np.array([0.8, 0.87, 0.885, 0.9, 0.95, 0.9999])
    exact = [profile(table, value) for value in p]
    found = cost.expected(scheme, p, paths=20_000)
    draws = np.mean([one.draws for one in exact]) + scheme.selection
    assert abs(found.draws.value - draws) <= 5 * found.draws.error + 1e-9
    assert abs(found.gain.value - np.mean([one.certified for one in exact])) <= 5 * found.gain.error + 1e-6
    assert found.draws.error < 0.02 * draws


@pytest.mark.parametrize("leader", [False, True])
def test_a_simulated_curve_goes_as_the_driver_does(answer, leader):
    """The vectorised simulation against the generator that real runs use, on the same two classes."""
    radii, paths = (0.05, 0.15, 0.25), 300
    sampling = Spending(radii, 0.01, 0.01, 2000)
    scheme = planned(radii, cap=2000)["leader" if leader else "spending"]
    p, rng = 0.75, np.random.default_rng(1)
    source = Source(lambda x: x, NOISE)
    runs = [answer(sampling.test(source, None if leader else 0, 1), [p, 1 - p], rng) for _ in range(paths)]
    driven = np.array([[run.draws, sum(NOISE.p_needed(r, 1) <= run.low for r in radii)] for run in runs])
    draws, proven = cost.simulate(scheme, np.full(20_000, p), np.random.default_rng(2))
    for mine, theirs in ((draws - scheme.selection, driven[:, 0]), (proven, driven[:, 1])):
        assert abs(mine.mean() - theirs.mean()) <= 5 * theirs.std() / math.sqrt(paths)
    assert set(proven.tolist()) >= {1, 2}, "the case must be able to tell curves from single radii"


def test_below_one_half_the_leader_is_whoever_leads():
    """Two classes of ½: the leader's lead makes its count larger than either class's own."""
    scheme = planned((0.0,))["leader"]
    one = profile(scheme.tables[0][1], 0.5).certified
    assert cost.expected(scheme, np.array([0.5]), 20_000).gain.value > 1.4 * one


def test_a_guess_can_be_wrong():
    rng = np.random.default_rng(0)
    found = cost.tested(np.full(20_000, 0.52), 51, rng)
    wrong = (found == 0.48).mean()
    assert set(np.round(found, 9).tolist()) == {0.52, 0.48}
    assert abs(wrong - binom.cdf(25, 51, 0.52)) < 0.02
    assert (cost.tested(np.full(100, 0.99), 51, rng) == 0.99).all()


def test_means_weigh_inputs_alike_however_often_each_is_simulated():
    values, repeats = np.array([0.0, 2.0, 1.0, 1.0, 1.0, 5.0]), np.array([2, 4])
    found = cost.mean_of(values, repeats)
    assert found.value == (1.0 + 2.0) / 2
    assert found.error == pytest.approx(math.sqrt(np.var([0, 2], ddof=1) / 2 + np.var([1, 1, 1, 5], ddof=1) / 4) / 2)


def test_schemes_that_cannot_are_named_and_spending_must():
    able, unable = cost.radius_tests(NOISE, DIM, Budget((0.75,), 0.001, 0.001, 5800, 3000), 100)
    assert [scheme.name for scheme in able] == ["spending", "spending, leader"]
    assert len(unable) == 3 and unable[0] == (
        "fixed n=3000: n of fixed must be at least 5114 to certify radius 0.75; got 3000"
    )
    with pytest.raises(OptionError, match="must allow at least 5114 draws"):
        cost.radius_tests(NOISE, DIM, Budget((0.75,), 0.001, 0.001, 5000, 100_000), 100)


def test_the_mean_radius_of_fixed_n_is_exact_within_its_error():
    n, p = 500, 0.9
    hits = np.arange(n + 1)
    radii = np.maximum(proven_radii(hits, n, 0.001, NOISE, 1), 0.0)
    found = cost.full_radius(Fixed(n, 0.001), NOISE, DIM, np.array([p]), 50, 20_000)
    assert abs(found.gain.value - binom.pmf(hits, n, p) @ radii) <= 5 * found.gain.error
    assert found.draws.value == n + 50
    assert cost.reach(NOISE, DIM, n, 0.001) == radii[-1] and radii[n // 2] == 0.0


def test_pilot_draws_are_counted():
    pilot = Pilot(0.001, cap=20_000, pilot=200, loss=0.05)
    sure = cost.full_radius(pilot, NOISE, DIM, np.array([1 - 1e-9]), 50, 200)
    hopeless = cost.full_radius(pilot, NOISE, DIM, np.array([0.3]), 50, 200)
    assert sure.draws.value == 50 + 10 * 200 + pilot.choose(NOISE, 2000, 2000, 1) and sure.draws.error == 0
    assert hopeless.draws.value < 50 + 200 + 1000 and hopeless.gain.value == 0


def row(index, predicted, radius, **more):
    return Row(index, 0, predicted, radius, **more)


def test_a_logs_radii_give_back_their_hits():
    n, alpha, hits = 1000, 0.01, [560, 700, 950, 999]
    rows = [row(i, 0, float(NOISE.sigma * _quantile(lower_bound(hit, n, alpha)))) for i, hit in enumerate(hits)]
    rows += [row(10, -1, 0.0), row(11, 0, cost.reach(NOISE, DIM, n, alpha))]
    p, notes = recovered(log_of(rows), NOISE, DIM, n, alpha)
    assert p[:4].tolist() == [hit / n for hit in hits]
    assert 0.30 <= p[4] <= 0.505 and 1e-8 <= 1 - p[5] <= 1e-3
    assert "1000 draws at alpha 0.01" in notes[0] and notes[1].startswith("1 abst") and notes[2].startswith("1 input")
    assert (recovered(log_of(rows), NOISE, DIM, n, alpha)[0] == p).all()


def _quantile(p):
    from scipy.special import ndtri

    return ndtri(p)


def test_a_runs_counts_are_used_as_they_are():
    answers = (
        Answer("clean", 1, ((0, 1, 0),)),
        Answer("guess", 10, ((1, 9, 0),)),
        Answer("test", 100, ((60, 30, 10),)),
        Answer("test", 100, ((50, 40, 10),)),
    )
    assert counted(row(0, -1, 0.0, answers=answers)) == (70, 200)  # of the class that the guess chose
    assert counted(row(0, 0, 0.1, answers=answers)) == (110, 200)
    assert counted(row(0, -1, 0.0, answers=answers[2:])) == (110, 200)
    assert counted(row(0, -1, 0.0, answers=answers[:2])) is None
    made = replace(record("run", [], {}), rows=(row(0, 1, 0.1, answers=answers), row(1, 1, 0.1)))
    p, notes = recovered(made, NOISE, DIM, 10)
    assert p.tolist() == [0.35] and len(notes) == 1


def test_records_that_say_nothing_are_refused():
    with pytest.raises(RunError, match="at least one"):
        recovered(log_of([], "none"), NOISE, DIM, 100)
    with pytest.raises(RunError, match="must have radii"):
        recovered(log_of([row(0, 0, 0.0)], "votes", "predict"), NOISE, DIM, 100)


def test_a_log_of_radii_asked_for_in_advance_shows_no_probability():
    with pytest.raises(RunError, match="must hold the largest radii proven"):
        recovered(log_of([row(0, 0, 0.25)], radii=(0.25,)), NOISE, DIM, 100)
    with pytest.raises(RunError, match="the counts of at least one input"):
        recovered(replace(record("recalled", [], {}), rows=(row(0, 1, 0.1),)), NOISE, DIM, 100)


def test_a_new_scheme_is_one_new_file(monkeypatch):
    """A plan asks the catalogue: whoever has `planned` is compared, after the plainer ones."""
    parts = {
        "spending": Spending,
        "fixed": Fixed,
        "exhaustive": Exhaustive,
        "late": type("Late", (Spending,), {"name": "late"}),
    }
    monkeypatch.setattr(cost.catalog, "names", lambda folder: [*parts])
    monkeypatch.setattr(cost.catalog, "find", lambda folder, name: (parts[name], {}))
    assert list(cost.offered(Budget((0.3,), 0.01, 0.01, CAP, CAP))) == ["fixed n=4000", "spending", "late"]
    assert list(cost.offered(Budget((), 0.01, 0.01, CAP, CAP))) == ["fixed n=4000"]


def test_the_recorded_rate():
    timed = (row(0, 0, 0.1, seconds=2.0), row(1, 0, 0.1, seconds=3.0, draws=50))
    found = recorded_rate(log_of(timed), 400)
    assert found is not None and found.draws == (500 + 50) / 5.0 and "as fast as log was" in found.source
    assert recorded_rate(log_of([row(0, 0, 0.1)]), 400) is None
