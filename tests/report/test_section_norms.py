"""Certificates in other norms on the page: converted radius by radius, rounded down, and only where that is sound."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from smoothcert.data import load
from smoothcert.norms import converted
from smoothcert.report.sections import norms
from smoothcert.report.sections.norms import dim_of, in_norm, section
from smoothcert.runs.run import Record, Row

RADII = (0.0, 0.1, 0.26, 0.9)  # the last one wrong


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, x=np.zeros((4, 3, 4, 4), dtype=np.uint8), y=np.zeros(4, dtype=np.int64))
    norms._inputs.cache_clear()
    return str(path)


def record(data, norm="l2", name="a", radii=RADII, **question):
    rows = tuple(Row(i, 0, 0 if i < 3 else 1, radius) for i, radius in enumerate(radii))
    digest = load(data).digest
    settings = {"data": data, "split": "test", "skip": 1, "max": -1, "data_digest": digest, **question}
    return Record(name, "certify", rows, {"question": settings}, 4, norm)


def cells(html):
    """The text of every cell, table by table."""
    tables = html.split("<table")[1:]
    return [[part.split(">")[1].split("<")[0] for part in table.split("<t")[1:] if part[0] in "hd"] for table in tables]


def test_l2_radii_in_l1_and_linf(data):
    found = record(data)
    assert dim_of(found) == 48
    html = section([found], [0.0, 0.25])
    l1, linf = cells(html)
    assert l1[-7:] == ["ℓ₂", "48", "0.090", "75.0", "25.0", "0.0", "0.0"]
    # R/√48: 0.1 is 3.68/255, 0.26 is 9.57/255; the wrong one counts nowhere but in how far the columns go.
    heads = [cell for cell in linf if cell.endswith("/255")]
    assert heads == ["1/255", "2/255", "4/255", "8/255", "16/255"]
    assert linf[-5:] == ["50.0", "50.0", "25.0", "25.0", "0.0"]
    acr = math.floor((0.1 + 0.26) / math.sqrt(48) / 4 * 1e5) / 1e5
    assert f"{acr:.5f}" in linf


def test_every_radius_is_the_converted_one(data):
    moved = in_norm(record(data), "linf", 48)
    assert [row.radius for row in moved.rows] == [converted(r, "l2", "linf", 48) for r in RADII]
    assert moved.norm == "linf" and [row.predicted for row in moved.rows] == [0, 0, 0, 1]


def test_l1_radii_in_l2_and_linf_beside_l2_ones(data):
    html = section([record(data), record(data, "l1", "b")], [0.0])
    titles = [part.split(">")[1].split("<")[0] for part in html.split("<h3")[1:]]
    assert titles == ["ℓ₁", "ℓ₂", "ℓ∞"]
    assert html.count('<th scope="row">b</th>') == 2 and html.count('<th scope="row">a</th>') == 2


def test_what_was_not_tried_stays_open(data):
    asked = record(data, radii=(0.0, 0.1, 0.1, 0.1), sampling={"name": "spending", "radii": [0.1]})
    linf = cells(section([asked], [0.1]))[1]
    assert linf[-2:] == ["50.0", "50.0"]  # 0.1/√48 is 3.68/255: 4/255 is not among the columns
    longer = record(data, name="b")
    linf = cells(section([asked, longer], [0.1]))[1]
    assert linf[-14:-9] == ["50.0", "50.0", "–", "–", "–"] and linf[-5:] == ["50.0", "50.0", "25.0", "25.0", "0.0"]


def test_nothing_is_said_where_nothing_follows(data, tmp_path):
    assert section([record(data, "l0", radii=(0.0, 1.0, 2.0, 3.0))], [0.0]) is None
    assert section([dataclasses.replace(record(data), settings={})], [0.0]) is None
    assert section([dataclasses.replace(record(data), kind="predict")], [0.0]) is None
    assert section([record(data, preparation={"name": "per_input_sigma"})], [0.0]) is None
    assert section([record(data, data_digest="0" * 64)], [0.0]) is None
    there = record(data)
    (tmp_path / "x.npz").unlink()
    norms._inputs.cache_clear()
    assert section([there], [0.0]) is None
