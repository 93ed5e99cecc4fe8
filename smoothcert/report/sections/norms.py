"""The same certificates in other norms: the largest ball of another norm inside the proven one (`smoothcert.norms`).

Conversions need the number of coordinates of an input, so they are shown only where the data that were certified are at
hand. From l0 radii nothing follows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from smoothcert.contracts import Norm
from smoothcert.data import Inputs, load
from smoothcert.errors import SmoothcertError
from smoothcert.norms import ORDERS, converted
from smoothcert.report._templates import fill
from smoothcert.report.metrics import certified_accuracy, default_radii, radius_name
from smoothcert.report.plots import NORMS
from smoothcert.report.question import asked
from smoothcert.report.tables import UNKNOWN, decimal, percent
from smoothcert.runs.exchange import rounded_down
from smoothcert.runs.run import Run

PLACE = 10  # among the sections
STEPS = (1, 2, 4, 8, 16)  # of 1/255: how l∞ radii are told in the field
ACR_DIGITS = 5  # l∞ radii are small


@dataclass(frozen=True)
class Table:
    """What runs certify in one norm that they were not certified in."""

    norm: str
    heads: list[str]
    rows: list[list[str]]


def section(records: Sequence[Run], radii: Sequence[float]) -> str | None:
    """Tables of the other norms, or None where no run can be converted."""
    known = [(record, dim) for record in records if _proves(record) and (dim := dim_of(record)) is not None]
    tables = [_table(wanted, known) for wanted in ORDERS]
    shown = [table for table in tables if table is not None]
    return fill("norms.html.jinja", tables=shown) if shown else None


def _proves(record: Run) -> bool:
    """Whether its radii are certificates of a norm that others follow from; those of own levels need a memory."""
    question = asked(record)
    return record.kind == "certify" and record.norm in ORDERS and (question.settled or not question.own_levels)


def dim_of(record: Run) -> int | None:
    """Coordinates of an input of a run; None where its data are not told, not at hand, or not what was certified."""
    question = record.settings.get("question")
    if not isinstance(question, Mapping) or "data_digest" not in question:
        return None
    place = [question.get(name) for name in ("data", "split", "skip", "max")]
    scale = question.get("value_range")
    if None in place:
        return None
    try:
        inputs = _inputs(*place, tuple(scale) if scale else None, question.get("image_size"), question.get("start", 0))
    except SmoothcertError:
        return None
    return math.prod(inputs.shape) if inputs.digest == question["data_digest"] else None


@lru_cache(maxsize=2)
def _inputs(*arguments: Any) -> Inputs:
    """Runs side by side mostly share their inputs."""
    return load(*arguments)


def in_norm(record: Run, wanted: Norm, dim: int) -> Run:
    """The run with its radii in another norm, each rounded down."""
    rows = tuple(
        replace(row, radius=converted(row.radius, cast(Norm, record.norm), wanted, dim)) for row in record.rows
    )
    return replace(record, rows=rows, norm=wanted)


def _table(wanted: Norm, known: Sequence[tuple[Run, int]]) -> Table | None:
    """The runs that were certified in other norms than this one, if there are any."""
    moved = [(record, in_norm(record, wanted, dim), dim) for record, dim in known if record.norm != wanted]
    if not moved:
        return None
    radii = _radii(wanted, [record for _, record, _ in moved])
    heads = ["from", "coordinates", "ACR", *(_named(wanted, radius) for radius in radii)]
    return Table(NORMS[wanted], heads, [_row(*entry, radii) for entry in moved])


def _radii(wanted: Norm, records: Sequence[Run]) -> list[float]:
    """Radii to tell of: 1/255, 2/255, … in l∞, quarters elsewhere, as far as any run reaches."""
    largest = max((row.radius for record in records for row in record.rows), default=0.0)
    if wanted != "linf":
        return default_radii([replace(record, settings={}) for record in records])
    return [steps / 255 for steps in STEPS if steps == 1 or steps / 255 <= largest]


def _named(wanted: Norm, radius: float) -> str:
    return f"{round(radius * 255)}/255" if wanted == "linf" else radius_name(radius)


def _row(before: Run, after: Run, dim: int, radii: Sequence[float]) -> list[str]:
    """Name, and the cells of one run; what it never tried stays open."""
    asked_for = asked(before).radii
    reach = (
        math.inf
        if asked_for is None
        else converted(asked_for[-1], cast(Norm, before.norm), cast(Norm, after.norm), dim)
    )
    gains = [row.radius if row.correct else 0.0 for row in after.rows]
    shares = [percent(certified_accuracy(after, radius)) if radius <= reach else UNKNOWN for radius in radii]
    acr = math.fsum(gains) / len(gains)
    told = rounded_down(acr, ACR_DIGITS) if after.norm == "linf" else decimal(acr)
    return [before.name, NORMS[before.norm], f"{dim:,}", told, *shares]
