"""Every input of a run as a list: the rows a page shows at once, and the columns its script sorts and filters."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from smoothcert.contracts import ABSTAIN
from smoothcert.report.labels import class_name, class_names
from smoothcert.report.metrics import radius_name
from smoothcert.report.tables import UNKNOWN, count, decimal
from smoothcert.runs.run import Row, Run

MOST = 10_000  # inputs of a run that a page holds; the run itself holds all of them
PAGE = 100  # shown at a time

HEADS = {"index": "input", "label": "label", "predicted": "predicted", "radius": "radius", "draws": "draws"}


@dataclass(frozen=True)
class Line:
    """One input as it is shown."""

    row: Row
    outcome: str
    label: str
    predicted: str
    radius: str
    draws: str


@dataclass(frozen=True)
class Listing:
    """The inputs of one run."""

    lines: list[Line]  # the first PAGE of them: what a page shows without its script
    held: int
    total: int
    columns: str  # of all that are held, as JSON


def listing(record: Run) -> Listing:
    """The list of a record's inputs, in the order of their indices."""
    held = record.rows[:MOST]
    return Listing([line(record, row) for row in held[:PAGE]], len(held), len(record.rows), _columns(record, held))


def line(record: Run, row: Row) -> Line:
    """One row in words."""
    return Line(
        row=row,
        outcome=outcome(row),
        label=class_name(record, row.label),
        predicted=class_name(record, row.predicted),
        radius=radius_words(record, row),
        draws=count(row.draws),
    )


def outcome(row: Row) -> str:
    """Right, wrong or no answer, in the words of the page."""
    return "abstained" if row.predicted == ABSTAIN else "correct" if row.correct else "wrong"


def radius_words(record: Run, row: Row) -> str:
    """Rounded down; a number of coordinates is whole. An abstention and a prediction have none."""
    if row.predicted == ABSTAIN or record.kind == "predict":
        return UNKNOWN
    return radius_name(row.radius) if record.norm == "l0" else decimal(row.radius)


def as_data(value: Any) -> str:
    """JSON that may stand inside a script element of a page."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _columns(record: Run, rows: Sequence[Row]) -> str:
    """Columns of numbers: radii in thousandths, rounded down as they are shown."""
    take: dict[str, Callable[[Row], int | None]] = {
        "index": lambda row: row.index,
        "label": lambda row: row.label,
        "predicted": lambda row: row.predicted,
        "radius": lambda row: int(Decimal(decimal(row.radius)).scaleb(3)),
        "draws": lambda row: row.draws,
    }
    return as_data(
        {
            "names": class_names(record),
            "whole": record.norm == "l0",
            "radii": record.kind == "certify",
            "page": PAGE,
            "columns": {name: [one(row) for row in rows] for name, one in take.items()},
        }
    )
