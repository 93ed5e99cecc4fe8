"""Own noise levels and memories among the runs of a page: what they gain, which levels, and how conflicts ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from smoothcert.contracts import ABSTAIN
from smoothcert.report._templates import fill
from smoothcert.report.labels import class_name
from smoothcert.report.listing import outcome
from smoothcert.report.metrics import LEVEL, Interval, envelope, figures, radius_name
from smoothcert.report.pictures import Album, album
from smoothcert.report.plots import inline_svg
from smoothcert.report.question import asked
from smoothcert.report.sections.memory_figures import Beside, Gain, beside, gains, how, level, owners, words
from smoothcert.report.sections.memory_plots import curve_figure, level_figure
from smoothcert.report.tables import UNKNOWN, decimal, ends, percent, signed
from smoothcert.runs.run import BeforeMemory, Row, Run

PLACE = 20  # among the sections
EXTREMES = 6  # inputs shown at each end of the levels
CONFLICTS = 30  # listed; the run holds all of them


class Extreme(NamedTuple):
    """An input with a very small or a very large level."""

    row: Row
    outcome: str
    label: str
    sigma: str
    picture: str
    noisy: str | None


class Conflict(NamedTuple):
    """One input that the memory did not leave as it was."""

    row: Row
    sigma: str
    said: str  # by smoothing alone
    answer: str
    true: str
    why: str


@dataclass(frozen=True)
class Panel:
    """One run as the page shows it."""

    name: str
    notes: list[str]
    settled: bool
    rows: list[tuple[str, list[str]]]
    gains: list[tuple[str, list[tuple[str, str]]]]
    curve: str
    histogram: str | None
    extremes: list[tuple[str, list[Extreme]]]
    conflicts: list[Conflict]
    more: int  # conflicts that are not listed


def section(records: Sequence[Run], radii: Sequence[float]) -> str | None:
    """Runs with levels of their own or with a memory, or None where there is none."""
    found = beside(records)
    if not found:
        return None
    panels = [_panel(number, one, radii) for number, one in enumerate(found)]
    heads = ["ACR", "abstained %", *(radius_name(radius) for radius in radii)]
    return fill("memory.html.jinja", panels=panels, heads=heads, level=f"{LEVEL * 100:g} %")


def _panel(number: int, found: Beside, radii: Sequence[float]) -> Panel:
    run = found.run
    changed = [] if asked(run).frozen else found.settled
    conflicts = [(row, settled) for row, settled in changed if how(row, settled) != "left"]
    histogram = None
    if found.levels:
        histogram = inline_svg(
            level_figure(found), f"How many inputs have which σ. {words(found)[0]}.", f"levels-{number}"
        )
    curves = f"Certified accuracy against radius of {run.name} and of the same network at fixed σ."
    return Panel(
        run.name,
        words(found),
        bool(changed),
        _rows(found, radii),
        [(f"σ = {level(gain.over):g} ({gain.over.name})", _cells(gain)) for gain in gains(found, radii)],
        inline_svg(curve_figure(found), curves, f"beside-{number}"),
        histogram,
        _extremes(found),
        [_conflict(run, *conflict) for conflict in conflicts[:CONFLICTS]],
        len(conflicts) - CONFLICTS,
    )


def _rows(found: Beside, radii: Sequence[float]) -> list[tuple[str, list[str]]]:
    """Fixed levels, the best of them, own levels without and with the memory."""
    shown = [(f"fixed σ = {level(record):g} ({record.name})", record) for record in found.fixed]
    if found.levels:
        shown.append(("own σ, without a memory: no certificate", found.alone))
    if found.settled:
        shown.append(("own σ, with the memory" if found.levels else "with the memory", found.run))
    rows = [(name, _figures(record, radii)) for name, record in shown]
    if len(found.fixed) > 1:
        best = envelope(found.fixed, radii)
        shares = [percent(best[radius]) for radius in radii]
        rows.insert(len(found.fixed), ("best fixed σ at each radius", [UNKNOWN, UNKNOWN, *shares]))
    return rows


def _figures(record: Run, radii: Sequence[float]) -> list[str]:
    run = figures(record, radii)
    return [decimal(run.acr), percent(run.abstained), *(percent(run.certified_accuracy[radius]) for radius in radii)]


def _cells(gain: Gain) -> list[tuple[str, str]]:
    """Gains as shown: the value, and its interval below; shares in percentage points."""
    points = [(signed(share.value, 2), ends(Interval(share.low, share.high), 2)) for share in gain.shares.values()]
    return [(signed(gain.acr.value), ends(Interval(gain.acr.low, gain.acr.high))), *points]


def _extremes(found: Beside) -> list[tuple[str, list[Extreme]]]:
    """Pictures at both ends of the levels, where the inputs are pictures and at hand."""
    pictures = album(found.run) if found.levels else ""
    if isinstance(pictures, str):
        return []
    rows = sorted((row for row in found.run.rows if row.sigma is not None), key=lambda row: row.sigma or 0.0)
    sides = ("smallest σ", rows[:EXTREMES]), ("largest σ", rows[::-1][:EXTREMES])
    return [(name, [_extreme(found.run, row, pictures) for row in some]) for name, some in sides]


def _extreme(record: Run, row: Row, pictures: Album) -> Extreme:
    label = class_name(record, row.label)
    return Extreme(row, outcome(row), label, f"{row.sigma:.3g}", pictures.original(row), pictures.noisy(row))


def _conflict(record: Run, row: Row, settled: BeforeMemory) -> Conflict:
    changed, inputs = how(row, settled), owners(record)
    said = (
        "abstained"
        if settled.predicted == ABSTAIN
        else f"{class_name(record, settled.predicted)}, {decimal(settled.radius)}"
    )
    region = f"region {settled.by}" + (f" (input {inputs[settled.by]})" if settled.by in inputs else "")
    words = {"switched": "took the label of", "shrunk": "made room for", "answered": "lies in"}
    answer = f"{class_name(record, row.predicted)}, {decimal(row.radius)}"
    sigma = UNKNOWN if row.sigma is None else f"{row.sigma:.3g}"
    return Conflict(row, sigma, said, answer, class_name(record, row.label), f"{words[changed]} {region}")
