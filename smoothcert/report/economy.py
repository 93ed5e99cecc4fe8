"""What runs spent and what it bought, run by run: draws, reduction factors, courses, expected draws, runner-up bounds.

Each figure is there only where a run has what it needs: votes and settings. A log of the field has neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from smoothcert.report.course import Course, courses
from smoothcert.report.draws import Saving, Spread, saving, spread
from smoothcert.report.expected import Expected, expected
from smoothcert.report.gain import Gain, Side, gain
from smoothcert.report.metrics import Share, radius_name
from smoothcert.report.scheme import RadiusTest, Scheme, scheme
from smoothcert.report.tables import UNKNOWN, count, decimal
from smoothcert.runs.run import Run

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Economy:
    """One run; None or empty: not known, or not a figure of this kind of run."""

    name: str
    spread: Spread | None
    saving: Saving | None
    scheme: Scheme | None
    courses: tuple[Course, ...]
    expected: Expected | None
    gain: Gain | None


def economies(records: Sequence[Run], radii: Sequence[float]) -> list[Economy]:
    """What each record spent, with its reduction factors against the fixed run among them, if there is one."""
    return [_economy(record, records, radii) for record in records]


def _economy(record: Run, records: Sequence[Run], radii: Sequence[float]) -> Economy:
    found = scheme(record)
    followed = courses(record, found) if found else ()
    return Economy(
        name=record.name,
        spread=spread(record),
        saving=saving(record, records),
        scheme=found,
        courses=followed,
        expected=expected(record, found) if found and followed else None,
        gain=gain(record, radii),
    )


def factor(value: float | None) -> str:
    """A reduction factor: one decimal, two below ten, rounded down, because more is better."""
    if value is None:
        return UNKNOWN
    places = 2 if value < 10 else 1
    return f"{math.floor(value * 10**places) / 10**places:,.{places}f} ×"


def rough(value: float) -> str:
    """A small probability with three digits."""
    return f"{value:.3g}"


def share(value: float) -> str:
    """A share of draws in percent, to nearest: it is a description, not a claim."""
    return f"{100 * value:.1f} %"


HEADS = ("total draws", "mean", "median", "dearest\u00a05\u00a0%", "SampleRF", "TimeRF", "in tests", "expected")


def cells(run: Economy) -> tuple[str, ...]:
    """The figures of one run under HEADS."""
    spent, saved = run.spread, run.saving
    known = (UNKNOWN,) * 4 if spent is None else (
        count(spent.total), count(spent.mean), count(spent.median), share(spent.dearest_share)
    )  # fmt: skip
    hoped = (count(run.expected.used), count(run.expected.expected)) if run.expected else (UNKNOWN,) * 2
    return (*known, factor(saved.sample if saved else None), factor(saved.time if saved else None), *hoped)


def uneven(runs: Sequence[Economy]) -> bool:
    """Whether draws are worth a table: some run spent them unevenly, or can be compared."""
    return any((run.spread is not None and not run.spread.even) or run.saving for run in runs)


def shown(runs: Sequence[Economy]) -> list[int]:
    """The columns of HEADS that say something about at least one run."""
    rows = [cells(run) for run in runs]
    return [i for i in range(len(HEADS)) if any(row[i] != UNKNOWN for row in rows)]


def text(runs: Sequence[Economy]) -> RenderableType | None:
    """The table of draws and what runner-up bounds brought, for a terminal; None when there is nothing to say."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text("draws", style="italic"), _grid(runs)] if uneven(runs) else []
    parts += [Text(line) for line in [*(notes(runs) if uneven(runs) else ()), *gains(runs)]]
    return Group(*parts) if parts else None


def _grid(runs: Sequence[Economy]) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=SIMPLE_HEAD, pad_edge=False)
    grid.add_column("run", overflow="fold")
    columns = [i for i in shown(runs) if HEADS[i] != "mean"]  # which stands in the table of figures
    for i in columns:
        grid.add_column(HEADS[i], justify="right")
    for run in runs:
        grid.add_row(Text(" ".join(run.name.split())), *(cells(run)[i] for i in columns))
    return grid


def gains(runs: Sequence[Economy]) -> list[str]:
    """What the runner-up bound brought, a line a run."""
    return [
        f"{run.name}: mean radius {decimal(found.with_runner_up.mean_radius)} with the runner-up bound, "
        f"{decimal(found.plain.mean_radius)} with the plain bound at the same alpha; "
        f"{found.gained} inputs gained, {found.lost} lost"
        for run in runs
        if (found := run.gain)
    ]


def notes(runs: Sequence[Economy]) -> list[str]:
    """What the factors are against and what the expected draws are."""
    said = []
    for line in dict.fromkeys(run.saving.words for run in runs if run.saving):
        whose = ", ".join(run.name for run in runs if run.saving and run.saving.words == line)
        said.append(f"SampleRF of {whose} is {line}")
    if any(run.expected for run in runs):
        said.append(
            "in tests: draws without those that chose the class; expected: what the scheme takes on average "
            "when each input's share of votes is its probability, computed exactly"
        )
    return said


def as_json(run: Economy) -> dict[str, Any]:
    """The same for machines; null where a figure is not known."""
    spent, hoped = run.spread, run.expected
    return {
        "draws": None if spent is None else {
            "total": spent.total, "mean": spent.mean, "median": spent.median,
            "dearest_inputs": spent.dearest, "dearest_share": spent.dearest_share,
        },
        "saving": None if run.saving is None else asdict(run.saving),
        "tests": [] if run.scheme is None else [_test_json(run.scheme, test) for test in run.scheme.tests],
        "courses": [_course_json(course) for course in run.courses],
        "expected_draws": None if hoped is None else {"expected": hoped.expected, "used": hoped.used},
        "runner_up": None if run.gain is None else _gain_json(run.gain),
    }  # fmt: skip


def _test_json(scheme: Scheme, test: RadiusTest) -> dict[str, float]:
    """The errors at p0 beside what they may be."""
    own = {"radius": test.radius, "p0": test.p0, "level": test.level, "error": test.error, "lost": test.lost}
    return {**own, "alpha": scheme.alpha, "beta": scheme.beta}


def _course_json(course: Course) -> dict[str, Any]:
    return {
        "radius": course.radius,
        "untested": course.untested.value,
        "by": "stage" if course.staged else "draws, cumulative",
        "stretches": [
            {"name": part.name, **{key: getattr(part, key).value for key in ("certified", "given_up", "undecided")}}
            for part in course.stretches
        ],
    }


def _gain_json(found: Gain) -> dict[str, Any]:
    def side(one: Side) -> dict[str, Any]:
        by_radius: dict[float, Share] = one.certified_accuracy
        return {
            "mean_radius": one.mean_radius,
            "acr": one.acr,
            "certified": one.certified.value,
            "certified_accuracy": {radius_name(r): s.value for r, s in by_radius.items()},
        }

    moved = {key: getattr(found, key) for key in ("gained", "lost", "larger", "smaller")}
    return {"with_runner_up": side(found.with_runner_up), "plain": side(found.plain), **moved}
