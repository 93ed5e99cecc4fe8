"""Compositions against single networks, by hand; round demands, and thresholds for them on other inputs."""

from __future__ import annotations

import numpy as np
import pytest

from smoothcert.contracts import ABSTAIN
from smoothcert.decisions import Verdicts
from smoothcert.report.aces import by_threshold, choices, point, round_numbers, unbeaten, verdict
from smoothcert.runs.components import Components, SingleNetwork

LABELS = np.array([0, 0, 1, 1])


def composition(name="a", core=(0, 0, 1, 1)):
    """Two inputs certified rightly at θ = 1, one at θ = 0.5, none at θ = 0, where the core answers."""
    certified = Verdicts(np.array([0, 0, 0, ABSTAIN]), np.array([1.0, 0.5, 0.5, 0.0]), np.array([0, 0, 0, ABSTAIN]))
    label = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]])
    selection = Verdicts(label, np.full((3, 4), 2.0), label)
    thetas = np.array([0.0, 0.5, 1.0])
    return Components(name, np.arange(4), LABELS, certified, selection, thetas, np.array(core), None, "l2")


def alone(name, natural, radii):
    said = np.array([0, 0, 1, 1])
    predicted = np.where(np.arange(4) < natural, said, ABSTAIN)
    return SingleNetwork(name, LABELS, Verdicts(said, np.array(radii), predicted), 100)


def test_who_is_beaten_by_hand():
    """The composition has (1, 0), (1, 0.25) and (0.5, 0.375) in natural accuracy and ACR."""
    found = by_threshold(composition().at([0.0, 0.5, 1.0]), [0.0, 0.5])
    assert [(line.natural.value, line.acr) for line in found] == [(1.0, 0.0), (1.0, 0.25), (0.5, 0.375)]
    equal, worse = alone("equal", 2, (1.0, 0.5, 0, 0)), alone("worse", 1, (0.5, 0, 0, 0))
    robust, between = alone("robust", 1, (2.0, 0, 0, 0)), alone("between", 3, (1.2, 0, 0, 0))
    points = [point(one, 0.5) for one in (equal, worse, robust, between)]
    assert [one.acr for one in points] == [0.375, 0.125, 0.5, 0.3]
    assert [one.name for one in unbeaten(found, points)] == ["robust", "between"]
    # At radius 0.5 the composition certifies one input at θ = 0.5 and two at θ = 1.
    assert [one.certified[0.5].hits for one in points] == [2, 1, 1, 1]
    assert unbeaten(found, points, 0.5) == []
    worse_than, further = "between (75.0 %, 0.300)", "more ACR than any threshold has: robust (25.0 %, 0.500)"
    assert verdict(found, points) == (
        f"no threshold is as good in both natural accuracy and ACR as {worse_than}; {further}"
    )
    others = "for each of the 2 other single networks some threshold is as accurate and has as much ACR"
    assert verdict(found, points[:3]) == f"{others}; {further}"
    assert verdict(found, points[2:3]) == further
    assert verdict(found, points, 0.5).startswith("for each of the 4 single networks some threshold is as accurate")
    assert verdict(found, points[:1]) == "for the single network some threshold is as accurate and has as much ACR"


@pytest.mark.parametrize(("low", "high", "expected"), [
    (0.5, 0.99, [0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]),
    (0.86, 0.93, [0.88, 0.9, 0.92]),
    (0.8, 1.0, [0.85, 0.9, 0.95, 1.0]),
    (0.913, 0.945, [0.92, 0.93, 0.94]),
    (0.92, 0.92, []),
])  # fmt: skip
def test_demands_are_round_and_within_reach(low, high, expected):
    assert round_numbers(low, high) == expected


def test_thresholds_of_hold_out_inputs_are_used_as_they_are():
    here = composition(core=(1, 1, 1, 1))
    found = choices(here, composition("held"))
    assert [(choice.least, choice.theta) for choice in found][-1] == (1.0, 0.5)
    assert found[-1].there.natural.value == 1.0 and found[-1].here.natural.value == 0.75
    assert all(choice.there.natural.value >= choice.least for choice in found)
