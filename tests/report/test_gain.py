"""What the runner-up bound brought, from votes whose bounds are known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_runs import log_of, run_of

from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.catalog import describe
from smoothcert.contracts import Answer, Evidence, Noise
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_grid import GaussianGrid
from smoothcert.report.metrics import Share
from smoothcert.report.spending import runner_up_gain as gain
from smoothcert.runs.run import Row, Run

NOISE, GRID = Gaussian(0.5), GaussianGrid(0.5)
VOTES = (
    (50, 25, 25),  # a class with half of the votes: only its distance from the runner-up certifies
    (60, 40, 0),  # two classes: halving alpha costs the certificate
    (90, 5, 5),  # both certify
    (34, 33, 33),  # neither does
)


def bounds(votes: tuple[int, ...], runner_up: bool) -> Evidence:
    if runner_up:
        low = lower_bound(votes[0], 100, 0.025)
        return Evidence(0, (votes,), 100, low, min(upper_bound(max(votes[1:]), 100, 0.025), 1 - low), 0.05)
    low = lower_bound(votes[0], 100, 0.05)
    return Evidence(0, (votes,), 100, low, 1 - low, 0.05)


def record(noise: Noise = NOISE, dim: int = 3) -> Run:
    rows = []
    for i, votes in enumerate(VOTES):
        proven = bounds(votes, runner_up=True).certificate(noise, dim)
        answers = (Answer("guess", 10, ((8, 1, 1),)), Answer("test", 100, (votes,)))
        rows.append(Row(i, 0, proven.label, proven.radius, 110, 1.0, 0, proven.evidence.low, answers))
    sampling = {"name": "runner_up", "n": 100, "alpha": 0.05}
    return run_of(rows, "r", noise=describe(noise), sampling=sampling, shape=[dim])


def test_both_bounds_side_by_side() -> None:
    found = gain(record(), [0.0, 0.5])
    assert found is not None
    assert (found.gained, found.lost) == (1, 1)
    radii = {side: [bounds(v, side).certificate(NOISE, 3).radius for v in VOTES] for side in (True, False)}
    assert [r > 0 for r in radii[True]] == [True, False, True, False]
    assert [r > 0 for r in radii[False]] == [False, True, True, False]
    assert found.with_runner_up.mean_radius == pytest.approx(sum(radii[True]) / 4)
    assert found.plain.mean_radius == found.plain.acr == pytest.approx(sum(radii[False]) / 4)
    assert found.larger == sum(a > b for a, b in zip(radii[True], radii[False], strict=True))
    assert found.smaller == sum(a < b for a, b in zip(radii[True], radii[False], strict=True))
    assert found.plain.certified == Share(2, 4)
    assert found.plain.certified_accuracy == {0.0: Share(2, 4), 0.5: Share(sum(r >= 0.5 for r in radii[False]), 4)}


def test_it_is_found_on_a_grid_where_the_dimension_matters() -> None:
    run = record(GRID, 150_528)
    assert run.rows[2].radius < record().rows[2].radius  # what the sampler leaves open is paid for
    found = gain(run, [0.0, 0.5])
    assert found is not None and (found.gained, found.lost) == (1, 1)


def test_it_is_left_out_where_it_cannot_be_known() -> None:
    run = record()
    assert gain(log_of(run.rows), [0.0]) is None
    assert gain(replace(run, rows=tuple(replace(row, answers=()) for row in run.rows)), [0.0]) is None
    wrong = replace(run, rows=(replace(run.rows[2], radius=9.0), *run.rows[:1]))
    assert gain(wrong, [0.0]) is None  # radii that these votes do not give
