"""Radii in each feature's own units, where a run measured features on scales of their own.

A radius is about all features together. If one of them changes alone, it may change by radius × width of its scale, in
every norm that measures how much, for then the change is as long as that of this feature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from smoothcert.data import Scale
from smoothcert.report.metrics import columns
from smoothcert.report.section import Section, Table, table_of
from smoothcert.report.tables import decimal
from smoothcert.runs.exchange import rounded_down
from smoothcert.runs.run import Run

PLACE = 5
SAMPLE = 0.1  # a radius to read the scale by; beside it stands the average certified radius (ACR)
DIGITS = 4  # of a change in a feature's own units, rounded down
MOST = 100  # features of a run that are listed
LEAD = (
    "Radii are in units of the scale that features were measured on. What a radius allows one feature, where no other "
    "changes, is told here in the feature's own units, rounded down. Changes of several features add up to the radius "
    "in its norm, each divided by its width"
)


def section(runs: Sequence[Run], radii: Sequence[float]) -> Section | None:
    """A table for every run that has a scale, or None where none has."""
    parts = [Section("", run.name, (_table(run, run.spec.data.scale),)) for run in runs if run.spec and _scaled(run)]
    if not parts:
        return None
    only = parts[0].tables if len(parts) == 1 else ()
    return Section("scale", "Radii in the features' own units", only, lead=LEAD, parts=() if only else tuple(parts))


def _scaled(run: Run) -> bool:
    scale = None if run.spec is None else run.spec.data.scale
    return run.kind == "certify" and scale is not None and bool(scale.width)


def _table(run: Run, scale: Scale | None) -> Table:
    """A row for every feature: what one unit of its scale is, and what radii allow it."""
    scale = scale or Scale("none")
    reached = columns(run).reached
    mean = float(reached.mean()) if len(reached) else 0.0
    rows = [
        (
            scale.named(feature),
            [f"{width:.4g}", _own(SAMPLE, width), _own(mean, width), f"{scale.offset[feature]:.4g}"],
        )
        for feature, width in enumerate(scale.width[:MOST])
    ]
    heads = ("one unit", f"radius {SAMPLE:g}", f"ACR {decimal(mean)}", "zero of the scale")
    left = len(scale.width) - MOST
    notes = [f"scale: {scale.kind}", *([f"{left:,} more features are in the run's recipe"] if left > 0 else [])]
    return table_of("feature", heads, rows, *notes)


def _own(radius: float, width: float) -> str:
    """A change in a feature's own units, to four figures, rounded down."""
    size = radius * width
    places = DIGITS - 1 - math.floor(math.log10(size)) if size > 0 else 0
    return rounded_down(size, min(max(places, 0), 12))
