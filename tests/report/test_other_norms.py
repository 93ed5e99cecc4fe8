"""Runs in other norms and without alpha, as a report shows them."""

from __future__ import annotations

from smoothcert.report.metrics import default_radii
from smoothcert.report.question import asked
from smoothcert.runs.run import Record, Row


def record(norm="l2", radius=2.0, **question):
    return Record("a", "certify", (Row(0, 1, 1, radius),), {"question": question}, 1, norm)


def test_numbers_of_coordinates_are_shown_as_whole_numbers():
    assert default_radii([record("l0")]) == [0.0, 1.0, 2.0]
    assert default_radii([record("l1", 0.5)]) == [0.0, 0.25, 0.5]


def test_a_run_that_counted_every_case_says_so_and_nothing_of_a_leader():
    words = asked(record("l1", procedure={"against": "leader"}, sampling={"name": "exhaustive"})).words
    assert words == ("every case of the noise was counted: certificates are exact, without alpha",)
    assert "the leading class" in asked(record(procedure={"against": "leader"}, sampling={"name": "anytime"})).words[0]
