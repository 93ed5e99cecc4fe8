"""An ensemble beside its members: known radii give known figures, and runs are found, compared or refused."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import small_run
from made_runs import log_of, run_of
from scipy.stats import binom
from test_page import Shape

from smoothcert.bounds import lower_bound
from smoothcert.cli.main import run
from smoothcert.contracts import Answer
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.uniform import Uniform
from smoothcert.report import plots, render, tables
from smoothcert.report.ensembles import Comparison, compare, expected_radius, reaching, with_draws
from smoothcert.report.families import Family, Found, difference
from smoothcert.report.html import page
from smoothcert.report.metrics import Share, envelope, figures
from smoothcert.report.paired import Estimate, resampled
from smoothcert.report.section import Section
from smoothcert.report.sections import ensembles
from smoothcert.runs.run import Row, Run
from smoothcert.runs.store import read
from smoothcert.sampling.fixed import Fixed

RADII = [0.0, 0.25, 0.5]


def record(name: str, reached: Sequence[float], means: dict[str, object] | None = None, **changes: object) -> Run:
    """A run whose inputs have these radii; −1 stands for a wrong label certified with radius 1."""
    rows = tuple(Row(i, 0, 1, 1.0, 100, 2.0) if r < 0 else Row(i, 0, 0, r, 100, 2.0) for i, r in enumerate(reached))
    return run_of(rows, name, means=means, **changes)


def family(*members: Sequence[float], ours: Sequence[float], **changes: object) -> Family:
    runs = tuple(record(f"m{i}", reached, **changes) for i, reached in enumerate(members))
    return Family(record("ens", ours, **changes), runs, len(members))


def shown(*families: Family) -> Section:
    return ensembles.section(
        [run for one in families for run in (one.ensemble, *one.members)], RADII, Found([*families], [])
    )


@pytest.fixture(scope="module")
def found() -> Comparison:
    together = family([0.0, 0.3, -1.0, 0.6], [0.2, 0.2, 0.45, -1.0], ours=[0.1, 0.4, 0.6, 0.6])
    (made,) = compare([together], RADII)
    return made


def test_figures_are_those_of_the_radii(found: Comparison) -> None:
    assert found.ensemble.acr == pytest.approx(1.7 / 4) and found.ensemble.certified == {0.0: 1.0, 0.25: 0.75, 0.5: 0.5}
    assert found.strongest.name == "m0" and found.strongest.acr == pytest.approx(0.225)
    assert found.strongest.certified == {0.0: 0.75, 0.25: 0.5, 0.5: 0.25}  # a right label with radius 0 counts at 0
    assert found.average.acr == pytest.approx(0.21875)
    assert found.average.acr_sd == pytest.approx(0.0125 / math.sqrt(2))
    assert found.average.certified == {0.0: 0.75, 0.25: 0.375, 0.5: 0.125}
    assert found.average.certified_sd == pytest.approx({0.0: 0.0, 0.25: 0.25 / math.sqrt(2), 0.5: 0.25 / math.sqrt(2)})
    assert found.envelope.certified == {0.0: 0.75, 0.25: 0.5, 0.5: 0.25} and found.envelope.acr == pytest.approx(0.225)
    assert found.over_strongest.acr.value == pytest.approx(0.2)
    assert found.over_average.acr.value == pytest.approx(0.20625)
    assert found.over_strongest.relative is None  # some resample has nothing but a radius of 0
    assert found.over_average.certified[0.25].value == pytest.approx(0.375)
    assert found.pairs.tolist() == [[0.2, 0.1], [0.3, 0.4], [0.45, 0.6], [0.6, 0.6]] and found.sides == (2, 1, 1)
    assert found.cost is found.time is found.same is None  # nothing counted, no other run, no votes


def test_figures_agree_with_those_of_the_report() -> None:
    rng = np.random.default_rng(0)
    members = [np.where(rng.random(60) < 0.2, -1.0, rng.random(60)) for _ in range(4)]
    made = family(*members, ours=np.where(rng.random(60) < 0.1, -1.0, rng.random(60)))
    (found,) = compare([made], RADII)
    each = [figures(run, RADII) for run in made.members]
    assert found.ensemble.acr == pytest.approx(figures(made.ensemble, RADII).acr)
    assert found.average.acr == pytest.approx(np.mean([one.acr for one in each]))
    assert found.average.acr_sd == pytest.approx(np.std([one.acr for one in each], ddof=1))
    assert found.envelope.certified == {r: s.value for r, s in envelope(made.members, RADII).items()}
    assert found.strongest.acr == pytest.approx(max(one.acr for one in each))
    estimates = [found.over_average.acr, found.over_strongest.acr, *found.over_average.certified.values()]
    assert all(one.low <= one.value <= one.high for one in estimates)


def test_radii_beyond_the_question_are_left_out() -> None:
    asked = {"name": "spending", "radii": [0.25], "alpha": 0.05, "beta": 0.05, "cap": 500, "spacing": 100}
    made = family([0.25, 0.25], [0.25, -1.0], ours=[0.25, 0.25], sampling=asked)
    (found,) = compare([made], RADII)
    assert found.radii == (0.0, 0.25) and list(found.over_average.certified) == [0.0, 0.25]
    curve = ensembles.curve_figure(found)
    assert max(max(line.get_xdata()) for line in curve.axes[0].get_lines()) == 0.25


# ── paired intervals


def test_resamples_have_the_distribution_of_the_bootstrap() -> None:
    drawn = resampled(np.array([[[1.0], [0.0]], [[0.0], [0.0]]]), resamples=20_000)
    values, times = np.unique(drawn.drawn[:, 0, 0], return_counts=True)
    assert values.tolist() == [0.0, 0.5, 1.0]  # two inputs: none, one or both of a resample is the first
    assert np.abs(times / 20_000 - [0.25, 0.5, 0.25]).max() < 4 * math.sqrt(0.25 / 20_000)
    assert drawn.gain(0, 1, 0) == (0.5, 0.0, 1.0) and drawn.relative(0, 1, 0) is None


def test_what_inputs_share_cancels() -> None:
    hard = np.random.default_rng(1).normal(0.0, 100.0, 50)
    drawn = resampled(np.stack([hard + 0.25, hard], axis=1)[:, :, None], resamples=200)
    assert drawn.gain(0, 1, 0) == pytest.approx((0.25, 0.25, 0.25))
    assert np.ptp(drawn.drawn[:, 0, 0]) > 10.0  # each alone varies much


def test_relative_gains_are_of_the_ratio_of_means() -> None:
    theirs = np.random.default_rng(2).uniform(0.5, 1.0, 40)
    drawn = resampled(np.stack([1.2 * theirs, theirs], axis=1)[:, :, None], resamples=200)
    assert drawn.relative(0, 1, 0) == pytest.approx((0.2, 0.2, 0.2))


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng, sets, covered = np.random.default_rng(3), 400, 0
    for seed in range(sets):
        easy = rng.exponential(0.5, 150)  # skewed, as radii are
        pair = np.stack([easy + rng.exponential(0.1, 150), easy], axis=1)[:, :, None]
        _, low, high = resampled(pair, resamples=400, seed=seed).gain(0, 1, 0)
        covered += low <= 0.1 <= high
    # A percentile interval of 150 skewed values covers about 94 %; the rest is the chance of 400 data sets.
    assert 0.94 - 3 * math.sqrt(0.94 * 0.06 / sets) < covered / sets <= 0.985


def test_the_same_runs_give_the_same_intervals() -> None:
    values = np.random.default_rng(4).random((30, 2, 3))
    assert np.array_equal(resampled(values).drawn, resampled(values).drawn)


# ── the same number of evaluations on one member


@pytest.mark.parametrize("noise", [Gaussian(0.5), Uniform(lam=0.5)])
@pytest.mark.parametrize("n", [50, 20_000])
def test_the_expected_radius_is_the_sum_over_all_hits(n: int, noise: Gaussian | Uniform) -> None:
    sampling, p = Fixed(n, 0.01), np.array([0.0, 0.5, 0.62, 0.9, 0.999, 1.0])
    lows = [lower_bound(k, n, 0.01) for k in range(n + 1)]
    radii = np.array([_radius(noise, low) for low in lows])
    exact = [float(binom.pmf(np.arange(n + 1), n, one) @ radii) for one in p]
    # Steps of s = 7 hits over the kink at ½ may miss s²/8 · slope a hit · P(hits there) ≈ 6 · 6e-5 · 4e-4.
    assert expected_radius(p, sampling, noise, 3) == pytest.approx(exact, abs=2e-7)
    for need in (0.5, 0.8, 0.9999):
        proven = np.array([low >= need for low in lows])
        exact = [float(binom.pmf(np.arange(n + 1), n, one) @ proven) for one in p]
        assert reaching(p, sampling, need) == pytest.approx(exact, abs=1e-9)


def _radius(noise: Gaussian | Uniform, low: float) -> float:
    import torch

    sure = torch.tensor(low, dtype=torch.float64)
    return float(noise.radius(sure, 1 - sure, 0)) if low > 0.5 else 0.0


def voted(votes: Sequence[tuple[int, int]], labels: Sequence[int], n: int = 100, **more: object) -> Run:
    """A run of CERTIFY with these votes; the class tested is 0."""
    rows, noise = [], Gaussian(0.5)
    for i, (counts, label) in enumerate(zip(votes, labels, strict=True)):
        low = lower_bound(counts[0], n, 0.05)
        answers = (Answer("guess", 10, ((8, 2),)), Answer("test", n, (counts,)))
        rows.append(Row(i, label, 0 if low > 0.5 else -1, _radius(noise, low), n + 10, 1.0, 0, low, answers))
    sampling = {"name": "fixed", "n": n, "alpha": 0.05}
    return run_of(rows, "voted", noise={"name": "gaussian", "sigma": 0.5}, sampling=sampling, **more)


def test_more_draws_are_computed_from_the_votes() -> None:
    run_ = voted([(90, 10), (55, 45), (100, 0), (95, 5)], [0, 0, 0, 1])
    more = with_draws(run_, 5.0, [0.0, 0.5])
    assert more is not None and more.draws == 500
    share = expected_radius(np.array([0.9, 0.55, 1.0]), Fixed(500, 0.05), Gaussian(0.5), 64)
    assert more.acr == pytest.approx(share.sum() / 4)  # the fourth is wrong, and stays so
    assert share[2] == pytest.approx(_radius(Gaussian(0.5), lower_bound(500, 500, 0.05)))
    assert more.certified[0.0] == pytest.approx((2 + binom.sf(_fewest(500) - 1, 500, 0.55)) / 4)
    once = with_draws(run_, 1.0, [0.0])
    assert once is not None and once.draws == 100 and once.acr < more.acr
    assert with_draws(run_, 2.5, [0.0]).draws == 250


def _fewest(n: int) -> int:
    return next(k for k in range(n + 1) if lower_bound(k, n, 0.05) > 0.5)


def test_more_draws_are_left_out_where_they_cannot_be_known() -> None:
    run_ = voted([(90, 10), (60, 40)], [0, 0])
    assert with_draws(run_, 2.0, [0.0]) is not None
    assert with_draws(log_of(run_.rows), 2.0, [0.0]) is None
    assert with_draws(replace(run_, rows=tuple(replace(row, answers=()) for row in run_.rows)), 2.0, [0.0]) is None
    assert with_draws(replace(run_, rows=(replace(run_.rows[0], radius=0.9),)), 2.0, [0.0]) is None


def test_the_draws_are_those_the_ensemble_took() -> None:
    members = [voted([(90, 10), (60, 40)], [0, 0]), voted([(80, 20), (60, 40)], [0, 0])]
    for counted, draws in (
        ({}, 300),
        ({"member_calls": {"members": 3, "rows": 1000, "asked": 2400, "early": 600}}, 240),
    ):
        ens = replace(voted([(90, 10), (60, 40)], [0, 0], means=counted), name="ens")
        made = Family(ens, tuple(members), 3)
        (found,) = compare([made], RADII)
        assert found.same is not None and found.same.draws == draws
        words = shown(made).parts[0].notes
        assert any(line.startswith(f"{draws} draws of voted: as many evaluations") for line in words)


# ── cost


def test_members_asked_and_time_are_against_the_whole_ensemble() -> None:
    counted = {"members": 2, "rows": 1000, "asked": 1250, "early": 750}
    spared = replace(family([0.1, 0.2], [0.2, 0.1], ours=[0.3, 0.3]), whole=False, identity="ab")
    spared = replace(spared, ensemble=record("spared", [0.3, 0.3], {"member_calls": counted}))
    whole = replace(spared, ensemble=record("whole", [0.3, 0.3]), whole=True)
    rows = tuple(replace(row, seconds=4.0) for row in whole.ensemble.rows)
    whole = replace(whole, ensemble=replace(whole.ensemble, rows=rows))
    one, two = compare([spared, whole], RADII)
    assert one.cost is not None and (one.cost.a_draw, one.cost.spared, one.cost.an_input) == (1.25, 0.75, 125.0)
    assert one.time is not None and one.time.against == "whole" and one.time.ratio == pytest.approx(0.5)
    assert two.time is None and two.cost is None
    said = " ".join(shown(spared, whole).parts[0].notes)
    assert "75.0 % of draws did not need all (KCR)" in said and "KCR, the K-consensus rate" in said
    assert "from separate runs" in said
    others = [replace(whole, identity="other"), replace(whole, ensemble=record("x", [0.3, 0.3], {"threads": 2}))]
    assert all(compare([spared, other], RADII)[0].time is None for other in others)


# ── words and pictures


def test_figures_are_rounded_down_and_intervals_outwards(found: Comparison) -> None:
    table = shown(found.family).parts[0].tables[0]
    rows = {name: [column.cells[i] for column in table.columns] for i, name in enumerate(table.names)}
    assert rows["the ensemble"] == ["100.0", "75.0", "50.0", "0.425"]
    assert rows["average of 2 members"] == ["75.0 ± 0.0", "37.5 ± 17.7", "12.5 ± 17.7", "0.218 ± 0.009"]
    assert rows["strongest, m0"][-1] == "0.225"
    pair = np.array([[[0.592], [0.608]]])
    assert ensembles._signed(resampled(pair, 9).gain(0, 1, 0), 2) == "−1.60\n−1.6 to −1.6"
    assert ensembles._signed(Estimate(0.00012, -0.00012, 0.00012)) == "+0.0001\n−0.001 to 0.001"
    assert tables.rounded(-0.0) == "0.000"


def test_the_block_fits_the_terminal(found: Comparison) -> None:
    block = render.plain_text(shown(found.family), 60)
    assert "ensemble ens: 2 members" in block and "±" in block and "…" not in block
    assert max(map(len, block.splitlines())) <= 60
    assert "larger on 2, the same on 1, smaller on 1" in " ".join(block.split())


def test_curves_go_through_the_figures(found: Comparison) -> None:
    axes = ensembles.curve_figure(found).axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    for label, line in (("the ensemble", found.ensemble), ("upper envelope", found.envelope)):
        x, y = lines[label].get_data()
        for radius, share in line.certified.items():
            assert y[np.flatnonzero(np.asarray(x) >= radius)[0]] == pytest.approx(share)
    assert lines["the ensemble"].get_ydata()[-1] == 0.0
    dots = ensembles.scatter_figure(found).axes[0].get_lines()[1].get_xydata()
    assert dots.tolist() == found.pairs.tolist()
    assert plots.steps(found.family.ensemble)[1][0] == Share(4, 4)


def test_acr_over_size_needs_two_sizes(found: Comparison) -> None:
    larger = replace(found, family=replace(found.family, size=3))
    assert shown(found.family).figures == () == shown(found.family, found.family).figures
    (picture,) = shown(found.family, larger.family).figures
    assert "2: 0.425" in picture.alt and "3: 0.425" in picture.alt
    axes = ensembles.size_figure([found, larger]).axes[0]
    assert axes.get_lines()[0].get_xydata() == pytest.approx(np.array([[1, 0.21875], [2, 0.425], [3, 0.425]]))


def test_json_holds_every_figure(found: Comparison) -> None:
    made = json.loads(json.dumps(shown(found.family).data[0]["ensemble"], allow_nan=False))
    assert made["envelope"]["certified_accuracy"] == {"0": 0.75, "0.25": 0.5, "0.5": 0.25}
    assert made["gain"]["over_average"]["certified_accuracy"]["0.25"]["value"] == pytest.approx(0.375)
    assert made["radius_against_best_member"] == {"larger": 2, "equal": 1, "smaller": 1}
    assert made["same_evaluations"] is None and made["members"] == ["m0", "m1"]


def test_runs_that_do_not_compare_say_why() -> None:
    one = record("a", [0.1, 0.2])
    assert difference(one, record("b", [0.3, 0.4])) is None
    assert difference(one, record("b", [0.3])) == "other inputs, 1 of 2 the same"
    assert difference(one, replace(one, kind="predict")) == "predict ≠ certify"
    louder = record("b", [0.3, 0.4], noise={"name": "gaussian", "sigma": 0.5})
    assert difference(one, louder) == "noise: sigma 0.5 ≠ 0.25"
    assert difference(one, record("b", [0.3, 0.4], data_digest="e" * 64)) == "other inputs"
    assert difference(log_of(one.rows), log_of(one.rows, norm="l1")) == "norm l1 ≠ l2"


# ── runs on disk, as a user has them


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three linear classifiers and of ensembles of them: two, three, and three with consensus."""
    folder = tmp_path_factory.mktemp("kin")
    small_run.write_data(folder / "data.npz", 200)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(["ensemble", "lines:a", "lines:b", "--out", "ab"]) == 0
        assert run(["ensemble", "lines:a", "lines:b", "lines:c", "--out", "abc"]) == 0
        assert run(["ensemble", "lines:a", "lines:b", "lines:c", "--consensus", "2", "--out", "abc2"]) == 0
        for model in ("lines:a", "lines:b", "lines:c", "ab", "abc", "abc2"):
            certified(model, model[-1] if ":" in model else f"run-{model}")
        certified("lines:a", "short", "300")
    return folder


def certified(model: str, out: str, n: str = "500") -> None:
    words = ["certify", model, "--data", "data.npz", "--sigma", "0.25", "--skip", "10", "--threads", "1"]
    assert run([*words, "--n", n, "--out", out]) == 0


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(place)
    return place


def test_a_family_is_found_by_its_hashes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "run-abc", "a", "b", "run-abc2", "c", "--json", "--radii", "0,0.25"]) == 0
    objects = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert objects["a"]["ensemble"] is None
    kin = objects["run-abc"]["ensemble"]
    assert (kin["size"], kin["vote"], kin["members"]) == (3, "soft vote", ["a", "b", "c"])
    acrs = [objects[name]["acr"] for name in "abc"]
    assert kin["average"]["acr"] == pytest.approx(np.mean(acrs)) and kin["strongest"]["acr"] == pytest.approx(max(acrs))
    gain = objects["run-abc"]["acr"] - max(acrs)
    assert kin["gain"]["over_strongest"]["acr"]["value"] == pytest.approx(gain)
    assert kin["members_asked_a_draw"] == 3.0 and kin["same_evaluations"]["draws"] == 1500
    fewer = objects["run-abc2"]["ensemble"]
    assert fewer["vote"] == "soft vote in k consensus (k 2)" and fewer["time"]["against"] == "run-abc"
    assert 2.0 <= fewer["members_asked_a_draw"] == pytest.approx(3 - fewer["draws_without_all_members"])
    assert fewer["same_evaluations"]["draws"] == round(500 * fewer["members_asked_a_draw"])


def test_a_page_from_python_has_ensembles_too(here: Path) -> None:
    assert "Ensembles beside their members" in page([read(here / name) for name in ("run-abc", "a", "b", "c")])


def test_without_two_members_nothing_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "run-ab", "a", "c"]) == 0  # c is no member, though its file has the same hash
    out, err = capsys.readouterr()
    assert "gain over" not in out and err == ""


def test_the_page_shows_it_and_stays_well_formed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "run-ab", "run-abc", "run-abc2", "a", "b", "c", "--html", "r.html"]) == 0
    assert "ensemble run-ab: soft vote of 2 members" in capsys.readouterr().out
    text = (here / "r.html").read_text()
    shape = Shape(text)
    assert len(shape.ids) == len(set(shape.ids)) and set(shape.refs) <= set(shape.ids)
    for words in ("Ensembles beside their members", "run-abc: soft vote of 3 members", "ACR over the number", "(KCR)"):
        assert words in shape.text
    assert text.count("<svg") == 1 + 1 + 3 * 2 + 1  # curves, bounds, two of each ensemble, sizes


def test_other_questions_are_refused_with_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "run-abc", "short", "b", "--html", "s.html"]) == 0
    out, err = capsys.readouterr()
    assert "smoothcert: not compared with run-abc: short (sampling: n 300 ≠ 500)\n" in err and "gain over" not in out
    assert "Not compared with run-abc: short" in Shape((here / "s.html").read_text()).text
    assert run(["report", "run-abc", "short", "b", "--ensemble", "run-abc"]) == 2
    assert (
        capsys.readouterr()
        .err.strip()
        .endswith("run short must answer what run-abc answers, on the same inputs; got sampling: n 300 ≠ 500")
    )
    assert run(["report", "run-abc", "short", "a", "b"]) == 0  # of two runs of a member the one that compares is taken
    out, err = capsys.readouterr()
    assert "gain over" in out and "not compared with run-abc: short" in err


def test_a_moved_folder_is_made_up_for(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "abc").rename(here / "gone")
    try:
        assert run(["report", "run-abc", "a", "b"]) == 0
        out, err = capsys.readouterr()
        assert "gain over" not in out and "--ensemble and --members say which runs belong together" in err
        for options in (
            ["--ensemble", "run-abc"],
            ["--members", "a,b"],
            ["--ensemble", "./run-abc/", "--members", "a, b"],
        ):
            assert run(["report", "run-abc", "a", "b", "--json", *options]) == 0
            kin = json.loads(capsys.readouterr().out)[0]["ensemble"]
            assert (kin["size"], kin["vote"], kin["members"]) == (3, None, ["a", "b"])
    finally:
        (here / "gone").rename(here / "abc")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ensemble", "zzz"], "--ensemble must name runs of this report (run-ab, a, b, c); got 'zzz'"),
        (["--members", "a,zzz"], "--members must name runs of this report (run-ab, a, b, c); got 'zzz'"),
        (["--members", "a"], "--ensemble must say which run is of the ensemble; got none, and 3 are left"),
        (["--ensemble", "run-ab", "--members", "a"], "--members must be two other runs"),
        (["--ensemble", "run-ab", "--members", "a,a"], "--members must be two other runs"),
        (["--ensemble", "run-ab", "--members", "a,run-ab"], "--members must be two other runs"),
        (["--ensemble", "run-ab"], "run c must be of a member of run-ab; its model is none of them"),
    ],
)
def test_bad_options_are_one_line(
    options: list[str], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["report", "run-ab", "a", "b", "c", *options]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and len(err.strip().splitlines()) == 1


def test_logs_compare_where_the_user_says_so(here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, shift in (("e", 0.1), ("a", 0.0), ("b", 0.05)):
        lines = [f"{i}\t1\t1\t{0.1 * i + shift}\t1\t1.0" for i in range(5)]
        (tmp_path / name).write_text("\n".join(["idx\tlabel\tpredict\tradius\tcorrect\ttime", *lines]) + "\n")
    logs = [str(tmp_path / name) for name in "eab"]
    assert run(["report", *logs, "--ensemble", "e", "--json"]) == 0
    kin = json.loads(capsys.readouterr().out)[0]["ensemble"]
    assert kin["gain"]["over_strongest"]["acr"] == pytest.approx({"value": 0.05, "low": 0.05, "high": 0.05})
    assert kin["gain"]["over_average"]["acr"]["value"] == pytest.approx(0.075)


def test_a_page_without_ensembles_has_no_section() -> None:
    assert "Ensembles beside" not in page([record("a", [0.1, 0.2]), record("b", [0.1, 0.2])])
