"""The same certificates in other norms: the largest ball of another norm inside the proven one (`smoothcert.norms`).

Conversions need the number of coordinates of an input, which a log does not tell. From l0 radii nothing follows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from smoothcert.contracts import Norm
from smoothcert.norms import ORDERS, converted
from smoothcert.report.metrics import certified_accuracy, default_radii, radius_name
from smoothcert.report.section import Section, Table, table_of
from smoothcert.report.tables import NORMS, UNKNOWN, decimal, percent
from smoothcert.runs.exchange import rounded_down
from smoothcert.runs.run import Run

PLACE = 10
STEPS = (1, 2, 4, 8, 16)  # of 1/255: how l∞ radii are told in the field
ACR_DIGITS = 5  # l∞ radii are small
LEAD = (
    "A certified ball holds balls of other norms; the largest of each is what follows here, rounded down. For inputs "
    "of d coordinates an ℓ₂ radius R is R in ℓ₁ and R/√d in ℓ∞, an ℓ₁ radius R is R/√d in ℓ₂ and R/d in ℓ∞. Nothing "
    "new was drawn: a noise made for a norm proves more in it. Columns headed by a number: certified accuracy (%) at "
    "that radius"
)


def section(runs: Sequence[Run], radii: Sequence[float]) -> Section | None:
    """Tables of the other norms, or None where no run can be converted."""
    known = [run for run in runs if _proves(run)]
    parts = [
        Section("", NORMS[wanted], (_table(wanted, others),))
        for wanted in ORDERS
        if (others := [run for run in known if run.claim.norm != wanted])
    ]
    if not parts:
        return None
    return Section("norms", "The same certificates in other norms", lead=LEAD, parts=tuple(parts), brief=())


def _proves(run: Run) -> bool:
    """Whether its radii are certificates of a norm that others follow from; those of own levels need a memory."""
    proven = run.kind == "certify" and run.claim.norm in ORDERS and run.claim.guarantee != "none"
    return proven and run.spec is not None


def in_norm(run: Run, wanted: Norm) -> Run:
    """The run with its radii in another norm, each rounded down."""
    held, dim = run.asked.norm, run.asked.dim
    rows = tuple(replace(row, radius=converted(row.radius, held, wanted, dim)) for row in run.rows)
    asked = run.claim.radii
    radii = None if asked is None else tuple(converted(radius, held, wanted, dim) for radius in asked)
    return replace(run, rows=rows, claim=replace(run.claim, norm=wanted, radii=radii))


def _table(wanted: Norm, runs: Sequence[Run]) -> Table:
    """What runs certify in a norm that they were not certified in."""
    moved = [in_norm(run, wanted) for run in runs]
    radii = _radii(wanted, moved)
    heads = ["from", "coordinates", *(_named(wanted, radius) for radius in radii), "ACR"]
    return table_of("run", heads, [_row(before, after, radii) for before, after in zip(runs, moved, strict=True)])


def _radii(wanted: Norm, runs: Sequence[Run]) -> list[float]:
    """Radii to tell of: 1/255, 2/255, … in l∞, quarters elsewhere, as far as any run reaches."""
    largest = max((row.radius for run in runs for row in run.rows), default=0.0)
    if wanted != "linf":
        return default_radii([replace(run, claim=replace(run.claim, radii=None)) for run in runs])
    return [steps / 255 for steps in STEPS if steps == 1 or steps / 255 <= largest]


def _named(wanted: Norm, radius: float) -> str:
    return f"{round(radius * 255)}/255" if wanted == "linf" else radius_name(radius)


def _row(before: Run, after: Run, radii: Sequence[float]) -> tuple[str, list[str]]:
    """Name, and the cells of one run; what it never tried stays open."""
    shares = [percent(certified_accuracy(after, r)) if after.claim.tried(r) else UNKNOWN for r in radii]
    acr = math.fsum(row.radius for row in after.rows if row.correct) / len(after.rows)
    told = rounded_down(acr, ACR_DIGITS) if after.claim.norm == "linf" else decimal(acr)
    return before.name, [NORMS[cast(Norm, before.claim.norm)], f"{before.asked.dim:,}", *shares, told]
