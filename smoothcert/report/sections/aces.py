"""ACES among the runs of a page: every threshold, the frontier beside single networks, and who is selected.

A further run of the same networks on other inputs is hold-out: thresholds for demands on accuracy are found there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from smoothcert.report import aces, aces_frontier, aces_plots
from smoothcert.report._templates import fill
from smoothcert.report.aces_singles import Alone, alone, by_network
from smoothcert.report.metrics import radius_name
from smoothcert.report.plots import inline_svg
from smoothcert.report.question import part
from smoothcert.report.tables import decimal, percent
from smoothcert.runs.components import ENTROPY, Parts, of_record
from smoothcert.runs.run import Run

PLACE = 30  # among the sections
HALF = (4.8, 4.2)  # two pictures stand side by side


class Composition(NamedTuple):
    """A run of ACES, its components, and those of the same networks on hold-out inputs."""

    record: Run
    parts: Parts
    holdout: Parts | None


class Picture(NamedTuple):
    """A picture for the page, and what it shows."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Panel:
    """One composition as the page shows it."""

    name: str
    radii: list[str]
    rows: list[list[str]]
    own: str  # the threshold of the run's rows
    notes: list[str]
    pictures: list[Picture]
    holdout: str
    choices: list[list[str]]


def section(records: Sequence[Run], radii: Sequence[float]) -> str | None:
    """The compositions of these runs, or None where there is none."""
    found = [record for record in records if part(record, "procedure").get("name") == "aces"]
    if not found:
        return None
    panels = [_panel(number, one, alone(records, one.parts), radii) for number, one in enumerate(_grouped(found))]
    return fill("aces.html.jinja", panels=panels)


def _grouped(records: Sequence[Run]) -> list[Composition]:
    """Each run but those that are hold-out of an earlier one."""
    found: list[Composition] = []
    for record in records:
        parts = of_record(record)
        for place, one in enumerate(found):
            same = one.parts.settings["networks"] == parts.settings["networks"]
            if same and one.holdout is None and not len(one.parts.shared(parts)):
                found[place] = one._replace(holdout=parts)
                break
        else:
            found.append(Composition(record, parts, None))
    return found


def _panel(number: int, one: Composition, singles: Sequence[Alone], radii: Sequence[float]) -> Panel:
    parts, theta = one.parts, float(part(one.record, "procedure")["theta"])
    at = parts.at(sorted({*aces.TENTHS, theta}))
    most = max(at.answers.radius.max(), at.selection.radius.max())  # other runs of the page may go further
    radii = [radius for radius in radii if radius <= most] or radii[:1]
    found = aces.lines(at, radii)
    middle = _middle(found, radii)
    both = [parts]
    if any(answer.purpose.startswith("select-") for answer in one.record.rows[0].answers):
        entropy = of_record(one.record, select=ENTROPY)
        both = [replace(parts, name=f"{parts.name}, network selects"), replace(entropy, name="entropy selects")]
    return Panel(
        name=parts.name,
        radii=[radius_name(radius) for radius in radii],
        rows=aces.rows(found)[1],
        own=f"{theta:.2f}",
        notes=[*aces.note(parts).splitlines(), *_compared(parts, singles, middle)],
        pictures=_pictures(f"aces-{number}", both, by_network(singles), middle),
        holdout="" if one.holdout is None else f"{len(one.holdout.labels)} inputs of {one.holdout.name}",
        choices=[] if one.holdout is None else _choices(parts, one.holdout),
    )


def _middle(found: Sequence[aces.Line], radii: Sequence[float]) -> float:
    """A radius in the middle of those that some threshold certifies anything at."""
    reached = [radius for radius in radii if radius > 0 and any(line.certified[radius].hits for line in found)]
    return reached[(len(reached) - 1) // 2] if reached else radii[0]


def _compared(parts: Parts, singles: Sequence[Alone], radius: float) -> list[str]:
    """What single networks on the same inputs say of the composition; its own is θ = 1 but for α."""
    points = [aces_frontier.point(one.single, radius) for one in singles if not one.own]
    if not points:
        return []
    found = aces.lines(parts.at(parts.thetas), [radius])
    said = [aces_frontier.verdict(found, points, at) for at in (None, radius)]
    n, look = parts.settings["n"], parts.settings["look"]
    draws = sorted({one.single.draws for one in singles if one.single.draws is not None})
    if draws and (draws != [n] or look != n):
        others = " to ".join(f"{number:,}" for number in dict.fromkeys((draws[0], draws[-1])))
        said.append(
            f"more draws prove more: this was certified by {n:,} and predicted by {look:,}, the others by {others}"
        )
    return said


def _pictures(prefix: str, shown: Sequence[Parts], groups: Sequence[aces_plots.Group], radius: float) -> list[Picture]:
    parts, at = shown[0], radius_name(radius)
    points = " Points: single smoothed networks of this page on the same inputs, each at its own α." if groups else ""
    drawn = parts.at([theta for theta in aces_plots.SHOWN if theta in parts.thetas])
    figures = [
        (aces_plots.frontier(shown, groups, None, HALF),
         f"What robustness costs in accuracy: average certified radius over natural accuracy, θ at the dots.{points}"),
        (aces_plots.frontier(shown, groups, radius, HALF),
         f"Certified accuracy at radius {at} over natural accuracy, θ at the dots."),
        (aces_plots.entropy_figure(parts, drawn, radius, HALF),
         f"Inputs by the median doubt of their noisy copies: those that the certified network is right about within "
         f"{at}, and the others. Where the two part, a threshold can tell them apart."),
        (aces_plots.selection_figure(drawn, parts, HALF),
         "Inputs sorted by the radius of their selection: above 0 the certified network is selected, below 0 the core "
         "(its radius turned down), at 0 neither is certain."),
    ]  # fmt: skip
    return [
        Picture(inline_svg(figure, words, f"{prefix}-{number}"), words)
        for number, (figure, words) in enumerate(figures)
    ]


def _choices(parts: Parts, holdout: Parts) -> list[list[str]]:
    return [
        [
            f"{100 * found.least:g} %", f"{found.theta:.2f}", percent(found.there.natural), decimal(found.there.acr),
            percent(found.here.natural), decimal(found.here.acr),
        ]
        for found in aces_frontier.choices(parts, holdout)
    ]  # fmt: skip
