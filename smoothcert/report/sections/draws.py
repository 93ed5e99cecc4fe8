"""What runs spent and bought: draws, where inputs were decided, what schemes do at every p, runner-up bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from smoothcert.report import draw_plots
from smoothcert.report.metrics import radius_name
from smoothcert.report.schemes import RadiusTest, Scheme, StageOutcomes
from smoothcert.report.section import Figure, Section, Table, plain, table_of
from smoothcert.report.spending import RunnerUpGain, SamplingCost, sampling_cost
from smoothcert.report.tables import UNKNOWN, count, decimal, percent
from smoothcert.runs.run import Run

PLACE = 60  # among the sections
LEAD = (
    "What inputs cost. Dearest 5 %: the share of all draws that the most expensive 5 % of the inputs took. SampleRF "
    "and TimeRF (reduction factors): draws and time of a fixed number of draws ÷ those used; rounded down"
)
COUNTED = (
    "Filled: share of the inputs that took so many draws. Outline: share of all draws that these inputs took. Draws "
    "that chose the class are counted in"
)
SHARES = "Shares of all inputs (%), from the stored votes. Draws that chose the class are not counted"
STAGES = "ASC and ASA: average share certified and abstained on in a stage"
EVERY_P = (
    "Computed exactly from its boundaries, not simulated. Right of p₀ the radius holds, left of it it does not: there "
    "every certificate would be an error, and p₀ itself is the worst case"
)
SAME_VOTES = (
    "The same votes at the same α, once with a bound on the runner-up and once with the plain bound, which takes "
    "everything else for one class. Columns headed by a number: certified accuracy (%) at that radius"
)


def section(runs: Sequence[Run], radii: Sequence[float]) -> Section:
    """What every run spent, for JSON; shown where draws were spent unevenly, or bought something that can be told."""
    costs = [sampling_cost(run, runs, radii) for run in runs]
    uneven = any((cost.spread is not None and not cost.spread.even) or cost.saving for cost in costs)
    gains = [(cost.name, cost.gain) for cost in costs if cost.gain]
    return Section(
        "draws",
        "Draws",
        tables=(_table(costs),) if uneven else (),
        figures=tuple(_histogram(costs)) if uneven else (),
        lead=LEAD if uneven else "",
        parts=(_outcomes(costs), _operating(costs), *(_gain(*one) for one in gains)),
        data={i: _json(cost) for i, cost in enumerate(costs)},
    )


def factor(value: float | None) -> str:
    """A reduction factor: one decimal, two below ten, rounded down, because more is better."""
    if value is None:
        return UNKNOWN
    places = 2 if value < 10 else 1
    return f"{math.floor(value * 10**places) / 10**places:,.{places}f} ×"


def _table(costs: Sequence[SamplingCost]) -> Table:
    """The columns that say something about at least one run."""
    spent, saved, hoped = ([getattr(c, name) for c in costs] for name in ("spread", "saving", "expected"))
    made = [
        plain("total draws", [count(s and s.total) for s in spent]),
        plain("median", [count(s and s.median) for s in spent]),
        plain("dearest\u00a05\u00a0%", [f"{100 * s.dearest_share:.1f} %" if s else UNKNOWN for s in spent]),
        plain("SampleRF", [factor(s and s.sample) for s in saved]),
        plain("TimeRF", [factor(s and s.time) for s in saved]),
        plain("in tests", [count(e and e.used) for e in hoped]),
        plain("expected", [count(e and e.expected) for e in hoped]),
    ]
    shown = [column for column in made if any(cell != UNKNOWN for cell in column.cells)]
    return Table("run", tuple(cost.name for cost in costs), tuple(shown), tuple(_notes(costs)))


def _notes(costs: Sequence[SamplingCost]) -> Iterator[str]:
    """What the factors are, and against what; what the expected draws are."""
    for line in dict.fromkeys(cost.saving.words for cost in costs if cost.saving):
        whose = ", ".join(cost.name for cost in costs if cost.saving and cost.saving.words == line)
        yield f"SampleRF of {whose} is {line}"
    if any(cost.saving for cost in costs):
        yield "SampleRF: draws of a fixed number ÷ those used; dearest 5 %: what the dearest 5 % of inputs took"
    if any(cost.saving and cost.saving.time for cost in costs):
        yield "TimeRF: the same of seconds, from separate runs, each under the load of its hour: read SampleRF first"
    if any(cost.expected for cost in costs):
        yield (
            "in tests: draws without those that chose the class; expected: what the scheme takes on average "
            "when each input's share of votes is its probability, computed exactly"
        )


def _histogram(costs: Sequence[SamplingCost]) -> Iterator[Figure]:
    """Draws an input; nothing where every input of every run got the same."""
    shown = [(i, cost.name, cost.spread) for i, cost in enumerate(costs) if cost.spread is not None]
    if any(not spread.even for _, _, spread in shown):
        words = [f"{name}: median {spread.median:,.0f}, mean {spread.mean:,.0f}" for _, name, spread in shown]
        alt = "Draws an input. " + "; ".join(words)
        yield Figure(partial(draw_plots.histogram, shown), alt, COUNTED, "Draws an input")


def _outcomes(costs: Sequence[SamplingCost]) -> Section:
    found = [(cost.name, one) for cost in costs for one in cost.outcomes]
    staged = f"{SHARES}. {STAGES}" if any(one.staged for _, one in found) else SHARES
    tables = tuple(_outcome_table(name if len(costs) > 1 else "", one) for name, one in found)
    return Section("courses", "Where inputs were decided", tables=tables, lead=staged, brief=())


def _outcome_table(name: str, found: StageOutcomes) -> Table:
    staged, others = ["certified (ASC)", "abstained (ASA)", "passed on"], ["certified", "given up", "undecided"]
    rows = [(s.name, [percent(s.certified), percent(s.given_up), percent(s.undecided)]) for s in found.stages]
    untested = f"not tested on {percent(found.untested)} %: a smaller radius had not been certified"
    corner = ", ".join(filter(None, (name, f"radius {radius_name(found.radius)}")))
    return table_of(corner, staged if found.staged else others, rows, *([untested] if found.untested.hits else []))


def _operating(costs: Sequence[SamplingCost]) -> Section:
    """What each scheme does at every p; each test once, however many runs made it."""
    tests: dict[Any, tuple[Scheme, RadiusTest, list[str]]] = {}
    for cost in costs:
        if (scheme := cost.scheme) is not None:
            for test in scheme.tests:
                key = (scheme.identity, test.radius, test.level)
                tests.setdefault(key, (scheme, test, []))[2].append(cost.name)
    figures = tuple(_test_figure(*item, several=len(costs) > 1) for item in tests.values())
    return Section("operating", "What the scheme does at every p", figures=figures, lead=EVERY_P, brief=())


def _test_figure(scheme: Scheme, test: RadiusTest, names: Sequence[str], several: bool) -> Figure:
    """The errors at the worst p beside what they may be."""
    said = (
        f"At p₀ = {test.p0:.6f} it certifies with probability {test.error:.3g}, at most α = {scheme.alpha:.3g}; "
        f"it gives up with probability {test.lost:.3g}, at most β = {scheme.beta:.3g}."
    )
    if scheme.test_class == "leader":
        price = 1 - test.level / scheme.alpha
        cost = f"{100 * price:.1f} %" if price >= 0.001 else "less than 0.1 %"
        said += f" Following whichever class leads takes {cost} of α; the boundaries have the rest."
    title = f"{scheme.name}, radius {radius_name(test.radius)}" + (f" ({', '.join(names)})" if several else "")
    alt = f"Probability that {scheme.name} certifies radius {test.radius:g}, gives up or goes on, against p."
    return Figure(partial(draw_plots.operating, scheme, test), alt, said, title)


def _gain(name: str, gain: RunnerUpGain) -> Section:
    sides = [gain.with_runner_up, gain.plain]
    radii = list(gain.plain.certified_accuracy)
    rows = [
        (
            side.name,
            [*(percent(side.certified_accuracy[r]) for r in radii), decimal(side.acr), decimal(side.mean_radius),
             percent(side.certified)],
        )
        for side in sides
    ]  # fmt: skip
    moved = (
        f"{gain.gained} input{'' if gain.gained == 1 else 's'} gained (certified with the runner-up bound only), "
        f"{gain.lost} lost (with the plain bound only); radius larger on {gain.larger}, smaller on {gain.smaller}"
    )
    brief = (
        f"{name}: mean radius {decimal(gain.with_runner_up.mean_radius)} with the runner-up bound, "
        f"{decimal(gain.plain.mean_radius)} with the plain bound at the same alpha; "
        f"{gain.gained} inputs gained, {gain.lost} lost"
    )
    heads = [*map(radius_name, radii), "ACR", "mean radius", "certified %"]
    title = f"What the runner-up bound brought: {name}"
    return Section("gain", title, (table_of("bound", heads, rows, moved),), lead=SAME_VOTES, brief=(brief,))


def _json(cost: SamplingCost) -> dict[str, Any]:
    """For machines; null where a figure is not known."""
    spent, hoped, gain = cost.spread, cost.expected, cost.gain
    return {
        "draws": None if spent is None else {
            "total": spent.total, "mean": spent.mean, "median": spent.median,
            "dearest_inputs": spent.dearest, "dearest_share": spent.dearest_share,
        },
        "saving": None if cost.saving is None else asdict(cost.saving),
        "tests": [
            {"radius": test.radius, "p0": test.p0, "level": test.level, "error": test.error, "lost": test.lost,
             "alpha": cost.scheme.alpha, "beta": cost.scheme.beta}
            for test in cost.scheme.tests
        ] if cost.scheme else [],
        "courses": [_outcomes_json(one) for one in cost.outcomes],
        "expected_draws": None if hoped is None else asdict(hoped),
        "runner_up": None if gain is None else {
            **asdict(gain), **{name: _side_json(gain, name) for name in ("with_runner_up", "plain")},
        },
    }  # fmt: skip


def _outcomes_json(found: StageOutcomes) -> dict[str, Any]:
    shares = ("certified", "given_up", "undecided")
    return {
        "radius": found.radius,
        "untested": found.untested.value,
        "by": "stage" if found.staged else "draws, cumulative",
        "stretches": [{"name": s.name, **{key: getattr(s, key).value for key in shares}} for s in found.stages],
    }


def _side_json(gain: RunnerUpGain, name: str) -> dict[str, Any]:
    side = getattr(gain, name)
    by_radius = {radius_name(r): share.value for r, share in side.certified_accuracy.items()}
    return {
        "mean_radius": side.mean_radius,
        "acr": side.acr,
        "certified": side.certified.value,
        "certified_accuracy": by_radius,
    }
