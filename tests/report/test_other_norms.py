"""Runs in other norms and without alpha, as a report shows them."""

from __future__ import annotations

from made_runs import log_of

from smoothcert.report.metrics import default_radii
from smoothcert.runs.run import Claim, Row


def record(norm="l2", radius=2.0):
    return log_of((Row(0, 1, 1, radius),), "a", norm=norm)


def test_numbers_of_coordinates_are_shown_as_whole_numbers():
    assert default_radii([record("l0")]) == [0.0, 1.0, 2.0]
    assert default_radii([record("l1", 0.5)]) == [0.0, 0.25, 0.5]


def test_a_run_that_counted_every_case_says_so_and_nothing_of_a_leader():
    words = Claim("l1", "deterministic", "leader").words
    assert words == ("every case of the noise was counted: certificates are exact, without alpha",)
    assert "the leading class" in Claim("l1", "smoothing", "leader").words[0]
