"""A run as one flat table, a row an input, for whoever computes with it: CSV or Parquet.

Numbers are in full precision. A column is there when the run knows it of any input; where it is not known of one, the
cell is empty. Parquet also carries the run's settings, as JSON under the key `smoothcert`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

from smoothcert.errors import OptionError
from smoothcert.files import write_whole
from smoothcert.runs.exchange import claim_columns
from smoothcert.runs.run import Row, Run

Cell = int | float | bool | str | None
COLUMNS: dict[str, Callable[[Row], Cell]] = {
    "idx": lambda row: row.index,
    "label": lambda row: row.label,
    "predict": lambda row: row.predicted,
    "radius": lambda row: row.radius,
    "correct": lambda row: row.correct,
    "draws": lambda row: row.draws,
    "seconds": lambda row: row.seconds,
    "clean": lambda row: row.clean,
    "low": lambda row: row.low,
    "sigma": lambda row: row.sigma,
}


def columns(run: Run) -> dict[str, list[Cell]]:
    """What is known of the inputs, by column; predictions have no radius."""
    found = {name: [cell(row) for row in run.rows] for name, cell in COLUMNS.items()}
    known = {name: cells for name, cells in found.items() if any(cell is not None for cell in cells)}
    if run.kind == "predict":
        del known["radius"]
        return known
    return {**known, **{name: [value] * len(run.rows) for name, value in claim_columns(run.claim).items()}}


def write_csv(run: Run, path: Path) -> None:
    """Comma-separated, with a line of names; `correct` is 0 or 1."""
    found = columns(run)
    sink = io.StringIO()
    lines = csv.writer(sink, lineterminator="\n")
    lines.writerow(found)
    for cells in zip(*found.values(), strict=True):
        lines.writerow("" if cell is None else int(cell) if isinstance(cell, bool) else str(cell) for cell in cells)
    write_whole(path, sink.getvalue().encode())


def write_parquet(run: Run, path: Path) -> None:
    """Apache Parquet, by pyarrow where it is installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise OptionError("--to parquet must find the package pyarrow; got none: pip install pyarrow") from error
    about = {"name": run.name, "kind": run.kind, "norm": run.norm, **run.settings}
    table = pyarrow.table(columns(run)).replace_schema_metadata({"smoothcert": json.dumps(about, ensure_ascii=False)})
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    write_whole(path, sink.getvalue())
