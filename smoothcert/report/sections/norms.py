"""The same certificates in other norms: the largest ball of another norm inside the proven one (`smoothcert.norms`).

Conversions need the number of coordinates of an input, which a log does not tell. From l0 radii nothing follows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from smoothcert.bounds import Floats
from smoothcert.contracts import WHOLE, Norm
from smoothcert.norms import ORDERS, converted
from smoothcert.report.columns import columns
from smoothcert.report.metrics import Share, radius_name, usual_radii
from smoothcert.report.section import Section, Table, table_of
from smoothcert.report.tables import NORMS, decimal, percent
from smoothcert.runs.exchange import rounded_down
from smoothcert.runs.run import Claim, Run

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


@dataclass(frozen=True, eq=False)
class InNorm:
    """A run with its radii in another norm, each rounded down."""

    run: Run
    claim: Claim
    radius: Floats  # of each row

    def share(self, radius: float) -> Share | None:
        """Certified accuracy in this norm; None where so large a radius was not tried."""
        right = columns(self.run).correct & (self.radius >= radius)
        return Share(int(right.sum()), len(right)) if self.claim.tried(radius) else None

    @property
    def acr(self) -> float:
        right = columns(self.run).correct
        return math.fsum(self.radius[right].tolist()) / len(right)


def in_norm(run: Run, wanted: Norm) -> InNorm:
    """The run's radii in another norm; each distinct one is converted once."""
    held, dim, asked = run.asked.norm, run.asked.dim, run.claim.radii
    distinct, places = np.unique(columns(run).radius, return_inverse=True)
    moved = np.array([converted(radius, held, wanted, dim) for radius in distinct.tolist()])
    radii = None if asked is None else tuple(converted(radius, held, wanted, dim) for radius in asked)
    return InNorm(run, replace(run.claim, norm=wanted, radii=radii), moved[places])


def _table(wanted: Norm, runs: Sequence[Run]) -> Table:
    """What runs certify in a norm that they were not certified in."""
    moved = [in_norm(run, wanted) for run in runs]
    radii = _radii(wanted, moved)
    heads = ["from", "coordinates", *(_named(wanted, radius) for radius in radii), "ACR"]
    return table_of("run", heads, [_row(one, radii) for one in moved])


def _radii(wanted: Norm, runs: Sequence[InNorm]) -> list[float]:
    """Radii to tell of: 1/255, 2/255, … in l∞, the usual ones elsewhere, as far as any run reaches."""
    largest = max(float(run.radius.max(initial=0.0)) for run in runs)
    if wanted != "linf":
        return usual_radii(largest, whole=wanted in WHOLE)
    return [steps / 255 for steps in STEPS if steps == 1 or steps / 255 <= largest]


def _named(wanted: Norm, radius: float) -> str:
    return f"{round(radius * 255)}/255" if wanted == "linf" else radius_name(radius)


def _row(one: InNorm, radii: Sequence[float]) -> tuple[str, list[str]]:
    """Name, and the cells of one run; what it never tried stays open."""
    shares = [percent(one.share(radius)) for radius in radii]
    told = rounded_down(one.acr, ACR_DIGITS) if one.claim.norm == "linf" else decimal(one.acr)
    return one.run.name, [NORMS[cast(Norm, one.run.claim.norm)], f"{one.run.asked.dim:,}", *shares, told]
