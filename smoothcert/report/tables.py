"""Runs side by side, and numbers as a report writes them.

A row is a run, a column a radius or a figure. Certified accuracy over radii comes first and ACR after it, because a
classifier that is mostly wrong can have a large one (Sun et al., ICML 2025). Shares are percentages. Rounding happens
here and downwards. What a reader must know of a run stands below the table. Figures are ranked only where they answer
the same question on the same inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from smoothcert.contracts import ABSTAIN, WHOLE
from smoothcert.foreign import one_line
from smoothcert.report.metrics import Figures, Interval, Share, radius_name, same_inputs
from smoothcert.report.section import Column, Table
from smoothcert.runs.exchange import rounded_down
from smoothcert.runs.run import Claim, Row, Run

UNKNOWN = "–"
NAME = 24  # characters of a class's name in a table
NORMS = {"l0": "ℓ₀", "l1": "ℓ₁", "l2": "ℓ₂", "linf": "ℓ∞", "patch": "patch", "unstated": "an unstated norm"}
OTHER_QUESTIONS = (
    "These runs answer different questions (radii asked for, or the class that was tested): their ACR do not compare."
)
OTHER_INPUTS = "These runs are not of the same inputs: their figures do not compare, and none is marked as the best."


def columns(runs: Sequence[Figures]) -> list[Column]:
    """The columns that say something about at least one of the runs: certified accuracy over radii, then the rest."""
    same = same_inputs([run.run for run in runs])
    radii = sorted({radius for run in runs for radius in run.certified_accuracy})
    made = [_at(radius, runs, same) for radius in radii]
    if any(run.acr is not None for run in runs):
        ranked = same and not warning([run.claim for run in runs if run.kind == "certify"])
        made.append(_column("ACR", runs, lambda run: decimal(run.acr), (lambda run: run.acr) if ranked else None))
    if any(run.clean_accuracy for run in runs):
        made.append(_column("clean %", runs, lambda run: percent(_clean(run)), _clean if same else None))
    if any(run.kind == "predict" for run in runs):
        made.append(_column("accuracy %", runs, lambda run: percent(run.accuracy), _accuracy if same else None))
    made.append(_column("abstained %", runs, lambda run: percent(run.abstained)))
    made.append(_column("inputs", runs, _inputs))
    if any(run.mean_draws is not None for run in runs):
        made.append(_column("draws", runs, lambda run: count(run.mean_draws)))
    if any(run.seconds is not None for run in runs):
        made.append(_column("time", runs, lambda run: duration(run.seconds)))
    return made


def table(runs: Sequence[Figures]) -> Table:
    """All of the columns, with what a reader must know below them."""
    return Table("run", tuple(run.name for run in runs), tuple(columns(runs)), tuple(notes(runs)))


def notes(runs: Sequence[Figures]) -> Iterator[str]:
    """What a reader must know of the runs, and whether they compare."""
    yield from (f"{one_line(run.name)} is {words}" for run in runs if (words := unfinished(run.run)))
    yield from (f"{names}: {line}" for names, line in said(runs))
    yield from warnings(runs)


def said(runs: Sequence[Figures]) -> list[tuple[str, str]]:
    """What is to be known of runs, each line once, with the names of the runs it is about."""
    lines: dict[str, list[str]] = {}
    for run in runs:
        for line in said_of(run.run):
            lines.setdefault(line, []).append(one_line(run.name))
    return [(", ".join(names), line) for line, names in lines.items()]


def warnings(runs: Sequence[Figures]) -> Iterator[str]:
    """Which figures of these runs do not compare, or mislead where they do."""
    if warned := warning([run.claim for run in runs if run.kind == "certify"]):
        yield warned
    if not same_inputs([run.run for run in runs]):
        yield OTHER_INPUTS
    else:
        yield from _misleading(runs)
    from smoothcert.report import choices  # which needs numpy; a list of the zoo does not

    yield from choices.notes([run.run for run in runs])


def notes_by_run(runs: Sequence[Run]) -> list[list[str]]:
    """The same for the JSON object of each run beside the others."""
    from smoothcert.report import choices

    shared = list(choices.tries(runs))
    return [
        [
            *filter(None, [unfinished(run)]),
            *said_of(run),
            *(t.words for t in shared if any(one is run for one in t.runs)),
        ]
        for run in runs
    ]


def unfinished(run: Run) -> str:
    """`unfinished: 37 of 40 inputs`, since whoever leaves out the worst ones has better figures; else nothing."""
    if not run.unfinished:
        return ""
    return f"unfinished: {len(run.rows):,} of {run.inputs or 0:,} inputs, and figures are of these alone"


def said_of(run: Run) -> list[str]:
    """What a reader has to know of one run before its figures; nothing where all is usual."""
    said = list(run.claim.words)
    if run.kind == "certify" and run.claim.norm == "unstated":
        said.append("the log does not state the norm of its radii; --norm does")
    if run.spec is not None and run.spec.model_covers == "source":
        said.append("only the source of its model was hashed: weights outside the source may have changed since")
    return said


def warning(claims: Sequence[Claim]) -> str | None:
    """One line, if the questions of certify runs side by side are not the same."""
    return OTHER_QUESTIONS if len({claim.comparable for claim in claims}) > 1 else None


def units(runs: Sequence[Run], spaced: bool = False) -> str:
    """In what the radii of these runs are told: inputs in [0,1], units of a scale, or pixels."""
    found = " or ".join(dict.fromkeys(_unit(run) for run in runs))
    return found.replace("[0,1]", "[0, 1]") if spaced else found


def _unit(run: Run) -> str:
    if run.claim.norm == "patch":
        return f"times {run.claim.measure}" if run.claim.measure else "side in pixels"
    return "inputs in [0,1]" if run.spec is None else run.spec.data.units


def class_names(run: Run) -> tuple[str, ...]:
    """The names of a run's classes by their number; none where they are unknown."""
    return () if run.spec is None else run.spec.data.class_names


def class_name(run: Run, label: int, most: int | None = None) -> str:
    """One class as it is shown: its name, cut to so many characters, or its number; an abstention names none."""
    names = class_names(run)
    return "none" if label == ABSTAIN else cut(names[label], most) if 0 <= label < len(names) else str(label)


def cut(name: str, most: int | None) -> str:
    """A name for a place of so many characters."""
    return name if most is None or len(name) <= most else f"{name[: most - 1].rstrip()}…"


def outcome(row: Row) -> str:
    """Right, wrong or no answer, in the words of a page."""
    return "abstained" if row.predicted == ABSTAIN else "correct" if row.correct else "wrong"


def radius_words(run: Run, row: Row) -> str:
    """Rounded down; a number of coordinates is whole. An abstention and a prediction have none."""
    if row.predicted == ABSTAIN or run.kind == "predict":
        return UNKNOWN
    return radius_name(row.radius) if run.claim.norm in WHOLE else decimal(row.radius)


def percent(share: Share | None) -> str:
    """A share in percent, one decimal, rounded down in whole numbers so that no rounding of floats can lift it."""
    if share is None:
        return UNKNOWN
    tenths = share.hits * 1000 // share.of
    return f"{tenths // 10}.{tenths % 10}"


def decimal(value: float | None) -> str:
    """A radius, three decimals, rounded down."""
    return UNKNOWN if value is None else rounded_down(value, 3)


def count(value: float | None) -> str:
    """A number of draws, whole."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def duration(seconds: float | None) -> str:
    """Seconds as a person says them."""
    if seconds is None:
        return UNKNOWN
    if seconds < 60.0:
        return f"{seconds:.1f} s"
    minutes, hours = divmod(round(seconds), 60)[0] % 60, round(seconds) // 3600
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {round(seconds) % 60:02} s"


def ends(interval: Interval, shift: int = 0) -> str:
    """An interval of a difference, rounded outwards."""
    return f"{rounded(interval.low, shift=shift)} to {rounded(interval.high, ROUND_CEILING, shift)}"


def rounded(value: float, way: str = ROUND_FLOOR, shift: int = 0, decimals: int = 3) -> str:
    """So many decimals, rounded down, the point then moved to the right by `shift`, with a proper minus."""
    # What a subtraction of doubles leaves behind the twelfth decimal must not move the third.
    found = Decimal(repr(round(float(value), 12))).quantize(Decimal(1).scaleb(-decimals), way).scaleb(shift)
    return str(found if found else abs(found)).replace("-", "−")


def span(interval: Interval | None, percent: bool = True) -> str:
    """An interval: its low end rounded down, its high end up."""
    if interval is None:
        return "unknown"
    low, high = rounded_down(interval.low, 3), rounded_down(-interval.high, 3).lstrip("-")
    if percent:
        low, high = (str((Decimal(end) * 100).quantize(Decimal("0.1"))) for end in (low, high))
    return f"{low} – {high}"


def _column(
    head: str,
    runs: Sequence[Figures],
    cell: Callable[[Figures], str],
    merit: Callable[[Figures], Share | float | None] | None = None,
    radius: float | None = None,
    over: str = "",
) -> Column:
    """A column; with a merit that several runs of one norm have, the highest ones above zero are marked."""
    merits = [merit(run) if merit else None for run in runs]
    values = [value.value if isinstance(value, Share) else value for value in merits]
    known = [value for value in values if value is not None]
    rulers = {run.claim.ruler for run, value in zip(runs, values, strict=True) if value is not None}
    best = tuple(len(rulers) == 1 < len(known) and value == max(known) > 0.0 for value in values)
    return Column(head, tuple(cell(run) for run in runs), best, radius, over)


def _at(radius: float, runs: Sequence[Figures], same: bool) -> Column:
    def share(run: Figures) -> Share | None:
        return run.certified_accuracy.get(radius)

    # A run that was asked for a larger radius only proves no more than that here; true labels are another question,
    # and a radius without a guarantee is none.
    claims = [run.claim for run in runs if run.kind == "certify"]
    alike = len({(claim.test_class == "labels", claim.guarantee == "none") for claim in claims}) == 1
    merit = share if same and alike and all(claim.exact(radius) for claim in claims) else None
    norms = " or ".join(sorted({claim.norm for claim in claims})).replace("unstated", "unstated norm")
    over = f"certified accuracy (%) at radius, {norms}, {units([run.run for run in runs])}"
    return _column(radius_name(radius), runs, lambda run: percent(share(run)), merit, radius, over)


def _misleading(runs: Sequence[Figures]) -> Iterator[str]:
    """Where ACR and certified accuracy at 0 rank runs of one question the other way round."""
    found = []
    for one in runs:
        passed = [
            one_line(other.name)
            for other in runs
            if (one.acr or 0.0) > (math.inf if other.acr is None else other.acr)
            and one.accuracy.hits < other.accuracy.hits
            and warning([one.claim, other.claim]) is None
        ]
        found += [f"{one_line(one.name)} than {', '.join(passed)}"] if passed else []
    if found:
        yield (
            f"ACR is larger but certified accuracy at radius 0 smaller in {'; in '.join(found)}: a few large radii "
            "raise ACR; compare certified accuracy at the radii that matter"
        )


def _clean(run: Figures) -> Share | None:
    return run.clean_accuracy


def _accuracy(run: Figures) -> Share:
    return run.accuracy


def _inputs(run: Figures) -> str:
    return f"{run.inputs} of {run.asked}" if run.inputs < run.asked else f"{run.inputs}"
