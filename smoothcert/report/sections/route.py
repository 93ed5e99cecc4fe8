"""Routes among the runs of a page: branches taken, which radius bound, and what each branch does alone.

Runs with a noise level for every input stand beside them: a route is the way to have that without a memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from smoothcert.errors import SmoothcertError
from smoothcert.report import route, route_plots
from smoothcert.report._templates import fill
from smoothcert.report.metrics import envelope, figures, radius_name
from smoothcert.report.plots import inline_svg
from smoothcert.report.question import asked, part
from smoothcert.report.tables import decimal, percent
from smoothcert.runs.run import Run
from smoothcert.runs.verify import Replayed, composition

PLACE = 40  # among the sections
ENVELOPE = "upper envelope of the branches alone"


class Beside(NamedTuple):
    """A run on the same inputs, and what it is to the route."""

    record: Run
    role: str
    branch: bool


@dataclass(frozen=True)
class Panel:
    """One route as the page shows it."""

    name: str
    taken: list[list[str]]
    notes: list[str]
    heads: list[str]
    rows: list[list[str]]
    curve: str
    binding: str


def section(records: Sequence[Run], radii: Sequence[float]) -> str | None:
    """The routes of these runs, or None where there is none."""
    found = [record for record in records if part(record, "procedure").get("name") == "route"]
    if not found:
        return None
    panels = [_panel(number, record, records, radii) for number, record in enumerate(found)]
    return fill("route.html.jinja", panels=panels, heads=route.HEADS)


def _replayed(record: Run) -> Replayed | None:
    """The run with all its parts, from the folder it was made in; None where that is not there any more."""
    question = record.settings["question"]
    try:
        run = composition(record, "route")
    except SmoothcertError:
        return None
    return run if run.described.digest.hex == question["model_digest"] and len(run.rows) == len(record.rows) else None


def _panel(number: int, record: Run, records: Sequence[Run], radii: Sequence[float]) -> Panel:
    run = _replayed(record)
    beside = _beside(record, records, run)
    alone = [one.record for one in beside if one.branch]
    others = [one.record for one in beside if not one.branch]
    curve = inline_svg(
        route_plots.curve_figure(record, alone, others),
        f"Certified accuracy against radius of {record.name}, its branches alone, and other runs on the same inputs.",
        f"route-{number}",
    )
    if run is None:
        place = record.settings["question"]["model"]
        notes = [f"which branch was taken is not shown: {place}, where the branches are described, is not there"]
        return Panel(record.name, [], notes, *_table(record, beside, radii), curve, "")
    taken = route.taken_by(run)
    binding = inline_svg(
        route_plots.binding_figure(run),
        "Radius of the selection against radius of the selected branch, one dot an input.",
        f"bound-{number}",
    )
    notes = [route.unsure(taken), *_against(record, alone, radii)]
    return Panel(record.name, route.rows(taken), notes, *_table(record, beside, radii), curve, binding)


def _beside(record: Run, records: Sequence[Run], run: Replayed | None) -> list[Beside]:
    """Other runs that looked for their radii on the same inputs."""
    here, found = [(row.index, row.label) for row in record.rows], []
    for other in records:
        if other is record or other.kind != "certify" or other.norm != record.norm or asked(other).radii:
            continue
        if [(row.index, row.label) for row in other.rows] == here:
            branch = _branch(other, run)
            role = f"branch {branch} alone" if branch is not None else _role(other)
            found.append(Beside(other, role, branch is not None))
    return found


def _branch(other: Run, run: Replayed | None) -> int | None:
    """The number of the branch that this run is of: the same network under the same noise."""
    question = other.settings.get("question", {})
    for number, member in enumerate(run.described.members[:-1] if run else ()):
        same = question.get("model_digest") == member.digest and question.get("noise") == member.noise
        if same and not asked(other).own_levels:
            return number
    return None


def _role(other: Run) -> str:
    question = asked(other)
    if question.settled:
        return "a noise level for every input, with a memory"
    if question.own_levels:
        return "a noise level for every input, without a memory: no certificates"
    return {"route": "another route", "aces": "ACES"}.get(str(part(other, "procedure").get("name")), "")


def _table(record: Run, beside: Sequence[Beside], radii: Sequence[float]) -> tuple[list[str], list[list[str]]]:
    """Runs side by side, the route first; then the best branch at each radius."""
    shown = [Beside(record, "the route", False), *sorted(beside, key=lambda one: (not one.branch, one.role))]
    rows = []
    for one in shown:
        run = figures(one.record, radii)
        shares = [percent(run.certified_accuracy[radius]) for radius in radii]
        rows.append([one.record.name, one.role, decimal(run.acr), percent(run.abstained), *shares])
    alone = [one.record for one in beside if one.branch]
    if len(alone) > 1:
        best = envelope(alone, radii)
        rows.append([ENVELOPE, "", "", "", *(percent(best[radius]) for radius in radii)])
    return ["ACR", "abstained %", *(radius_name(radius) for radius in radii)], rows


def _against(record: Run, alone: Sequence[Run], radii: Sequence[float]) -> list[str]:
    """Where the route is above the best of its branches, and where it is not."""
    if len(alone) < 2:
        return []
    mine, best = (envelope(runs, radii) for runs in ([record], alone))
    signs = {radius: mine[radius].hits - best[radius].hits for radius in radii}
    words = [
        f"{word} at {', '.join(radius_name(radius) for radius in found)}"
        for word, found in (
            ("more", [radius for radius, sign in signs.items() if sign > 0]),
            ("as many", [radius for radius, sign in signs.items() if sign == 0 and best[radius].hits]),
            ("fewer", [radius for radius, sign in signs.items() if sign < 0]),
        )
        if found
    ]
    return (
        [f"inputs certified rightly, against the best branch alone at each radius: {'; '.join(words)}"] if words else []
    )
