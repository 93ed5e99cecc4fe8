"""Schemes built again from recipes: their errors, where inputs were decided, and the draws they are to take."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import log_of, run_of

from smoothcert.boundaries import Boundaries, Verdict, profile
from smoothcert.contracts import Answer, Source
from smoothcert.noise.gaussian import Gaussian
from smoothcert.report.metrics import Share
from smoothcert.report.schemes import Scheme, chain, curve, decisions, estimate, expected_draws, logit, scheme
from smoothcert.report.schemes import stage_outcomes as courses
from smoothcert.report.sections import draws as draw_plots
from smoothcert.runs.run import Row, Run
from smoothcert.sampling._shared import follow

STAGED = {"name": "staged", "radii": [0.25], "alpha": 0.05, "beta": 0.05, "stages": [100, 1_000]}
P25, P50 = (Gaussian(0.25).p_needed(radius, 0) for radius in (0.25, 0.5))  # Φ(1), Φ(2)


@pytest.fixture(autouse=True)
def _tables_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path))


def row(index: int, radius: float, *hits: tuple[int, int], low: float | None = None) -> Row:
    """An input of class 1 of 2 with (hits, draws) in each look; the guess is right."""
    looks = tuple(Answer("test", draws, ((draws - hit, hit),)) for hit, draws in hits)
    answers = (Answer("clean", 1, ((0, 1),)), Answer("guess", 10, ((2, 8),)), *looks)
    drawn = 10 + sum(draws for _, draws in hits)
    return Row(index, 1, 1 if radius else -1, radius, drawn, 1.0, 1, low, answers)


def record(sampling: dict[str, Any], *rows: Row, against: str = "guess") -> Run:
    procedure = {"name": "certify", "n0": 10, "against": against}
    return run_of(rows, "r", sampling=sampling, procedure=procedure)


def found(run: Run) -> Scheme:
    built = scheme(run)
    assert built is not None
    return built


FOUR = record(
    STAGED,
    row(0, 0.25, (100, 100), low=P25),
    row(1, 0.0, (0, 100)),
    row(2, 0.25, (85, 100), (1_000, 1_000), low=P25),
    row(3, 0.0, (85, 100), (850, 1_000)),  # neither shown nor excluded: abstained on after the last stage
)


def test_the_stages_of_four_inputs() -> None:
    (course,) = courses(FOUR, found(FOUR))
    assert course.radius == 0.25 and course.staged and course.untested == Share(0, 4)
    assert [(s.certified.hits, s.given_up.hits, s.undecided.hits) for s in course.stages] == [(1, 1, 2), (1, 1, 0)]
    assert [s.name for s in course.stages] == ["stage 1: 100 draws", "stage 2: 1,000 draws"]


def test_a_curve_of_radii_goes_on_with_the_same_votes() -> None:
    run = record(
        {**STAGED, "radii": [0.25, 0.5]},
        row(0, 0.5, (100, 100), (1_000, 1_000), low=P50),  # 100 of 100 show 0.25; 0.5 needs more
        row(1, 0.25, (100, 100), (900, 1_000), low=P25),
        row(2, 0.0, (0, 100)),
    )
    assert decisions(found(run), run.rows[0]) == [(Verdict.CERTIFY, 0), (Verdict.CERTIFY, 1)]
    small, large = courses(run, found(run))
    assert [s.certified.hits for s in small.stages] == [2, 0] and small.untested.hits == 0
    assert [(s.certified.hits, s.given_up.hits, s.undecided.hits) for s in large.stages] == [(0, 0, 2), (1, 1, 0)]
    assert large.untested == Share(1, 3)


def test_looks_are_counted_up_for_schemes_without_stages() -> None:
    sampling = {"name": "spending", "radii": [0.25], "alpha": 0.05, "beta": 0.05, "cap": 1_500, "spacing": 100}
    mixed = [(85, 100)] * 15
    run = record(sampling, row(0, 0.25, (100, 100), low=P25), row(1, 0.0, (0, 100)), row(2, 0.0, *mixed))
    built = found(run)
    assert built.moments == [("after 100 draws", 0), ("after 1,000 draws", 9), ("after 1,500 draws", 14)]
    (course,) = courses(run, built)
    assert [(s.certified.hits, s.given_up.hits, s.undecided.hits) for s in course.stages] == [(1, 1, 1)] * 3


def test_the_class_that_was_tested_is_the_one_that_is_followed() -> None:
    leader = {"name": "anytime", "radii": [0.25], "alpha": 0.05, "beta": 0.05, "cap": 500, "spacing": 100}
    looks = (Answer("test", 100, ((100, 0),)),)
    first = Row(0, 1, 0, 0.25, 100, 1.0, 1, P25, looks)  # class 0 leads and is certified, wrongly
    run = record(leader, first, against="leader")
    assert courses(run, found(run))[0].stages[0].certified == Share(1, 1)
    labels = record(leader, replace(first, predicted=-1, radius=0.0, low=None), against="labels")
    assert courses(labels, found(labels))[0].stages[0].given_up == Share(1, 1)
    assert 0 < found(run).tests[0].level <= found(labels).tests[0].level == 0.05


def test_rows_that_other_boundaries_made_are_not_explained_by_these() -> None:
    built = found(FOUR)
    assert courses(replace(FOUR, rows=(row(0, 0.0, (100, 100)),)), built) == ()  # these votes certify
    assert courses(replace(FOUR, rows=(row(0, 0.25, (85, 100), low=P25),)), built) == ()  # these do not
    assert courses(replace(FOUR, rows=(Row(0, 1, -1, 0.0, 100),)), built) == ()  # no votes are kept
    assert scheme(replace(FOUR, rows=(row(0, 0.25, (100, 100), low=0.9),))) is None  # another p0


@pytest.mark.parametrize("sampling", [{"name": "fixed", "n": 100, "alpha": 0.05}, {"name": "pilot"}])
def test_what_has_no_boundaries_has_no_scheme(sampling: dict[str, Any]) -> None:
    assert scheme(record(sampling, row(0, 0.0, (0, 100)))) is None
    assert scheme(log_of(FOUR.rows)) is None


def test_errors_at_p0_are_those_of_its_stages() -> None:
    (test,) = found(FOUR).tests
    assert test.p0 == P25
    # Stages are independent: the probability to certify in the second is that of arriving there times its own.
    from scipy.stats import binom

    first, second = (int(k) for k in test.table.accept)
    floor = 100 - int(test.table.reject[0])
    arrives = binom.cdf(first - 1, 100, P25) - binom.cdf(floor, 100, P25)
    error = binom.sf(first - 1, 100, P25) + arrives * binom.sf(second - 1, 1_000, P25)
    assert test.error == pytest.approx(error, rel=1e-9) and test.error <= 0.05
    assert test.lost == pytest.approx(binom.cdf(floor, 100, P25), rel=1e-9)


TABLES = [
    (0.5, Boundaries(np.array([2, 4, 6]), np.array([2, 3, 4]), np.array([3, 3, 4]))),
    (0.7, Boundaries(np.array([2, 4, 6]), np.array([3, 4, 6]), np.array([2, 2, 3]))),
    (0.9, Boundaries(np.array([2, 4, 6]), np.array([3, 5, 6]), np.array([2, 2, 2]))),
]
FRESH = [(p0, Boundaries(np.array([1, 2, 3]), t.accept - 1, t.reject - 1, fresh=True)) for p0, t in TABLES]


@pytest.mark.parametrize("tables", [TABLES, FRESH, TABLES[:1], FRESH[:2]])
@pytest.mark.parametrize("p", [0.0, 0.3, 0.8, 1.0])
def test_a_chain_takes_what_every_sequence_of_draws_takes(tables: list[tuple[float, Boundaries]], p: float) -> None:
    total = 0.0
    for sequence in product([0, 1], repeat=6):
        steps, at = follow(Source(None, None), 1, tables, 0.05, [1.0, 2.0, 3.0]), 0  # type: ignore[arg-type]
        draw = next(steps)
        try:
            while True:
                seen, at = sequence[at : at + draw.draws], at + draw.draws
                draw = steps.send(np.array([[seen.count(0), seen.count(1)]]))
        except StopIteration as end:
            total += p ** sum(sequence) * (1 - p) ** (6 - sum(sequence)) * end.value.draws
    assert chain([table for _, table in tables], p) == pytest.approx(total, abs=1e-12)


def test_one_link_is_the_profile() -> None:
    for test in found(record({**STAGED, "radii": [0.1, 0.4]}, row(0, 0.0, (0, 100)))).tests:
        for p in (0.0, 0.5, test.p0, 0.97, 1.0):
            assert chain([test.table], p) == pytest.approx(profile(test.table, p).draws, rel=1e-12)


@pytest.mark.parametrize("radii", [[0.25], [0.25, 0.5]])
def test_between_its_points_the_curve_is_near_the_exact_value(radii: list[float]) -> None:
    sampling = {"name": "spending", "radii": radii, "alpha": 0.01, "beta": 0.01, "cap": 3_000, "spacing": 100}
    built = found(record(sampling, row(0, 0.0, (0, 100))))
    for p in (0.02, 0.5, 0.75, 0.83, 0.845, 0.9, 0.95, 0.973, 0.99, 0.9995):
        read = float(np.exp(np.interp(logit(np.array([p])), *curve(built)))[0])
        assert read == pytest.approx(chain([test.table for test in built.tests], p), rel=0.02)


def test_expected_draws_of_certain_inputs_are_those_used() -> None:
    certain = record(STAGED, *FOUR.rows[:2])
    hoped = expected_draws(certain, found(certain))
    assert hoped is not None and hoped.used == 200
    assert hoped.expected == pytest.approx(200, rel=1e-9)  # p = 1 and p = 0: one stage each
    assert expected_draws(replace(certain, rows=(Row(0, 1, -1, 0.0, 100),)), found(certain)) is None
    assert estimate([(3, 7), (1, 9)], 0) == (0.2, 20) and estimate([(3, 7), (1, 9)], None) == (0.8, 20)


def test_the_picture_holds_the_exact_probabilities() -> None:
    built = found(FOUR)
    figure = draw_plots.operating(built, built.tests[0])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["stage 1: 100 draws", "stage 2: 1,000 draws"]
    certified = figure.axes[1].collections[0].get_paths()[0].vertices
    assert certified[:, 1].max() == pytest.approx(1.0, abs=1e-6)
    middle = float(logit(np.array([P25]))[0])
    heights = certified[np.isclose(certified[:, 0], middle)][:, 1]
    assert heights.max() == pytest.approx(built.tests[0].error, rel=1e-6)
    given_up = figure.axes[1].collections[2].get_paths()[0].vertices
    heights = given_up[np.isclose(given_up[:, 0], middle)][:, 1]
    assert 1 - heights.min() == pytest.approx(built.tests[0].lost, rel=1e-6)
