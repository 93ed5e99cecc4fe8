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
from smoothcert.report import (
    _ensemble_words,
    curve_panel,
    draw_panels,
    economy,
    ensemble_plots,
    headline,
    meaning,
    plots,
    render,
    tables,
)
from smoothcert.report._layout import Column
from smoothcert.report._templates import fill
from smoothcert.report.ensemble import Comparison
from smoothcert.report.gallery import galleries
from smoothcert.report.intervals import span
from smoothcert.report.listing import Listing, listing
from smoothcert.report.metrics import LEVEL, Figures, default_radii, figures, radius_name, setting
from smoothcert.report.question import warning
from smoothcert.report.sections import sections
from smoothcert.runs.run import Run


@dataclass(frozen=True)
class Group:
    """Runs whose radii are of one norm, in one table."""

    norm: str  # as it is written
    figures: list[Figures]
    columns: list[Column]


@dataclass(frozen=True)
class PageRun:
    """One run as the page shows it."""

    figures: Figures
    conditions: list[str]  # data, noise, alpha, seed: what the figures stand under; those all runs share are not here
    colour: int | None  # of its curve
    cards: list[headline.Card]
    bars: list[tuple[str, int, float, str]]  # outcome, inputs, percent of the bar's length, percent as shown
    listing: Listing
    log: bool  # a foreign log: no settings, no counts
    command: str | None
    settings: list[tuple[str, list[tuple[str, str]]]]  # tables of name, value


def page(
    records: Sequence[Run],
    radii: Sequence[float] | None = None,
    title: str = "",
    ensembles: Sequence[Comparison] = (),
    notes: Sequence[str] = (),
) -> str:
    """The page as text; `radii` as in `metrics.figures`, and `notes` on ensembles that are not compared."""
    radii = default_radii(records) if radii is None else radii
    spent = economy.economies(records, radii)
    shared = headline.shared(records)
    kin = list(_kin(records, radii))
    own = {id(record): at for group, at in kin for record in group}
    runs = [_run(record, own[id(record)], shared, records) for record in records]
    certified = [run.figures for run in runs if run.figures.kind == "certify"]
    script = fill("page.js.jinja")
    return fill(
        "page.html.jinja",
        title=title or _title(runs),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        runs=runs,
        several=len(runs) > 1,
        shared=shared,
        certified=certified,
        norms=" or ".join(sorted({plots.NORMS.get(run.norm, run.norm) for run in certified})),
        says=meaning.says(records),
        does_not_say=meaning.does_not_say(records),
        curves=list(_curves(kin)),
        galleries=galleries(records),
        groups=[_group([figures(record, at) for record in group]) for group, at in kin],
        level=f"{LEVEL * 100:g} %",
        span=span,
        radius_name=radius_name,
        percent=tables.percent,
        decimal=tables.decimal,
        notes=tables.notes([run.figures for run in runs]),
        warning=warning([run.question for run in certified]),
        dotted=any(run.question.radii for run in certified),
        economies=spent,
        economy=economy,
        low=_low(records),
        histogram=draw_panels.histogram(spent),
        operating=draw_panels.operating(spent),
        ensembles=ensemble_plots.panels(ensembles),
        ensemble_sizes=ensemble_plots.sizes(ensembles),
        ensemble_words=_ensemble_words,
        ensemble_notes=notes,
        most_dots=ensemble_plots.MOST_DOTS,
        sections=[one if isinstance(one, str) else render.html(one) for one in sections(records, radii)],
    )


def save(text: str, path: Path) -> None:
    """Write the page, whole or not at all."""
    write_whole(path, text.encode())


def _kin(records: Sequence[Run], radii: Sequence[float]) -> Iterator[tuple[list[Run], Sequence[float]]]:
    """Records of one norm together, with radii for them: those asked for, or else those that suit the norm."""
    usual = list(radii) == default_radii(records)
    for norm in dict.fromkeys(record.norm for record in records):
        group = [record for record in records if record.norm == norm]
        yield group, default_radii(group) if usual else radii


def _curves(kin: Sequence[tuple[list[Run], Sequence[float]]]) -> Iterator[curve_panel.Panel]:
    for number, (group, radii) in enumerate(kin):
        if certified := [record for record in group if record.kind == "certify"]:
            yield curve_panel.panel(number, certified, radii)


def _group(found: list[Figures]) -> Group:
    return Group(plots.NORMS.get(found[0].norm, found[0].norm), found, tables.columns(found))


def _title(runs: Sequence[PageRun]) -> str:
    return runs[0].figures.name if len(runs) == 1 else f"{len(runs)} runs side by side"


def _low(records: Sequence[Run]) -> str | None:
    """The distribution of bounds as SVG, where runs keep them."""
    figure = plots.low_figure(records)
    words = "Cumulative distribution over inputs of the lower bound on the probability of the top class."
    return plots.inline_svg(figure, words, "low") if figure else None


def _colour(record: Run, records: Sequence[Run]) -> int | None:
    """Runs of one norm are told apart by colour, in their order, as in their panel of curves."""
    kin = [id(other) for other in records if (other.kind, other.norm) == ("certify", record.norm)]
    return kin.index(id(record)) if id(record) in kin else None


def _run(record: Run, radii: Sequence[float], shared: Sequence[str], records: Sequence[Run]) -> PageRun:
    found = figures(record, radii)
    shares = (("correct", found.accuracy), ("wrong", found.wrong), ("abstained", found.abstained))
    command = setting(record.settings, "command")
    return PageRun(
        figures=found,
        conditions=[line for line in headline.conditions(record) if line not in shared],
        colour=_colour(record, records),
        cards=list(headline.cards(found)),
        bars=[(name, share.hits, 100.0 * share.value, tables.percent(share)) for name, share in shares],
        listing=listing(record),
        log=not record.settings,
        command=str(command) if command else None,
        settings=_settings(record.settings),
    )


def _settings(settings: Mapping[str, Any], title: str = "run") -> list[tuple[str, list[tuple[str, str]]]]:
    """The recipe as tables, a table within a table after it; the command has a place of its own."""
    loose = [(name, _shown(value)) for name, value in settings.items() if not isinstance(value, Mapping)]
    loose = [(name, value) for name, value in loose if value and name != "command"]
    inner = [_settings(table, name) for name, table in settings.items() if isinstance(table, Mapping)]
    return [*([(title, loose)] if loose else []), *(group for groups in inner for group in groups)]


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
