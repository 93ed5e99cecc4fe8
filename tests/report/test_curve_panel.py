"""Readings of the curves are the tables' figures; the envelope is the best run at every radius."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_runs import log_of

from smoothcert.report.curve_panel import MOST, panel, places, upper
from smoothcert.report.metrics import certified_accuracy, default_radii, envelope
from smoothcert.report.tables import percent
from smoothcert.runs.run import Row, Run


def record(name: str, seed: int, number: int = 60) -> Run:
    random = np.random.default_rng(seed)
    fates = random.integers(0, 4, number).tolist()
    rows = tuple(
        Row(i, 1, (-1, 0, 1, 1)[fate], 0.0 if fate == 0 else float(random.random())) for i, fate in enumerate(fates)
    )
    return log_of(rows, name)


ONE, OTHER = record("one", 1), record("other", 2)


def readings(made: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(made.readings)
    return found


def test_readings_are_the_figures_of_the_tables() -> None:
    radii = default_radii([ONE, OTHER])
    made = panel(0, [ONE, OTHER], radii)
    found = readings(made)
    assert set(radii) <= set(found["radii"]) and made.last == len(found["radii"]) - 1
    for run, cells in zip((ONE, OTHER), found["runs"], strict=False):
        for radius, (height, shown, _) in zip(found["radii"], cells, strict=True):
            share = certified_accuracy(run, radius)
            assert shown == percent(share) and height == pytest.approx(share.value, abs=1e-5)
    best = envelope([ONE, OTHER], found["radii"])
    assert [cell[1] for cell in found["runs"][2]] == [percent(share) for share in best.values()]


def test_the_envelope_is_the_best_run_at_every_radius() -> None:
    x, y = upper([ONE, OTHER])
    for radius in np.linspace(0.0, 1.0, 101).tolist():
        drawn = next((value for corner, value in zip(x, y, strict=True) if corner >= radius), 0.0)
        assert drawn == max(certified_accuracy(run, radius).value for run in (ONE, OTHER))
    assert y[-1] == 0.0


def test_the_envelope_is_drawn_where_runs_compare() -> None:
    assert not panel(0, [ONE], [0.0]).envelope
    both = panel(2, [ONE, OTHER], [0.0])
    assert both.envelope and 'id="curve-2-envelope"' in both.picture and 'id="curve-2-plot"' in both.picture
    asked = replace(OTHER, claim=replace(OTHER.claim, radii=(0.25, 0.5)))
    made = panel(0, [ONE, asked], [0.0])
    assert not made.envelope and made.dotted
    beyond = [i for i, radius in enumerate(readings(made)["radii"]) if radius > 0.5]
    assert all(readings(made)["runs"][1][i] is None for i in beyond) and beyond


@pytest.mark.parametrize("end", [0.003, 0.7, 1.04, 26.0, 5000.0])
def test_places_are_round_and_few(end: float) -> None:
    even = places(end, False, [])
    assert even[0] == 0.0 and MOST / 3 < len(even) <= MOST + 1 and even[-1] <= end
    assert end - even[-1] < even[1]
    whole = places(end, True, [])
    assert all(radius == int(radius) for radius in whole)
    assert places(0.7, False, [0.123456, 9.0]).count(0.123456) == 1
