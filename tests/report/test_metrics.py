"""Figures of merit against values worked out by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_runs import log_of, run_of

from smoothcert.bounds import proven_radii
from smoothcert.errors import RunError
from smoothcert.noise.gaussian import Gaussian
from smoothcert.report import metrics
from smoothcert.report.metrics import Share
from smoothcert.runs.exchange import read_log
from smoothcert.runs.run import MemoryRef, Row, Run

PUBLISHED = Path(__file__).parents[3] / "shared/reference/locuslab/certify/cifar10/resnet110/noise_0.25/test/sigma_0.25"
ROWS = (
    Row(0, 1, 1, 0.5, draws=100, seconds=1.0, clean=1, low=0.9),
    Row(1, 2, 2, 0.25, draws=200, seconds=2.0, clean=0, low=0.8),
    Row(2, 0, 3, 1.1, draws=300, seconds=3.0, clean=0, low=0.99),  # wrong, and certified far
    Row(3, 0, -1, 0.0, draws=400, seconds=4.0, clean=0, low=0.3),
    Row(4, 4, 4, 0.0, draws=0, seconds=0.5, clean=4, low=0.55),  # right, proven nowhere
)
RECORD = log_of(ROWS, "five")


def test_the_figures_of_five_inputs() -> None:
    found = metrics.figures(RECORD)
    assert found.inputs == found.asked == 5
    assert found.accuracy == Share(3, 5)
    assert found.abstained == found.wrong == Share(1, 5)
    assert found.clean_accuracy == Share(4, 5)
    assert found.acr == pytest.approx(0.15, abs=1e-15)
    assert found.mean_draws == 200.0
    assert found.seconds == 10.5
    assert {r: s.hits for r, s in found.certified_accuracy.items()} == {0.0: 3, 0.25: 2, 0.5: 1, 0.75: 0, 1.0: 0}


def test_radii_are_inclusive_to_the_last_bit() -> None:
    assert metrics.certified_accuracy(RECORD, 0.5).hits == 1
    assert metrics.certified_accuracy(RECORD, math.nextafter(0.5, 1)).hits == 0


def test_what_one_row_does_not_know_the_run_does_not_know() -> None:
    rows = (*ROWS[:4], replace(ROWS[4], clean=None, draws=None, seconds=None))
    found = metrics.figures(log_of(rows))
    assert (found.clean_accuracy, found.mean_draws, found.seconds) == (None, None, None)


def test_a_predict_run_has_no_radii() -> None:
    found = metrics.figures(log_of(ROWS, "p", "predict"), [0.0, 0.5])
    assert (found.acr, found.acr_interval, found.certified_accuracy) == (None, None, {})
    assert found.accuracy == Share(3, 5)


def test_an_unfinished_run_says_what_it_was_asked() -> None:
    found = metrics.figures(replace(RECORD, inputs=10))
    assert (found.inputs, found.asked) == (5, 10)
    assert found.accuracy == Share(3, 5)


def test_a_run_without_rows_is_refused() -> None:
    with pytest.raises(RunError, match="at least one finished input"):
        metrics.figures(log_of(()))


@pytest.mark.parametrize(("hits", "of"), [(3, 5), (1, 9), (374, 500)])
def test_share_intervals_are_exact(hits: int, of: int) -> None:
    def at_least(k: int, p: float) -> float:
        return math.fsum(math.comb(of, i) * p**i * (1 - p) ** (of - i) for i in range(k, of + 1))

    low, high = Share(hits, of).interval
    assert at_least(hits, low) == pytest.approx(0.025, rel=1e-9)
    assert 1 - at_least(hits + 1, high) == pytest.approx(0.025, rel=1e-9)


def test_share_intervals_at_the_ends() -> None:
    assert Share(0, 5).interval == (0.0, pytest.approx(1 - 0.025 ** (1 / 5)))
    assert Share(5, 5).interval == (pytest.approx(0.025 ** (1 / 5)), 1.0)


def at_ceiling(inputs: int) -> Run:
    """Every draw of every input fell on the right class: the largest radius that 90 draws can show."""
    top = float(proven_radii(np.array([90]), 90, 0.001, Gaussian(0.25), 64)[0])
    return run_of([Row(i, 0, 0, top) for i in range(inputs)])


def test_three_inputs_at_the_ceiling_leave_much_open() -> None:
    """Student's t, from which no value differs, said 0.219 to 0.220 of such a run."""
    found = metrics.figures(at_ceiling(3))
    top = found.run.rows[0].radius
    assert found.acr == pytest.approx(top)
    low, high = found.acr_interval or (1.0, 0.0)
    # No valid interval can begin above top·0.025^(1/3): with that chance three of three have the mean 0.292·top.
    assert 0.0 < low < top * 0.025 ** (1 / 3) and high == pytest.approx(top)
    assert metrics.as_json(found)["intervals"]["mean"].startswith("betting")


def test_without_a_known_ceiling_there_is_no_interval() -> None:
    assert metrics.figures(RECORD).acr_interval is None  # a log
    memory = MemoryRef("m", "m.sqlite", "random", None)
    assert metrics.ceiling(at_ceiling(2)) is not None and metrics.ceiling(replace(at_ceiling(2), memory=memory)) is None
    above = at_ceiling(1)
    assert metrics.ceiling(replace(above, rows=(replace(above.rows[0], radius=9.0),))) is None


def test_the_ceiling_is_what_draws_alpha_noise_and_question_allow() -> None:
    top = at_ceiling(1).rows[0].radius
    assert metrics.ceiling(at_ceiling(1)) == pytest.approx(top)
    asked = {"name": "spending", "radii": [0.1, 0.2], "alpha": 0.05, "beta": 0.05, "cap": 500, "spacing": 100}
    assert metrics.ceiling(run_of([Row(0, 0, 0, 0.2)], sampling=asked)) == 0.2
    counted = run_of(
        [Row(0, 0, 0, 0.3)], noise={"name": "splitting", "lam": 0.4, "grid": 255}, sampling={"name": "exhaustive"},
        procedure={"name": "certify", "n0": 10, "against": "leader"},
    )  # fmt: skip
    assert metrics.ceiling(counted) == pytest.approx(0.4)


@pytest.mark.parametrize("law", ["all at the top", "rarely at the top", "half", "spread", "skewed"])
@pytest.mark.parametrize("n", [3, 30])
def test_the_interval_of_a_mean_covers_as_often_as_it_says(law: str, n: int) -> None:
    rng, sets = np.random.default_rng(5), 400
    draw = {
        "all at the top": lambda: (np.ones(n), 1.0),
        "rarely at the top": lambda: (rng.random(n) < 0.05, 0.05),
        "half": lambda: (rng.random(n) < 0.5, 0.5),
        "spread": lambda: (rng.random(n), 0.5),
        "skewed": lambda: (rng.beta(0.5, 2.0, n), 0.2),
    }[law]
    missed = 0
    for _ in range(sets):
        values, mean = draw()
        low, high = metrics.mean_interval([2.0 * float(value) for value in values], 2.0)
        missed += not low <= 2.0 * mean <= high
    # At most 5 % may miss; four standard deviations of 400 sets above that would be a finding.
    assert missed / sets <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / sets)


def test_the_interval_of_a_mean_narrows_and_holds_the_mean() -> None:
    rng = np.random.default_rng(6)
    widths = []
    for n in (1, 10, 100, 1000):
        values = rng.random(n).tolist()
        low, high = metrics.mean_interval(values, 1.0)
        assert 0.0 <= low <= sum(values) / n <= high <= 1.0
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)
    # Not absurdly wide: within twice of what the normal law gives for a thousand values, 2·1.96·0.289/√1000.
    assert widths[-1] < 2 * (2 * 1.96 * 0.289 / math.sqrt(1000))


def test_robustness_index_holds_acr_and_certified_accuracy() -> None:
    assert metrics.robustness_index(RECORD, lambda r: r) == pytest.approx(0.15)
    assert metrics.robustness_index(RECORD, lambda r: float(r >= 0.0)) == pytest.approx(0.6)
    assert metrics.robustness_index(RECORD, lambda r: float(r >= 0.25)) == pytest.approx(0.4)
    assert metrics.robustness_index(RECORD, lambda r: math.pi * r**2) == pytest.approx(math.pi * (0.25 + 0.0625) / 5)


def test_the_envelope_takes_the_best_at_each_radius() -> None:
    far = log_of((Row(0, 1, 1, 3.0), Row(1, 1, 0, 3.0)), "far")
    found = metrics.envelope([RECORD, far], [0.0, 0.25, 2.0, 4.0])
    assert [share.value for share in found.values()] == [0.6, 0.5, 0.5, 0.0]


def _lows(run: Run) -> list[float]:
    found = metrics.lows(run)
    assert found is not None
    return found.tolist()


def test_bounds_are_given_in_order_and_only_when_all_are_known() -> None:
    assert _lows(RECORD) == [0.3, 0.55, 0.8, 0.9, 0.99]
    blank = replace(ROWS[3], low=None)  # an abstention without a bound: at least 0
    assert _lows(log_of((*ROWS[:3], blank))) == [0.0, 0.8, 0.9, 0.99]
    assert metrics.lows(log_of((*ROWS[:3], replace(ROWS[4], low=None)))) is None
    assert metrics.lows(log_of((blank,))) is None


def test_default_radii_reach_the_largest_of_all_runs() -> None:
    def radii(largest: float) -> list[float]:
        return metrics.default_radii([log_of((Row(0, 1, 2, largest),)), RECORD])

    assert radii(0.0) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert radii(1.25) == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]
    assert radii(25.0) == [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]


@pytest.mark.parametrize(
    ("largest", "expected"),
    [
        (0.5, [0.0, 0.25, 0.5]),  # quarters wherever they are 3 to 9
        (2.24, [0.25 * i for i in range(9)]),
        (0.4999, [0.0, 0.1, 0.2, 0.3, 0.4]),  # else 5 to 8 of a round step
        (2.25, [0.0, 0.5, 1.0, 1.5, 2.0]),
        (0.457, [0.0, 0.1, 0.2, 0.3, 0.4]),  # sigma 0.12, 100 000 draws
        (0.3, [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]),
        (3.81, [0.5 * i for i in range(8)]),  # sigma 1, as Cohen prints it
        (0.03, [0.0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03]),  # a table
        (10.0, [0.0, 2.5, 5.0, 7.5, 10.0]),  # l1
        (4e-7, [0.0, 1e-7, 2e-7, 3e-7, 4e-7]),
        (math.inf, [0.0, 0.25]),
    ],
)
def test_usual_radii_are_round_and_never_one(largest: float, expected: list[float]) -> None:
    assert metrics.usual_radii(largest) == expected


def test_usual_radii_are_five_to_eight_at_every_size() -> None:
    for largest in [0.5 * 1.0173**k for k in range(-900, 900)]:
        found = metrics.usual_radii(largest)
        assert (3 if largest < 2.25 and largest >= 0.5 else 5) <= len(found) <= 9, largest
        assert found[-1] <= largest
        assert [float(f"{radius:.3g}") for radius in found] == found


@pytest.mark.parametrize(
    ("largest", "expected"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (2, [0, 1, 2]),
        (8, list(range(9))),
        (9, [0, 2, 4, 6, 8]),
        (11, [0, 2, 4, 6, 8, 10]),
        (12, [0, 2, 4, 6, 8, 10, 12]),
        (60, [0, 10, 20, 30, 40, 50, 60]),
        (100, [0, 25, 50, 75, 100]),
    ],
)
def test_numbers_of_coordinates_are_whole(largest: int, expected: list[int]) -> None:
    assert metrics.usual_radii(float(largest), whole=True) == expected


def test_where_nothing_has_a_radius_there_is_one_in_the_size_of_the_noise() -> None:
    assert metrics.usual_radii(0.0, level=0.12) == [0.0, 0.1]
    assert metrics.usual_radii(0.0, level=0.25) == [0.0, 0.25]
    assert metrics.usual_radii(0.0, level=2.0) == [0.0, 2.0]
    silent = run_of([Row(0, 1, -1, 0.0)], noise={"name": "gaussian", "sigma": 0.12})
    assert metrics.default_radii([silent]) == [0.0, 0.1]


def test_json_is_plain_and_complete() -> None:
    found = json.loads(json.dumps(metrics.as_json(metrics.figures(RECORD, [0.0, 0.25, 1.0])), allow_nan=False))
    assert found["name"] == "five"
    assert found["inputs"] == 5
    assert found["clean_accuracy"] == 0.8
    assert found["abstained"] == 0.2
    assert found["acr"] == pytest.approx(0.15)
    assert found["certified_accuracy"] == {"0": 0.6, "0.25": 0.4, "1": 0.0}
    assert (found["mean_draws"], found["seconds"]) == (200.0, 10.5)
    low, high = found["intervals"]["certified_accuracy"]["0.25"]
    assert low < 0.4 < high


def test_a_published_log_gives_the_published_figures() -> None:
    if not PUBLISHED.exists():
        pytest.skip("the published logs are not here")
    found = metrics.as_json(metrics.figures(read_log(PUBLISHED)))
    assert [found["certified_accuracy"][r] for r in ("0", "0.25", "0.5")] == [0.748, 0.6, 0.428]
    assert found["clean_accuracy"] is None
    assert found["inputs"] == 500
