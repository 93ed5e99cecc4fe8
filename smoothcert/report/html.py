"""One page that holds a whole report and needs nothing but itself: figures, their meaning, curves, inputs, settings.

What only a script can do (reading a curve under the pointer, sorting) is added by one; without it the page is whole.
A policy inside the page forbids everything else: no address is opened, no other script runs.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.files import write_whole
from smoothcert.report import curve_panel, meaning, render, report, tables
from smoothcert.report.headline import headline
from smoothcert.report.inputs import Gallery, Listing, evenly, galleries, listing
from smoothcert.report.metrics import LEVEL, Figures, Share, default_radii, figures, radius_name, same_inputs
from smoothcert.report.section import Section, Table
from smoothcert.report.tables import NORMS, percent, span
from smoothcert.runs.run import Run

CARDS = 3  # radii among the headline figures
SENTENCES = 3  # runs that the first screen has a sentence for


@dataclass(frozen=True)
class Card:
    """One headline figure."""

    name: str
    value: str
    unit: str
    note: str  # what the figure is, or what kind of interval follows
    ends: str = ""  # of the interval: what the sample leaves open


@dataclass(frozen=True)
class PageRun:
    """One run as the page shows it."""

    figures: Figures
    headline: tuple[str, str]  # a statement, and its risk
    conditions: list[str]  # data, noise, alpha, seed: what the figures stand under; those all runs share are not here
    colour: int | None  # of its curve
    cards: list[Card]
    bars: list[tuple[str, int, float, str]]  # outcome, inputs, percent of the bar's length, percent as shown
    listing: Listing
    command: str | None
    settings: list[tuple[str, list[tuple[str, str]]]]  # tables of name, value; none of a log


def page(
    runs: Sequence[Run],
    radii: Sequence[float] | None = None,
    title: str = "",
    sections: Sequence[Section] | None = None,
) -> str:
    """The page as text; `radii` as in `metrics.figures`, `sections` as `report` makes them."""
    at = default_radii(runs) if radii is None else radii
    made = report(runs, at) if sections is None else sections
    groups = list(_by_norm(runs, at))
    own = {id(run): suited for group, suited in groups for run in group}
    all_said = [conditions(run) for run in runs]
    shared = [line for line in all_said[0] if all(line in said for said in all_said)]
    shown = [_run(run, own[id(run)], shared, runs) for run in runs]
    certified = [run for run in runs if run.kind == "certify"]
    script, found = render.beside("page.js"), galleries(runs)
    curves = list(_curves(groups))
    return render.fill(
        "page.html.jinja",
        title=title or (runs[0].name if len(runs) == 1 else f"{len(runs)} runs side by side"),
        script=script,
        style=render.beside("page.css"),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        runs=shown,
        several=len(runs) > 1,
        first=shown[:SENTENCES],
        same_risk=len({run.headline[1] for run in shown}) == 1,
        shared=shared,
        certified=certified,
        norm=NORMS[certified[0].claim.norm] if certified else "",
        says=meaning.says(runs),
        does_not_say=meaning.does_not_say(runs),
        curves=render.fill("curve.html.jinja", curves=curves) if curves else "",
        galleries=render.fill("gallery.html.jinja", galleries=found, stuck=_stuck(found)) if found else "",
        listing=render.fill("listing.html.jinja", runs=shown),
        tables=[(NORMS[group[0].claim.norm], _table(group, suited)) for group, suited in groups],
        level=f"{LEVEL * 100:g} %",
        radii=[_at(*pair) for pair in shown[0].figures.certified_accuracy.items()],
        said=tables.said([run.figures for run in shown]),
        notes=list(tables.warnings([run.figures for run in shown])),
        unequal=not same_inputs(runs) or tables.warning([run.claim for run in certified]),
        dotted=any(run.claim.radii for run in certified),
        sections=[(one.name, one.title, render.html(one)) for one in made[1:] if not one.empty],
    )


def _stuck(found: Sequence[Gallery]) -> bool:
    """Whether any picture shows a patch."""
    return any(item.stuck for gallery in found for item in gallery.items)


def save(text: str, path: Path) -> None:
    """Write the page, whole or not at all."""
    write_whole(path, text.encode())


def cards(run: Figures) -> Iterator[Card]:
    """What a reader looks for first, each figure with its interval: certified accuracy over radii, then the rest."""
    exact = f"{LEVEL * 100:g} % exact interval"
    if run.kind != "certify":
        name = "Accuracy of the smoothed classifier"
        yield Card(name, percent(run.accuracy), "%", exact, span(run.accuracy.interval))
    for radius, share in _headline_radii(run) if run.kind == "certify" else ():
        name = f"Certified accuracy at radius {radius_name(radius)}"
        yield Card(name, percent(share), "%", exact, span(share.interval))
    if run.clean_accuracy is not None:
        clean = run.clean_accuracy
        yield Card("Clean accuracy, no noise", percent(clean), "%", exact, span(clean.interval))
    yield Card("Abstained", percent(run.abstained), "%", exact, span(run.abstained.interval))
    if run.acr is not None:
        radii = run.claim.radii
        note = f"radii above {radius_name(radii[-1])} were not tried" if radii else "read it with the curve"
        ends = None if radii else run.acr_interval
        told = (f"{LEVEL * 100:g} % betting interval", span(ends, percent=False)) if ends else (note,)
        unit = "pixels" if run.claim.ruler == "patch" else NORMS[run.norm]
        yield Card("Average certified radius", tables.decimal(run.acr), unit, *told)
    if run.mean_draws is not None:
        yield Card("Draws an input", tables.count(run.mean_draws), "", "mean over inputs")
    if run.seconds is not None:
        yield Card("Time", tables.duration(run.seconds), "", f"{run.seconds / run.inputs:.2g} s an input")


def _headline_radii(run: Figures) -> list[tuple[float, Share]]:
    """The smallest radius, and others evenly apart, up to the largest at which anything is certified."""
    known = [(radius, share) for radius, share in run.certified_accuracy.items() if share and run.claim.exact(radius)]
    least = (run.claim.radii or (0.0,))[0], run.accuracy  # a label that is right is proven as far as that
    return evenly([pair for pair in known if pair[1].hits], CARDS) or known[:1] or [least]


def _middle(known: Sequence[tuple[float, Share]]) -> tuple[float, Share]:
    return known[len(known) // 2]


def conditions(run: Run) -> list[str]:
    """What a reader must know to compare the figures with others."""
    spec = run.spec
    if spec is None:
        return ["read from a log"]
    exact = run.claim.guarantee == "deterministic"
    return [
        f"{spec.data.spec}, {spec.data.split} split",
        meaning.noise_words(run),
        "every case counted" if exact else f"α = {spec.alpha:g} an input",
        f"seed {spec.seed}",
    ]


def _at(radius: float, share: Share | None) -> tuple[str, float, str, str]:
    """A row of the table of one run: radius, percent of a bar's length, percent as shown, interval."""
    if share is None:
        return radius_name(radius), 0.0, "", ""
    return radius_name(radius), 100.0 * share.value, percent(share), span(share.interval)


def _by_norm(runs: Sequence[Run], radii: Sequence[float]) -> Iterator[tuple[list[Run], Sequence[float]]]:
    """Runs of one norm together, with radii for them: those asked for, or else those that suit the norm."""
    usual = list(radii) == default_radii(runs)
    for ruler in dict.fromkeys(run.claim.ruler for run in runs):
        group = [run for run in runs if run.claim.ruler == ruler]
        yield group, default_radii(group) if usual else radii


def _table(runs: Sequence[Run], radii: Sequence[float]) -> Table:
    found = [figures(run, radii) for run in runs]
    return Table("run", tuple(run.name for run in runs), tuple(tables.columns(found)))


def _curves(groups: Sequence[tuple[list[Run], Sequence[float]]]) -> Iterator[curve_panel.CurvePanel]:
    for number, (group, radii) in enumerate(groups):
        if certified := [run for run in group if run.kind == "certify"]:
            yield curve_panel.panel(number, certified, radii)


def _colour(run: Run, runs: Sequence[Run]) -> int | None:
    """Runs of one norm are told apart by colour, in their order, as in their panel of curves."""
    alike = [id(other) for other in runs if (other.kind, other.claim.ruler) == ("certify", run.claim.ruler)]
    return alike.index(id(run)) if id(run) in alike else None


def _run(run: Run, radii: Sequence[float], shared: Sequence[str], runs: Sequence[Run]) -> PageRun:
    found = figures(run, radii)
    shares = (("correct", found.accuracy), ("wrong", found.wrong), ("abstained", found.abstained))
    settings = {"question": run.spec.tables()} if run.spec else {}
    settings |= {"means": run.means.tables()} if run.means else {}
    settings |= {"memory": run.memory._asdict()} if run.memory else {}
    return PageRun(
        figures=found,
        headline=headline(run, found, *_middle(_headline_radii(found))),
        conditions=[line for line in conditions(run) if line not in shared],
        colour=_colour(run, runs),
        cards=list(cards(found)),
        bars=[(name, share.hits, 100.0 * share.value, percent(share)) for name, share in shares],
        listing=listing(run, len(runs)),
        command=run.means.command if run.means else None,
        settings=_settings(settings),
    )


def _settings(settings: Mapping[str, Any], title: str = "run") -> list[tuple[str, list[tuple[str, str]]]]:
    """The recipe as tables, a table within a table after it; the command has a place of its own."""
    loose = [(name, _shown(value)) for name, value in settings.items() if not isinstance(value, Mapping)]
    loose = [(name, value) for name, value in loose if value and name != "command"]
    inner = [_settings(table, name) for name, table in settings.items() if isinstance(table, Mapping)]
    return [*([(title, loose)] if loose else []), *(group for groups in inner for group in groups)]


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else "" if value is None else str(value)
