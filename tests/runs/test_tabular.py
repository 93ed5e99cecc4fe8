"""A run as a flat table: every number comes back, and what is not known stays empty."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from pathlib import Path

import made_runs
import pytest

from smoothcert.runs.exchange import columns, write_csv, write_parquet
from smoothcert.runs.run import Row

ROWS = (
    Row(0, 3, 3, math.pi / 3, 1100, 1.25, 3, 0.9, sigma=0.3),
    Row(20, 2, -1, 0.0, 1100, 0.5, None, None),
)
RUN = dataclasses.replace(made_runs.record("a", [0.5, 0.5], {"seed": 1}), rows=ROWS)


def test_csv_comes_back_bit_for_bit(tmp_path: Path) -> None:
    write_csv(RUN, tmp_path / "a.csv")
    with (tmp_path / "a.csv").open() as file:
        first, second = csv.DictReader(file)
    assert list(first) == ["idx", "label", "predicted", "radius", "correct", "draws", "seconds", "clean", "low",
                           "sigma", "norm", "guarantee", "tested", "alpha"]  # fmt: skip
    assert float(first["radius"]) == math.pi / 3 and first["correct"] == "1" and first["sigma"] == "0.3"
    assert second["clean"] == second["low"] == second["sigma"] == "" and second["predicted"] == "-1"


def test_columns_nobody_knows_are_left_out(tmp_path: Path) -> None:
    log = made_runs.log_of((Row(0, 1, 1, 0.5), Row(1, 1, 0, 0.5)), norm="unstated")
    assert list(columns(log)) == ["idx", "label", "predicted", "radius", "correct"]
    assert list(columns(dataclasses.replace(log, kind="predict"))) == ["idx", "label", "predicted", "correct"]


def test_parquet_comes_back_with_its_settings(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    write_parquet(RUN, tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet")
    assert table.to_pydict() == columns(RUN)
    assert json.loads(table.schema.metadata[b"smoothcert"])["question"] == RUN.asked.tables()
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_parquet_without_its_package_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from smoothcert.errors import OptionError

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(OptionError, match="must find the package pyarrow"):
        write_parquet(RUN, tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []
