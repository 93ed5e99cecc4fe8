"""Certificates in other norms in a report: converted radius by radius, rounded down, and only where that is sound."""

from __future__ import annotations

import dataclasses
import math

import made_runs

from smoothcert.norms import converted
from smoothcert.report.sections.norms import in_norm, section
from smoothcert.runs.run import Row

RADII = (0.0, 0.1, 0.26, 0.9)  # the last one wrong
L1 = {"name": "uniform", "sigma": 0.25}


def record(name="a", radii=RADII, **question):
    rows = tuple(Row(i, 0, 0 if i < 3 else 1, radius) for i, radius in enumerate(radii))
    return dataclasses.replace(made_runs.record(name, [], {"shape": [3, 4, 4], **question}), rows=rows)


def cells(found):
    """Cells of every row, table by table."""
    tables = [part.tables[0] for part in found.parts]
    return [[[column.cells[i] for column in table.columns] for i in range(len(table.names))] for table in tables]


def test_l2_radii_in_l1_and_linf():
    found = section([record()], [0.0, 0.25])
    (l1,), (linf,) = cells(found)
    assert l1 == ["ℓ₂", "48", "75.0", "25.0", "0.0", "0.0", "0.090"]
    # R/√48: 0.1 is 3.68/255, 0.26 is 9.57/255; the wrong one counts nowhere but in how far the columns go.
    heads = [column.head for column in found.parts[1].tables[0].columns]
    assert heads == ["from", "coordinates", "1/255", "2/255", "4/255", "8/255", "16/255", "ACR"]
    assert linf[2:-1] == ["50.0", "50.0", "25.0", "25.0", "0.0"]
    acr = math.floor((0.1 + 0.26) / math.sqrt(48) / 4 * 1e5) / 1e5
    assert linf[-1] == f"{acr:.5f}"


def test_every_radius_is_the_converted_one():
    moved = in_norm(record(), "linf")
    assert moved.radius.tolist() == [converted(r, "l2", "linf", 48) for r in RADII]
    assert moved.claim.norm == "linf"


def test_l1_radii_in_l2_and_linf_beside_l2_ones():
    found = section([record(), record("b", noise=L1)], [0.0])
    assert [part.title for part in found.parts] == ["ℓ₁", "ℓ₂", "ℓ∞"]
    assert [part.tables[0].names for part in found.parts] == [("a",), ("b",), ("a", "b")]


def test_what_was_not_tried_stays_open():
    asked = record(radii=(0.0, 0.1, 0.1, 0.1), sampling={"name": "spending", "radii": [0.1], "alpha": 0.001})
    assert cells(section([asked], [0.1]))[1][0][2:-1] == ["50.0", "50.0"]  # 0.1/√48 is 3.68/255: no column 4/255
    first, second = cells(section([asked, record("b")], [0.1]))[1]
    assert first[2:-1] == ["50.0", "50.0", "–", "–", "–"] and second[2:-1] == ["50.0", "50.0", "25.0", "25.0", "0.0"]


def test_nothing_is_said_where_nothing_follows():
    l0 = record(radii=(0.0, 1.0, 2.0, 3.0), noise={"name": "discrete", "keep": 0.6, "values": 9})
    assert section([l0], [0.0]) is None
    assert section([made_runs.record("log", RADII)], [0.0]) is None
    assert section([dataclasses.replace(record(), kind="predict")], [0.0]) is None
    assert section([record(preparation={"name": "per_input_sigma"})], [0.0]) is None
