"""Runs of many inputs: the page stays small and says what it shows, figures come from all rows, no curve is lifted."""

from __future__ import annotations

import gc
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from typing import Any

import numpy as np
import pytest
from made_runs import run_of

from smoothcert.contracts import Answer
from smoothcert.report import columns as columns_module
from smoothcert.report import plots
from smoothcert.report.columns import columns
from smoothcert.report.curve_panel import panel, upper
from smoothcert.report.html import page
from smoothcert.report.inputs import listing
from smoothcert.report.metrics import Share, default_radii, figures, lows, same_inputs
from smoothcert.runs.run import Row, Run

MANY = 20_000


def made(number: int, seed: int = 0, classes: int = 2, name: str = "large") -> Run:
    """A run whose radii are all different: a tenth wrong, a tenth without an answer."""
    random = np.random.default_rng(seed)
    fates, radii = random.random(number).tolist(), random.gamma(2.0, 0.15, number).tolist()
    answers = (Answer("test", 90, ((88, 2, *[0] * (classes - 2)),)),)
    rows = [
        Row(3 * i, 1, *((1, r) if fate < 0.8 else (0, r) if fate < 0.9 else (-1, 0.0)), 100 + i % 7, 0.25, i % 2,
            0.5 + r / 10 if fate < 0.9 else None, answers)
        for i, (fate, r) in enumerate(zip(fates, radii, strict=True))
    ]  # fmt: skip
    return run_of(rows, name)


LARGE, OTHER = made(MANY), made(MANY, seed=1, name="other")
SOME, MORE = made(1240), made(1320)  # of which some 1000 are right
RIGHT: dict[int, Any] = {}  # radii of right answers, by the id of a run of this file


@pytest.fixture(scope="module")
def text() -> str:
    return page([LARGE])


def plain_share(run: Run, radius: float) -> Share:
    """Counted over all rows."""
    if id(run) not in RIGHT:
        RIGHT[id(run)] = np.array([row.radius for row in run.rows if row.predicted == row.label])
    return Share(int((RIGHT[id(run)] >= radius).sum()), len(run.rows))


def drawn(x: Sequence[float], y: Sequence[float], radius: float) -> float:
    """What a line shows at a radius: each value holds on the interval that ends at its corner."""
    return next((value for corner, value in zip(x, y, strict=True) if corner >= radius), 0.0)


def places(*runs: Run) -> list[float]:
    """Radii that tell: some certified ones, just right of them, and others between."""
    known = np.concatenate([columns(run).right_radii for run in runs])
    some = np.random.default_rng(2).choice(known, 150).tolist()
    return [0.0, float(known.max()), *some, *(math.nextafter(r, math.inf) for r in some), *np.linspace(0.0, 2.0, 100)]


def test_the_page_is_small_and_says_what_it_shows(text: str) -> None:
    words = " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())
    assert len(text.encode()) < 800_000
    assert "large: 10,000 of 20,000 inputs" in words and "large: 48 of 20,000 inputs" in words
    assert "evenly apart in the order of their indices" in words and "Steps closer than a thousandth" in words
    wrong = sum(row.predicted == 0 for row in LARGE.rows)
    assert re.search(rf"wrong \([\d,]+ of {wrong:,}\)", words)


def test_small_runs_show_everything_and_do_not_speak_of_it() -> None:
    words = page([made(300)])
    assert "all 300 inputs" in words and "evenly apart" not in words and "thousandth of the axis" not in words


def test_the_page_grows_neither_with_inputs_nor_with_classes(text: str) -> None:
    assert len(page([made(3 * MANY)])) < 1.1 * len(text)
    assert len(page([made(100, classes=10_000)])) < 300_000


def test_figures_are_those_of_all_rows() -> None:
    found, rows = figures(LARGE, [0.0, 0.1, 0.25, LARGE.rows[7].radius]), LARGE.rows
    assert found.certified_accuracy == {radius: plain_share(LARGE, radius) for radius in found.certified_accuracy}
    right = [row for row in rows if row.predicted == row.label]
    assert found.acr == math.fsum(row.radius for row in right) / len(rows)
    assert found.accuracy == Share(len(right), MANY)
    assert found.abstained == Share(sum(row.predicted == -1 for row in rows), MANY)
    assert found.clean_accuracy == Share(sum(row.clean == row.label for row in rows), MANY)
    assert found.mean_draws == sum(row.draws or 0 for row in rows) / MANY and found.seconds == MANY * 0.25
    assert default_radii([LARGE])[-1] == math.floor(max(row.radius for row in rows) * 4) / 4


def test_readings_and_the_table_of_a_large_run_are_its_figures() -> None:
    found: dict[str, Any] = json.loads(panel(0, [LARGE], [0.0, 0.25]).readings)
    for radius, (height, shown, _) in zip(found["radii"], found["runs"][0], strict=True):
        share = plain_share(LARGE, radius)
        assert height <= share.value < height + 1.1e-5
        assert float(shown) <= 100 * share.value < float(shown) + 0.1 + 1e-9


@pytest.mark.parametrize("run", [LARGE, SOME, MORE], ids=lambda run: str(len(run.rows)))
def test_a_curve_is_nowhere_above_the_true_one_and_close_below(run: Run) -> None:
    (line,) = plots.curve_figure([run]).axes[0].get_lines()
    x, y = (np.asarray(values).tolist() for values in line.get_data())
    assert len(x) <= 2 * plots.CORNERS + 3
    stretch = columns(run).right_radii[-1] / plots.CORNERS
    for radius in places(run):
        shown = drawn(x, y, radius)
        assert plain_share(run, radius + 1.01 * stretch).value <= shown <= plain_share(run, radius).value


def test_an_envelope_is_nowhere_above_the_true_one() -> None:
    for x, y in (upper([LARGE, OTHER]), plots.envelope_steps([LARGE, OTHER])):
        assert len(x) <= 2 * plots.CORNERS + 3
        for radius in places(LARGE, OTHER):
            assert drawn(x, y, radius) <= max(plain_share(run, radius).value for run in (LARGE, OTHER))


def test_the_band_holds_the_exact_interval_of_every_radius() -> None:
    (band,) = plots.curve_figure([LARGE]).axes[0].collections
    (path,) = band.get_paths()
    corners: Any = path.vertices
    for radius in np.random.default_rng(3).choice(columns(LARGE).right_radii, 60).tolist():
        # The outline passes this radius where one corner is left of it and the next is not.
        across = (corners[:-1, 0] < radius) != (corners[1:, 0] < radius)
        heights = np.concatenate([corners[:-1, 1][across], corners[1:, 1][across]])
        low, high = plain_share(LARGE, radius).interval
        assert heights.min() <= low and high <= heights.max()


def test_the_distribution_of_bounds_is_nowhere_below_the_true_one() -> None:
    known = lows(LARGE)
    assert known is not None
    line = plots.low_figure([LARGE]).axes[0].get_lines()[0]
    x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    assert len(x) <= plots.CORNERS + 3
    for p in np.random.default_rng(4).choice(known, 200):
        assert y[np.searchsorted(x, p, side="right") - 1] >= (known <= p).mean()


def test_the_list_is_spread_over_the_run_and_shared_by_runs() -> None:
    found = listing(LARGE)
    index = json.loads(found.columns)["columns"]["index"]
    assert (index[0], index[-1], len(index)) == (0, LARGE.rows[-1].index, 10_000)
    assert set(np.diff(index)) <= {3, 6, 9}  # every second input, more or less
    assert sum(held for _, held, _ in found.kinds) == found.held and sum(all_ for *_, all_ in found.kinds) == MANY
    assert [listing(LARGE, runs).held for runs in (3, 10, 1000)] == [10_000, 3_000, 500]


def test_columns_live_as_long_as_their_run() -> None:
    gc.collect()
    before = len(columns_module._MADE)
    run = made(10)
    assert columns(run) is columns(run) and columns(replace(run)) is not columns(run)
    assert len(columns_module._MADE) == before + 1  # that of the copy is gone
    del run
    gc.collect()
    assert len(columns_module._MADE) == before


def test_the_same_inputs_are_the_same_indices_labels_and_data() -> None:
    rows = list(LARGE.rows)
    assert same_inputs([LARGE, OTHER])
    for changed in (replace(rows[9], index=29), replace(rows[9], label=0)):
        assert not same_inputs([LARGE, replace(LARGE, rows=(*rows[:9], changed, *rows[10:]))])
    assert not same_inputs([LARGE, replace(LARGE, rows=LARGE.rows[1:])])
