"""What stands at the top of a report: the headline figures of a run, and what they stand under."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from smoothcert.report import plots, tables
from smoothcert.report.intervals import span
from smoothcert.report.metrics import LEVEL, Figures, radius_name, setting
from smoothcert.report.noise_words import noise_words
from smoothcert.report.question import asked
from smoothcert.runs.run import Run


@dataclass(frozen=True)
class Card:
    """One headline figure."""

    name: str
    value: str
    unit: str
    note: str  # what the figure is, or what kind of interval follows
    ends: str = ""  # of the interval: what the sample leaves open


def cards(run: Figures) -> Iterator[Card]:
    """The figures that a reader looks for first, each with its interval."""
    exact, students = (f"{LEVEL * 100:g} % {kind} interval" for kind in ("exact", "t"))
    certify = run.kind == "certify"
    radii = run.question.radii
    at = radius_name(radii[0]) if radii else "0"
    name = f"Certified accuracy at radius {at}" if certify else "Accuracy of the smoothed classifier"
    yield Card(name, tables.percent(run.accuracy), "%", exact, span(run.accuracy.interval))
    if run.acr is not None:
        known = None if radii else run.acr_interval
        note = f"radii above {radius_name(radii[-1])} were not tried" if radii else "read it with the curve"
        ends = (students, span(known, percent=False)) if known else (note,)
        yield Card("Average certified radius", tables.decimal(run.acr), plots.NORMS.get(run.norm, ""), *ends)
    if run.clean_accuracy is not None:
        share = run.clean_accuracy
        yield Card("Clean accuracy, no noise", tables.percent(share), "%", exact, span(share.interval))
    yield Card("Abstained", tables.percent(run.abstained), "%", exact, span(run.abstained.interval))
    if run.mean_draws is not None:
        yield Card("Draws an input", tables.count(run.mean_draws), "", "mean over inputs")
    if run.seconds is not None:
        each = f"{run.seconds / run.inputs:.2g} s an input"
        yield Card("Time", tables.duration(run.seconds), "", each)


def conditions(record: Run) -> list[str]:
    """What a reader must know to compare the figures with others."""
    question = record.settings.get("question")
    if not isinstance(question, Mapping):
        return ["read from a log"]
    alpha = setting(record.settings, "alpha")
    said = [
        f"{question['data']}, {question.get('split', 'test')} split" if "data" in question else "",
        noise_words(record),
        "every case counted" if asked(record).counted else "" if alpha is None else f"α = {alpha:g} an input",
        f"seed {question['seed']}" if "seed" in question else "",
    ]
    return [line for line in said if line]


def shared(records: Sequence[Run]) -> list[str]:
    """The conditions of all of them."""
    all_said = [conditions(record) for record in records]
    return [line for line in all_said[0] if all(line in said for said in all_said)]
