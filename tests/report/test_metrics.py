"""Figures of merit against values worked out by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from smoothcert.errors import RunError
from smoothcert.report import metrics
from smoothcert.report.metrics import Share
from smoothcert.runs.exchange import read_log
from smoothcert.runs.run import Record, Row

PUBLISHED = Path(__file__).parents[3] / "shared/reference/locuslab/certify/cifar10/resnet110/noise_0.25/test/sigma_0.25"
ROWS = (
    Row(0, 1, 1, 0.5, draws=100, seconds=1.0, clean=1, low=0.9),
    Row(1, 2, 2, 0.25, draws=200, seconds=2.0, clean=0, low=0.8),
    Row(2, 0, 3, 1.1, draws=300, seconds=3.0, clean=0, low=0.99),  # wrong, and certified far
    Row(3, 0, -1, 0.0, draws=400, seconds=4.0, clean=0, low=0.3),
    Row(4, 4, 4, 0.0, draws=0, seconds=0.5, clean=4, low=0.55),  # right, proven nowhere
)
RECORD = Record("five", "certify", ROWS)


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
    found = metrics.figures(Record("five", "certify", rows))
    assert (found.clean_accuracy, found.mean_draws, found.seconds) == (None, None, None)


def test_a_predict_run_has_no_radii() -> None:
    found = metrics.figures(Record("p", "predict", ROWS), [0.0, 0.5])
    assert (found.acr, found.acr_interval, found.certified_accuracy) == (None, None, {})
    assert found.accuracy == Share(3, 5)


def test_an_unfinished_run_says_what_it_was_asked() -> None:
    found = metrics.figures(Record("half", "certify", ROWS, inputs=10))
    assert (found.inputs, found.asked) == (5, 10)
    assert found.accuracy == Share(3, 5)


def test_a_run_without_rows_is_refused() -> None:
    with pytest.raises(RunError, match="at least one finished input"):
        metrics.figures(Record("none", "certify", ()))


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


def test_the_t_interval_is_the_textbook_one() -> None:
    half = 4.302652729911275 / math.sqrt(3)  # t of 2 degrees of freedom at 0.975; standard deviation 1
    assert metrics.t_interval([11.0, 12.0, 13.0]) == pytest.approx((12 - half, 12 + half))
    assert metrics.t_interval([0.0, 0.0, 1.0]).low == 0.0  # type: ignore[union-attr]
    assert metrics.t_interval([1.0]) is None


def test_robustness_index_holds_acr_and_certified_accuracy() -> None:
    assert metrics.robustness_index(RECORD, lambda r: r) == pytest.approx(0.15)
    assert metrics.robustness_index(RECORD, lambda r: float(r >= 0.0)) == pytest.approx(0.6)
    assert metrics.robustness_index(RECORD, lambda r: float(r >= 0.25)) == pytest.approx(0.4)
    assert metrics.robustness_index(RECORD, lambda r: math.pi * r**2) == pytest.approx(math.pi * (0.25 + 0.0625) / 5)


def test_the_envelope_takes_the_best_at_each_radius() -> None:
    far = Record("far", "certify", (Row(0, 1, 1, 3.0), Row(1, 1, 0, 3.0)))
    found = metrics.envelope([RECORD, far], [0.0, 0.25, 2.0, 4.0])
    assert [share.value for share in found.values()] == [0.6, 0.5, 0.5, 0.0]


def test_bounds_are_given_in_order_and_only_when_all_are_known() -> None:
    assert metrics.lows(RECORD) == (0.3, 0.55, 0.8, 0.9, 0.99)
    blank = replace(ROWS[3], low=None)  # an abstention without a bound: at least 0
    assert metrics.lows(Record("r", "certify", (*ROWS[:3], blank))) == (0.0, 0.8, 0.9, 0.99)
    assert metrics.lows(Record("r", "certify", (*ROWS[:3], replace(ROWS[4], low=None)))) is None
    assert metrics.lows(Record("r", "certify", (blank,))) is None


def test_default_radii_reach_the_largest_and_stay_few() -> None:
    def radii(largest: float) -> list[float]:
        return metrics.default_radii([Record("r", "certify", (Row(0, 1, 2, largest),)), RECORD])

    assert radii(0.0) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert radii(1.25) == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]
    assert len(radii(25.0)) == 101
    assert len(radii(1e12)) <= 101


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
