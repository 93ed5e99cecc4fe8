"""Draws an input, and reduction factors, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_runs import log_of, run_of

from smoothcert.report import plots
from smoothcert.report.sections import draws as draw_plots
from smoothcert.report.sections.draws import factor
from smoothcert.report.spending import Spread, saving, spread
from smoothcert.runs.run import Row, Run


def record(name: str, sampling: dict[str, Any], draws: list[int], seconds: float | None = 1.0, **other: Any) -> Run:
    rows = [Row(i, 1, 1, 0.5, drawn, seconds) for i, drawn in enumerate(draws)]
    procedure = {"name": "certify", "n0": 50, "against": "guess"}
    return run_of(rows, name, **{"sampling": sampling, "procedure": procedure, **other})


SPENDING = {"name": "spending", "radii": [0.5], "alpha": 0.05, "beta": 0.05, "cap": 3_000, "spacing": 100}
FEW = record("few", SPENDING, [100, 300, 100, 500], 2.0)
N = {"name": "fixed", "n": 9_950, "alpha": 0.001}
FIXED = record("fixed", N, [10_000] * 5, 30.0)


def test_the_spread_of_draws() -> None:
    found = Spread(tuple([100] * 38 + [600, 5_600]))
    assert (found.total, found.mean, found.median) == (10_000, 250.0, 100.0)
    assert found.dearest == 2 and found.dearest_share == 0.62
    assert Spread(tuple([100] * 41)).dearest == 3  # rounded up, never none
    assert Spread((7,)).dearest_share == 1.0 and Spread((7,)).even and not found.even


def test_draws_that_a_log_does_not_tell_are_not_made_up() -> None:
    assert spread(replace(FEW, rows=(*FEW.rows, Row(9, 1, 1, 0.5)))) is None
    log = log_of([Row(i, 1, 1, 0.5) for i in range(3)])
    assert spread(log) is None and saving(log, [log, FIXED]) is None


def test_without_a_fixed_run_the_factor_is_against_100_000() -> None:
    found = saving(FEW, [FEW])
    assert found is not None and found.against is None and found.time is None
    assert found.sample == 4 * 100_050 / 1_000
    assert found.words == "against n = 100,000 and n0 = 50 for each input, as they would have been"


def test_with_a_fixed_run_the_factors_are_of_the_inputs_both_have() -> None:
    found = saving(FEW, [FEW, FIXED])
    assert found is not None and found.against == "fixed" and found.inputs == 4
    assert found.sample == 40_000 / 1_000 and found.time == 15.0
    assert found.words == "against the draws of fixed (n = 9,950) on the same 4 inputs"
    untimed = saving(replace(FEW, rows=tuple(replace(row, seconds=None) for row in FEW.rows)), [FIXED])
    assert untimed is not None and untimed.sample == 40.0 and untimed.time is None


@pytest.mark.parametrize(
    "other",
    [
        {"model_digest": "b" * 64},
        {"noise": {"name": "gaussian", "sigma": 0.5}},
        {"data_digest": "e" * 64, "data": "elsewhere.npz"},
        {"sampling": {"name": "runner_up", "n": 9_950, "alpha": 0.001}},
    ],
)
def test_a_run_of_something_else_is_no_comparison(other: dict[str, Any]) -> None:
    found = saving(FEW, [FEW, record("fixed", **{"sampling": N, "draws": [10_000] * 5, "seconds": 30.0, **other})])
    assert found is not None and found.against is None


def test_labels_that_differ_are_other_inputs() -> None:
    found = saving(FEW, [replace(FIXED, rows=tuple(replace(row, label=2) for row in FIXED.rows))])
    assert found is not None and found.against is None


def test_a_number_of_draws_that_was_given_saves_nothing() -> None:
    assert saving(FIXED, [FIXED]) is None
    assert saving(record("r", {"name": "runner_up", "n": 50, "alpha": 0.001}, [50, 50]), [FIXED]) is None


def test_factors_round_down() -> None:
    assert [factor(v) for v in (None, 1.999, 9.999, 10.0, 43.58, 1234.56)] == [
        "–", "1.99 ×", "9.99 ×", "10.0 ×", "43.5 ×", "1,234.5 ×",
    ]  # fmt: skip


def test_bins_of_the_histogram_hold_their_lower_ends() -> None:
    assert [draw_plots.bin_of(n) for n in (1, 9, 10, 99, 100, 999, 1_000, 100_000)] == [0, 4, 5, 9, 10, 14, 15, 25]
    inputs, draws = draw_plots.shares(Spread((100, 100, 100, 700)), 10, 15)
    assert inputs.tolist() == [0.75, 0.0, 0.0, 0.0, 0.25]
    assert draws.tolist() == pytest.approx([0.3, 0.0, 0.0, 0.0, 0.7])


def test_the_histogram_has_a_panel_a_run_on_one_scale() -> None:
    figure = draw_plots.histogram([(0, "a", Spread((100, 5_000))), (3, "$x^{ <&>", Spread((100_100,)))])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["a", "$x^{ <&>"]
    assert "$x^{ &lt;&amp;&gt;" in plots.svg(figure, words=True)  # a name is words, not mathematics
    assert len({axes.get_xlim() for axes in figure.axes}) == len({axes.get_ylim() for axes in figure.axes}) == 1
    assert figure.axes[0].get_xscale() == "log"
