"""Ensembles beside their members: figures, gains, costs, curves, radii input by input, and ACR over members.

Figures are rounded down, intervals outwards, standard deviations and costs to nearest.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.bounds import Floats
from smoothcert.report import plots
from smoothcert.report.columns import columns
from smoothcert.report.ensembles import Comparison, EnsembleGain, RunFigures, compare
from smoothcert.report.families import Found, difference, find
from smoothcert.report.metrics import LEVEL, radius_name
from smoothcert.report.paired import RESAMPLES, SEED, Estimate
from smoothcert.report.section import Figure, Section, Table, table_of
from smoothcert.report.tables import NORMS, UNKNOWN, count, rounded
from smoothcert.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

PLACE = 5  # among the sections
ENSEMBLE, AVERAGE, ENVELOPE = plots.PALETTE[:3]
SIZE = (4.8, 4.0)  # two figures stand side by side
MOST_DOTS = 2000  # inputs in the picture of radii
BAND = 200  # points of a band
LEAD = (
    "The same inputs for all. Columns headed by a number: certified accuracy (%) at that radius, and in the table of "
    f"gains percentage points, with {LEVEL * 100:g} % intervals of a paired bootstrap over inputs: they say what this "
    "sample of inputs leaves open. ±: standard deviation over members. Upper envelope: the best member of each column. "
    "Strongest: the member with the highest ACR here"
)
INTERVALS = f"gains: percentage points, below them {LEVEL * 100:g} % intervals of a paired bootstrap over inputs"
KCR = "KCR, the K-consensus rate: the share of draws on which the first members agreed, so that the rest were not asked"
COMPUTED = (
    "computed: expected figures from the member's stored votes, not drawn; each input's share of votes is taken "
    "for its probability, which favours the member where all votes agree"
)


def section(runs: Sequence[Run], radii: Sequence[float], found: Found | None = None) -> Section:
    """Each ensemble whose members are here; `found`: who belongs together, where the folders do not tell."""
    families, notes = find(runs) if found is None else found
    comparisons = compare(families, radii) if families else []
    shown = {id(one.family.ensemble): _json(one) for one in comparisons}
    return Section(
        "ensembles",
        "Ensembles beside their members",
        figures=tuple(_sizes(comparisons)),
        lead=LEAD if comparisons else "",
        # A command tells by itself what is not compared.
        parts=(*map(_part, comparisons), Section("", notes=tuple(notes), brief=())),
        data={i: {"ensemble": shown.get(id(run))} for i, run in enumerate(runs)},
    )


def _part(found: Comparison) -> Section:
    sides = f"radius against the best member of each input: {_sides(found)}"
    said = [sides, *_costs(found), INTERVALS]
    said += [] if found.same is None else [COMPUTED]
    dots = ", some of them left out" if len(found.pairs) > MOST_DOTS else ""
    return Section(
        "",
        title(found),
        tables=(_table(found), _gains(found)),
        figures=(
            Figure(
                partial(curve_figure, found),
                f"Certified accuracy against radius of {title(found)}.",
                "The upper envelope is the best member at each radius, which may be another one from radius to radius",
            ),
            Figure(
                partial(scatter_figure, found), f"{found.ensemble.name}, {sides}.", f"A dot an input{dots}: {sides}"
            ),
        ),
        notes=tuple(said),
    )


def title(found: Comparison) -> str:
    """The ensemble, what it is, and how much of it is here."""
    family = found.family
    vote = f"{family.vote} of " if family.vote else ""
    here = "" if len(family.members) == family.size else f", {len(family.members)} of them among these runs"
    return f"ensemble {family.ensemble.name}: {vote}{family.size} members{here}"


def _sides(found: Comparison) -> str:
    """How often the ensemble is ahead of every member."""
    larger, equal, smaller = found.sides
    return f"larger on {larger:,}, the same on {equal:,}, smaller on {smaller:,} (0 where wrong or abstained)"


def _table(found: Comparison) -> Table:
    """Certified accuracies (%) and ACR: the ensemble, then what it is held against."""
    strongest = found.strongest
    lines = [found.ensemble, found.average, found.envelope, strongest]
    names = ["the ensemble", found.average.name, found.envelope.name, f"strongest, {strongest.name}"]
    if found.same is not None:
        lines.append(RunFigures("", found.same.acr, found.same.certified))
        names.append(f"{strongest.name} with {count(found.same.draws)} draws, computed")
    rows = [(name, _cells(line)) for name, line in zip(names, lines, strict=True)]
    return table_of("", [*map(radius_name, found.radii), "ACR"], rows)


def _cells(line: RunFigures) -> list[str]:
    def spread(value: str, deviation: float | None, scale: int, places: int) -> str:
        return value if deviation is None else f"{value} ± {scale * deviation:.{places}f}"

    deviations = line.certified_sd or {}
    shares = [spread(rounded(value, shift=2), deviations.get(r), 100, 1) for r, value in line.certified.items()]
    return [*shares, spread(rounded(line.acr), line.acr_sd, 1, 3)]


def _gains(found: Comparison) -> Table:
    """Certified accuracies in points, ACR, and ACR in percent of the other's, each with its interval."""
    sides = [("the strongest member", found.over_strongest), ("the average member", found.over_average)]
    heads = [*map(radius_name, found.radii), "ACR", "ACR, relative"]
    return table_of("gain over", heads, [(name, list(_gain_cells(gain))) for name, gain in sides])


def _gain_cells(gain: EnsembleGain) -> Iterator[str]:
    for estimate in gain.certified.values():
        yield _signed(estimate, 2)
    yield _signed(gain.acr)
    yield UNKNOWN if gain.relative is None else _signed(gain.relative, 2, " %")


def _signed(estimate: Estimate, shift: int = 0, unit: str = "") -> str:
    """A gain with its sign, to nearest, and its interval, rounded outwards."""
    value, around = estimate.told(shift)
    return f"{value}{unit}\n{around}"


def _costs(found: Comparison) -> Iterator[str]:
    """Members asked, time against the whole ensemble, and evaluations that a row stands for."""
    if cost := found.cost:
        each = "" if cost.an_input is None else f", {cost.an_input:,.0f} evaluations an input"
        spared = f"; {100 * cost.spared:.1f} % of draws did not need all (KCR)" if found.family.whole is False else ""
        yield f"members asked a draw: {cost.a_draw:.2f} of {found.family.size}{each}{spared}"
        if spared:
            yield KCR
    if found.time is not None:
        yield (
            f"time ÷ that of {found.time.against}, which asks all members: {found.time.ratio:.2f}; from separate runs, "
            "each under the load of its hour: evaluations tell more"
        )
    if found.same is not None:
        times = found.cost.a_draw if found.cost else float(found.family.size)
        whose = f"{count(found.same.draws)} draws of {found.strongest.name}"
        yield f"{whose}: as many evaluations as the ensemble took, {times:.3g} a draw"


def _sizes(comparisons: Sequence[Comparison]) -> Iterator[Figure]:
    """ACR over size, a picture for each question that ensembles of several sizes were asked."""
    groups: list[list[Comparison]] = []
    for found in comparisons:
        mine = (g for g in groups if difference(g[0].family.ensemble, found.family.ensemble) is None)
        group = next(mine, None)
        groups.append([found]) if group is None else group.append(found)
    for group in groups:
        if len({found.family.size for found in group}) > 1:
            said = ", ".join(f"{f.family.size}: {f.ensemble.acr:.3f} ({f.ensemble.name})" for f in group)
            caption = "The line joins the mean of the members and the ensembles that always ask all of theirs"
            yield Figure(
                partial(size_figure, group), f"ACR over members. {said}", caption, "ACR over the number of members"
            )


def curve_figure(found: Comparison) -> Drawing:
    """Certified accuracy against radius: the ensemble, its members, their average with its deviation, the envelope."""
    family = found.family
    norm = NORMS[family.ensemble.claim.norm]
    figure, axes = plots.canvas(SIZE, f"{norm} radius (inputs in [0, 1])", "certified accuracy")
    corners = plots.corners([_corners(run) for run in (family.ensemble, *family.members)])
    top = float(corners[-1]) or 1.0
    for i, member in enumerate(family.members):
        x, shares = plots.steps(member)
        label = "members" if i == 0 else None
        axes.step(x, [s.value for s in shares], where="pre", color=plots.INK, alpha=0.3, linewidth=0.9, label=label)
    even = np.linspace(0.0, top, BAND)
    band = np.stack([_curve(member, even) for member in family.members])
    middle, spread = band.mean(axis=0), band.std(axis=0, ddof=1)
    axes.fill_between(even, middle - spread, middle + spread, color=AVERAGE, alpha=0.18, linewidth=0)
    curves = np.stack([_curve(member, corners) for member in family.members])
    _step(axes, corners, curves.mean(axis=0), found, AVERAGE, "their average, ± its deviation", 1.7)
    _step(axes, corners, curves.max(axis=0), found, ENVELOPE, "upper envelope", 1.7)
    _step(axes, corners, _curve(family.ensemble, corners), found, ENSEMBLE, "the ensemble", 2.3)
    axes.set_xlim(0.0, top * 1.04)
    axes.set_ylim(0.0, 1.0)
    figure.legend(
        loc="outside upper center", ncols=2, frameon=False, labelcolor=plots.INK, fontsize=9, handlelength=2.0
    )
    return figure


def scatter_figure(found: Comparison) -> Drawing:
    """The ensemble's radius against that of the best member, one dot an input."""
    shown = found.pairs[:: -(-len(found.pairs) // MOST_DOTS)]
    figure, axes = plots.canvas(SIZE, "radius of the best member for this input", "radius of the ensemble")
    top = float(found.pairs.max()) * 1.04 or 1.0
    axes.plot([0.0, top], [0.0, top], color=plots.INK, alpha=0.6, linewidth=1.0, linestyle=(0, (4, 3)))
    axes.plot(
        *shown.T, "o", markersize=4, alpha=0.45, color=ENSEMBLE, markeredgewidth=0, clip_on=False, linestyle="none"
    )
    axes.set_xlim(0.0, top)
    axes.set_ylim(0.0, top)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    return figure


def size_figure(group: Sequence[Comparison]) -> Drawing:
    """ACR of members, and of ensembles by their size; those that do not always ask all members are hollow."""
    figure, axes = plots.canvas((6.4, 3.6), "members", "ACR")
    single = {id(run): run for found in group for run in found.family.members}
    each = [float(columns(run).reached.mean()) for run in single.values()]
    means = {1: statistics.fmean(each)}
    whole = [found for found in group if found.family.whole is not False]
    for size in sorted({found.family.size for found in whole}):
        means[size] = statistics.fmean(found.ensemble.acr for found in whole if found.family.size == size)
    axes.plot(list(means), list(means.values()), color=ENSEMBLE, linewidth=1.9)
    axes.plot([1] * len(each), each, "o", color=plots.INK, alpha=0.45, markersize=5, markeredgewidth=0, label="members")
    _dots(axes, whole, "full", "ensembles")
    _dots(axes, [found for found in group if found.family.whole is False], "none", "ensembles that may ask fewer")
    axes.set_xticks(sorted({1, *(found.family.size for found in group)}))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.3f}")
    axes.legend(loc="lower right", frameon=False, labelcolor=plots.INK, fontsize=9)
    return figure


def _dots(axes: Axes, group: Sequence[Comparison], fill: Any, label: str) -> None:
    if group:
        x, y = [found.family.size for found in group], [found.ensemble.acr for found in group]
        axes.plot(x, y, "o", fillstyle=fill, markersize=7, color=ENSEMBLE, label=label)


def _step(axes: Axes, x: Floats, y: Floats, found: Comparison, colour: str, label: str, width: float) -> None:
    """A curve with a corner at every radius; it ends with the last that was asked for, or else falls to nothing."""
    falls = found.family.ensemble.claim.radii is None
    x, y = (np.append(x, x[-1]), np.append(y, 0.0)) if falls else (x, y)
    axes.step(x, y, where="pre", color=colour, linewidth=width, label=label)


def _corners(run: Run) -> Floats:
    """Where the curve of a run has its steps."""
    return np.append(columns(run).right_radii, run.claim.radii or ())


def _curve(run: Run, radii: Floats) -> Floats:
    """Certified accuracy at each of these radii."""
    return columns(run).hits(radii) / len(run.rows)


def _json(found: Comparison) -> dict[str, Any]:
    """For machines: nothing is rounded, null is not known."""
    larger, equal, smaller = found.sides
    cost, time, same = found.cost, found.time, found.same
    return {
        "size": found.family.size,
        "vote": found.family.vote,
        "members": [member.name for member in found.family.members],
        "average": _line_json(found.average),
        "envelope": _line_json(found.envelope),
        "strongest": _line_json(found.strongest),
        "same_evaluations": None if same is None else {
            "member": found.strongest.name, "draws": same.draws, "how": "computed from its votes, not drawn",
            "certified_accuracy": _by_name(same.certified), "acr": same.acr,
        },
        "gain": {
            "level": LEVEL, "interval": "paired bootstrap, percentile", "resamples": RESAMPLES, "seed": SEED,
            "over_strongest": _gain_json(found.over_strongest), "over_average": _gain_json(found.over_average),
        },
        "radius_against_best_member": {"larger": larger, "equal": equal, "smaller": smaller},
        "members_asked_a_draw": cost.a_draw if cost else None,
        "draws_without_all_members": cost.spared if cost else None,
        "evaluations_an_input": cost.an_input if cost else None,
        "time": None if time is None else {"against": time.against, "ratio": time.ratio, "separate_runs": True},
    }  # fmt: skip


def _line_json(line: RunFigures) -> dict[str, Any]:
    spread = {} if line.certified_sd is None else {
        "certified_accuracy_sd": _by_name(line.certified_sd), "acr_sd": line.acr_sd,
    }  # fmt: skip
    return {"name": line.name, "certified_accuracy": _by_name(line.certified), "acr": line.acr, **spread}


def _gain_json(gain: EnsembleGain) -> dict[str, Any]:
    shares = {radius: estimate._asdict() for radius, estimate in gain.certified.items()}
    relative = None if gain.relative is None else gain.relative._asdict()
    return {"certified_accuracy": _by_name(shares), "acr": gain.acr._asdict(), "acr_relative": relative}


def _by_name(values: Mapping[float, Any]) -> dict[str, Any]:
    return {radius_name(radius): value for radius, value in values.items()}
