"""One page that holds a whole report and needs nothing but itself: figures, their meaning, curves, settings, inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from certus.contracts import ABSTAIN
from certus.files import write_whole
from certus.report import _ensemble_words, draw_panels, economy, ensemble_plots, plots, tables
from certus.report._templates import fill
from certus.report.ensemble import Comparison
from certus.report.metrics import LEVEL, Figures, Interval, default_radii, figures, radius_name, setting
from certus.report.question import warning
from certus.report.sections import sections
from certus.runs.exchange import rounded_down
from certus.runs.rows import Record, Row

MOST_ROWS = 500  # inputs listed for a run; the run itself holds all of them


@dataclass(frozen=True)
class Card:
    """One headline figure."""

    name: str
    value: str
    unit: str
    note: str  # what the sample leaves open, or what the figure is


@dataclass(frozen=True)
class Line:
    """One input in the list of inputs."""

    row: Row
    outcome: str  # correct, wrong, abstained
    predicted: str
    radius: str
    draws: str


@dataclass(frozen=True)
class Run:
    """One run as the page shows it."""

    figures: Figures
    cards: list[Card]
    bars: list[tuple[str, int, float, str]]  # outcome, inputs, percent of the bar's length, percent as shown
    lines: list[Line]
    total: int
    log: bool  # a foreign log: no settings, no counts
    command: str | None
    settings: list[tuple[str, list[tuple[str, str]]]]  # tables of name, value
    facts: dict[str, str]  # sigma, alpha, noise, where the settings say


def page(
    records: Sequence[Record],
    radii: Sequence[float] | None = None,
    title: str = "",
    ensembles: Sequence[Comparison] = (),
    notes: Sequence[str] = (),
) -> str:
    """The page as text; `radii` as in `metrics.figures`, and `notes` on ensembles that are not compared."""
    radii = default_radii(records) if radii is None else radii
    spent = economy.economies(records, radii)
    runs = [_run(record, radii) for record in records]
    certified = [run.figures for run in runs if run.figures.kind == "certify"]
    return fill(
        "page.html.jinja",
        title=title or _title(runs),
        runs=runs,
        several=len(runs) > 1,
        certified=certified,
        norms=" or ".join(sorted({plots.NORMS.get(run.norm, run.norm) for run in certified})),
        columns=tables.columns([run.figures for run in runs]),
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
        **_pictures(records, radii, certified),
        histogram=draw_panels.histogram(spent),
        operating=draw_panels.operating(spent),
        ensembles=ensemble_plots.panels(ensembles),
        ensemble_sizes=ensemble_plots.sizes(ensembles),
        ensemble_words=_ensemble_words,
        ensemble_notes=notes,
        most_dots=ensemble_plots.MOST_DOTS,
        sections=list(sections(records, radii)),
    )


def save(text: str, path: Path) -> None:
    """Write the page, whole or not at all."""
    write_whole(path, text.encode())


def span(interval: Interval | None, percent: bool = True) -> str:
    """An interval as shown: its low end rounded down, its high end up."""
    if interval is None:
        return "unknown"
    low, high = rounded_down(interval.low, 3), rounded_down(-interval.high, 3).lstrip("-")
    if percent:
        low, high = (str((Decimal(end) * 100).quantize(Decimal("0.1"))) for end in (low, high))
    return f"{low} – {high}"


def _title(runs: Sequence[Run]) -> str:
    return runs[0].figures.name if len(runs) == 1 else f"{len(runs)} runs side by side"


def _pictures(records: Sequence[Record], radii: Sequence[float], certified: Sequence[Figures]) -> dict[str, str | None]:
    """The curves as SVG with what they show in words, for who cannot see them."""
    curve = low = None
    if certified:
        points = [
            f"{run.name}: "
            + ", ".join(f"{tables.percent(s)} % at {radius_name(r)}" for r, s in run.certified_accuracy.items() if s)
            for run in certified
        ]
        words = "Certified accuracy against radius. " + "; ".join(points)
        curve = plots.inline_svg(plots.curve_figure(records), words, "curve")
    bounds = plots.low_figure(records)
    if bounds:
        words = "Cumulative distribution over inputs of the lower bound on the probability of the top class."
        low = plots.inline_svg(bounds, words, "low")
    return {"curve": curve, "low": low}


def _run(record: Record, radii: Sequence[float]) -> Run:
    found = figures(record, radii)
    shares = (("correct", found.accuracy), ("wrong", found.wrong), ("abstained", found.abstained))
    command = setting(record.settings, "command")
    return Run(
        figures=found,
        cards=list(_cards(found)),
        bars=[(name, share.hits, 100.0 * share.value, tables.percent(share)) for name, share in shares],
        lines=[_line(record, row) for row in record.rows[:MOST_ROWS]],
        total=len(record.rows),
        log=not record.settings,
        command=str(command) if command else None,
        settings=_settings(record.settings),
        facts=_facts(record.settings),
    )


def _cards(run: Figures) -> Iterator[Card]:
    def interval(around: Interval | None, percent: bool = True, kind: str = "exact") -> str:
        return f"{LEVEL * 100:g} % {kind} interval {span(around, percent)}"

    certify = run.kind == "certify"
    asked = run.question.radii
    at = radius_name(asked[0]) if asked else "0"
    name = f"Certified accuracy at radius {at}" if certify else "Accuracy of the smoothed classifier"
    yield Card(name, tables.percent(run.accuracy), "%", interval(run.accuracy.interval))
    if run.acr is not None:
        note = interval(run.acr_interval, percent=False, kind="t") if run.acr_interval else "read it with the curve"
        note = f"radii above {radius_name(asked[-1])} were not tried" if asked else note
        yield Card("Average certified radius", tables.decimal(run.acr), plots.NORMS.get(run.norm, ""), note)
    if run.clean_accuracy is not None:
        share = run.clean_accuracy
        yield Card("Clean accuracy, no noise", tables.percent(share), "%", interval(share.interval))
    yield Card("Abstained", tables.percent(run.abstained), "%", interval(run.abstained.interval))
    if run.mean_draws is not None:
        yield Card("Draws an input", tables.count(run.mean_draws), "", "mean over inputs")
    if run.seconds is not None:
        each = f"{run.seconds / run.inputs:.2g} s an input"
        yield Card("Time", tables.duration(run.seconds), "", each)


def _line(record: Record, row: Row) -> Line:
    abstained = row.predicted == ABSTAIN
    return Line(
        row=row,
        outcome="abstained" if abstained else "correct" if row.correct else "wrong",
        predicted="none" if abstained else str(row.predicted),
        radius=tables.UNKNOWN if abstained or record.kind == "predict" else tables.decimal(row.radius),
        draws=tables.count(row.draws),
    )


def _facts(settings: Mapping[str, Any]) -> dict[str, str]:
    noise = setting(settings, "noise")
    part = noise if isinstance(noise, Mapping) else {}
    facts = {"noise": part.get("name"), "sigma": part.get("sigma"), "alpha": setting(settings, "alpha")}
    return {name: str(value) for name, value in facts.items() if value is not None}


def _settings(settings: Mapping[str, Any], title: str = "run") -> list[tuple[str, list[tuple[str, str]]]]:
    """The recipe as tables, a table within a table after it; the command has a place of its own."""
    loose = [(name, _shown(value)) for name, value in settings.items() if not isinstance(value, Mapping)]
    loose = [(name, value) for name, value in loose if name != "command"]
    inner = [_settings(table, name) for name, table in settings.items() if isinstance(table, Mapping)]
    return [*([(title, loose)] if loose else []), *(group for groups in inner for group in groups)]


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
