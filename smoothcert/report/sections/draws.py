"""What runs spent and bought: draws, where inputs were decided, what schemes do at every p, runner-up bounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.bounds import Floats
from smoothcert.report.metrics import radius_name
from smoothcert.report.plots import INK, PALETTE, STYLE
from smoothcert.report.schemes import RadiusTest, Scheme, StageOutcomes, logit
from smoothcert.report.section import Figure, Section, Table, plain, table_of
from smoothcert.report.spending import RunnerUpGain, SamplingCost, Spread, sampling_cost
from smoothcert.report.tables import UNKNOWN, count, decimal, percent
from smoothcert.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

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
BINS = 5  # a decade
WINDOW, EVEN = 3.2, 33  # either side of p0, in logits, and points that are not denser towards p0
TICKS = (0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999, 0.9999, 0.99999)
FILLS = (("certified", PALETTE[2], 0.8), ("undecided", INK, 0.16), ("given up", PALETTE[1], 0.8))


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
        yield Figure(partial(histogram, shown), alt, COUNTED, "Draws an input")


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
    return Figure(partial(operating, scheme, test), alt, said, title)


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


def histogram(runs: Sequence[tuple[int, str, Spread]]) -> Drawing:
    """Draws an input on a logarithmic axis, a panel for each run (colour number, name, spread), all on one scale."""
    low = min(bin_of(max(1, spread.draws[0])) for _, _, spread in runs)
    high = max(bin_of(max(1, spread.draws[-1])) for _, _, spread in runs) + 1
    counted = [shares(spread, low, high) for _, _, spread in runs]
    top = max(float(part.max()) for pair in counted for part in pair)
    edges = [10 ** (k / BINS) for k in range(low, high + 1)]
    figure, rows = _panels(len(runs), 1, (6.4, 0.9 + 1.15 * len(runs)))
    for axes, (colour, name, _), (inputs, draws) in zip(rows, runs, counted, strict=True):
        axes.stairs(inputs, edges, fill=True, color=PALETTE[colour % len(PALETTE)], alpha=0.85, label="of inputs")
        axes.stairs(draws, edges, color=INK, linewidth=1.3, label="of all draws")
        axes.set_xscale("log")
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(0.0, top * 1.08)
        axes.locator_params(axis="y", nbins=3)
        axes.set_xticks(_round_numbers(edges[0], edges[-1]))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_title(name, loc="left", fontsize=9.5, color=INK, pad=4)
    rows[0].legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, frameon=False, labelcolor=INK, fontsize=8.5,
        borderaxespad=0.1, handlelength=1.6,
    )  # fmt: skip
    rows[-1].set_xlabel("draws an input", labelpad=6)
    return figure


def bin_of(draws: int) -> int:
    """The bin of a number: BINS a decade, each with its lower end; 1 000 begins the bin it belongs to."""
    return math.floor(math.log10(draws) * BINS + 1e-9)


def _round_numbers(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, … between two numbers; only powers of ten where those would crowd."""
    heads = (1, 2, 5) if high / low < 2000 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [head * 10.0**k for k in decades for head in heads if low <= head * 10.0**k <= high * 1.001]


def shares(spread: Spread, low: int, high: int) -> tuple[Floats, Floats]:
    """The share of inputs in each bin, and of all draws."""
    numbers = Counter(spread.draws)  # schemes stop at few of them
    where = [bin_of(max(1, draws)) - low for draws in numbers]
    counts = np.array(list(numbers.values()), dtype=np.float64)
    inputs = np.bincount(where, weights=counts, minlength=high - low) / len(spread.draws)
    drawn = np.array(list(numbers), dtype=np.float64) * counts
    return inputs, np.bincount(where, weights=drawn, minlength=high - low) / max(1, spread.total)


def operating(scheme: Scheme, test: RadiusTest) -> Drawing:
    """P(certified), P(undecided) and P(given up) against p, one panel for each moment of the scheme."""
    middle = float(logit(np.array([test.p0]))[0])
    dense = [float(odds) for odds in logit(np.array(test.grid)) if abs(odds - middle) < WINDOW]
    across = np.unique([*dense, *np.linspace(middle - WINDOW, middle + WINDOW, EVEN)])
    profiles = [test.profile(float(p)) for p in 1 / (1 + np.exp(-across))]
    moments = scheme.moments
    columns = 1 if len(moments) == 1 else 2
    rows = math.ceil(len(moments) / columns)
    figure, panels = _panels(rows, columns, (4.8, 0.8 + 1.45 * rows))
    for axes, (name, look) in zip(panels, moments, strict=False):
        certified = np.array([found.certify[: look + 1].sum() for found in profiles])
        given_up = np.array([found.give_up[: look + 1].sum() for found in profiles])
        floors = (np.zeros(len(across)), certified, 1 - given_up, np.ones(len(across)))
        for (label, colour, alpha), (below, above) in zip(FILLS, pairwise(floors), strict=True):
            axes.fill_between(across, below, above, color=colour, alpha=alpha, linewidth=0, label=label)
        axes.axvline(middle, color=INK, linewidth=1.1, linestyle=(0, (4, 3)))
        axes.set_title(name, loc="left", fontsize=9.5, color=INK, pad=5)
        _probability_axes(axes, float(across[0]), float(across[-1]))
    for axes in panels[len(moments) :]:
        axes.set_visible(False)
    panels[0].annotate(
        "p₀", (middle, 0.5), xytext=(4, 0), textcoords="offset points", va="center", fontsize=9, color=INK
    )
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, labelcolor=INK, fontsize=9)
    figure.supxlabel("p, the probability of the class under noise", fontsize=9.5, color=INK)
    return figure


def _probability_axes(axes: Axes, low: float, high: float) -> None:
    """Log-odds across, labelled with p; probability up."""
    ticks = [p for p in TICKS if low <= float(logit(np.array([p]))[0]) <= high]
    axes.set_xticks(logit(np.array(ticks)).tolist(), [f"{p:g}" for p in ticks])
    axes.set_xlim(low, high)
    axes.set_ylim(0.0, 1.0)
    axes.set_yticks([0.0, 0.5, 1.0])


def _panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Drawing, list[Axes]]:
    import matplotlib
    from matplotlib.figure import Figure as Drawing

    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=size, layout="constrained")
        panels = list(figure.subplots(rows, columns, squeeze=False, sharex=True).ravel())
        for axes in panels:
            axes.spines[["top", "right"]].set_visible(False)
            axes.spines[["left", "bottom"]].set_alpha(0.5)
            axes.tick_params(length=0, pad=5, labelsize=8.5)
            axes.tick_params(which="minor", length=0)
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}".replace("%", " %"))
    return figure, panels
