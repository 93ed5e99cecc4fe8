"""Routes among the runs of a report: branches taken, which radius bound, and what each branch does alone.

Runs with a noise level for every input stand beside them: a route is the way to have that without a memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from smoothcert.catalog import describe
from smoothcert.contracts import Certificate
from smoothcert.errors import SmoothcertError
from smoothcert.procedures.aces import AcesProcedure
from smoothcert.procedures.route import RouteProcedure
from smoothcert.report import plots
from smoothcert.report.inputs import evenly
from smoothcert.report.metrics import Share, envelope, figures, radius_name, same_inputs
from smoothcert.report.section import Figure, Section, Table, table_of
from smoothcert.report.tables import NORMS, decimal, percent
from smoothcert.runs.recompute import Replayed, composition
from smoothcert.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

PLACE = 40
SIZE = (4.8, 4.2)  # two stand side by side
MOST_DOTS = 2000  # inputs in the picture of radii
HEADS = ("taken %", "right %", "abstained %", "ACR share", "selector binds", "branch binds")
ENVELOPE = "upper envelope of the branches alone"
LEAD = (
    "A smoothed selector sends each input to one of several smoothed networks with noise levels of their own. What is "
    "answered holds within the smaller of two radii, the selector’s and the branch’s, both tested at α/2; with "
    "branches at several levels this is a noise level for every input that needs no memory. Columns headed by a "
    "number: certified accuracy (%) at that radius"
)


@dataclass(frozen=True)
class BranchFigures:
    """The inputs that were certainly sent to one branch."""

    name: str
    taken: int
    correct: int
    abstained: int
    gain: float  # sum of radius·[correct]
    bound_by_selector: int  # of those with a radius
    bound_by_branch: int


@dataclass(frozen=True)
class RouteFigures:
    """Where every input of a run was sent."""

    inputs: int
    unsure: int  # the selector abstained
    branches: tuple[BranchFigures, ...]


class Neighbour(NamedTuple):
    """A run on the same inputs, and what it is to the route."""

    run: Run
    role: str
    branch: bool


def section(runs: Sequence[Run], radii: Sequence[float]) -> Section | None:
    """The routes of these runs, or None where there is none."""
    found = [run for run in runs if run.spec is not None and isinstance(run.spec.procedure, RouteProcedure)]
    if not found:
        return None
    parts = tuple(_part(run, runs, radii) for run in found)
    return Section("route", "Routing: a selector between branches", lead=LEAD, parts=parts, brief=())


def routed(run: Replayed) -> RouteFigures:
    """Where every input of a run that has been replayed was sent."""
    names, found = names_of(run), run.rows
    sure = [(row.label, certificate) for row, certificate in found if not certificate.parts[0].abstained]
    sent = [[pair for pair in sure if pair[1].parts[0].label == number] for number in range(len(names))]
    branches = tuple(_branch_figures(name, pairs) for name, pairs in zip(names, sent, strict=True))
    return RouteFigures(len(found), len(found) - len(sure), branches)


def _branch_figures(name: str, pairs: Sequence[tuple[int, Certificate]]) -> BranchFigures:
    right = [certificate for label, certificate in pairs if certificate.label == label]
    radii = [certificate for _, certificate in pairs if certificate.radius > 0]
    selector = sum(certificate.parts[0].radius < certificate.parts[1].radius for certificate in radii)
    return BranchFigures(
        name, len(pairs), len(right), sum(certificate.abstained for _, certificate in pairs),
        math.fsum(certificate.radius for certificate in right), selector, len(radii) - selector,
    )  # fmt: skip


def table(found: RouteFigures) -> Table:
    """A row a branch: how many inputs it was given, what it made of them, and which radius was the smaller."""
    rows = []
    for one in found.branches:
        shares = [percent(Share(hits, found.inputs)) for hits in (one.taken, one.correct, one.abstained)]
        gain = decimal(one.gain / found.inputs)
        rows.append((one.name, [*shares, gain, str(one.bound_by_selector), str(one.bound_by_branch)]))
    share = percent(Share(found.unsure, found.inputs))
    return table_of(
        "branch", HEADS, rows, f"the selector was unsure, and so nothing was said, about {share} % of the inputs"
    )


def names_of(run: Replayed) -> list[str]:
    """The branches, by number and noise."""
    noises = enumerate(run.bundle.noises[:-1])
    return [f"{number} ({'core' if noise is None else noise.level})" for number, noise in noises]


def _part(run: Run, runs: Sequence[Run], radii: Sequence[float]) -> Section:
    replayed = _replayed(run)
    beside = _beside(run, runs, replayed)
    alone = [one.run for one in beside if one.branch]
    others = [one.run for one in beside if not one.branch]
    shown = [Figure(
        partial(curve_figure, run, alone, others),
        f"Certified accuracy against radius of {run.name}, its branches alone, and other runs on the same inputs.",
        "The upper envelope takes the best branch at each radius, another one from radius to radius: no classifier "
        "that exists.",
    )]  # fmt: skip
    side_by_side = _table(run, beside, radii)
    if replayed is None:
        notes = (f"which branch was taken is not shown: {run.folder} does not hold the description of its branches",)
        return Section("", run.name, (side_by_side,), tuple(shown), notes)
    shown.append(Figure(
        partial(binding_figure, replayed),
        "Radius of the selection against radius of the selected branch, one dot an input.",
        f"One dot an input that was sent somewhere{_left_out(replayed)}: above the line the selector’s radius is the "
        "smaller and binds, below it the branch’s.",
    ))  # fmt: skip
    taken = table(routed(replayed))
    return Section("", run.name, (taken, side_by_side), tuple(shown), tuple(_against(run, alone, radii)))


def _replayed(run: Run) -> Replayed | None:
    """The run with all its parts; None where the description of its branches is gone or another one's."""
    try:
        replayed = composition(run, "route")
    except SmoothcertError:
        return None
    return replayed if replayed.described.digest.hex == run.asked.model_digest else None


def _beside(run: Run, runs: Sequence[Run], replayed: Replayed | None) -> list[Neighbour]:
    """Other runs that looked for their radii on the same inputs."""
    found = []
    for other in runs:
        if other is run or other.kind != "certify" or other.claim.norm != run.claim.norm or other.claim.radii:
            continue
        if same_inputs([run, other]):
            branch = _branch(other, replayed)
            role = f"branch {branch} alone" if branch is not None else _role(other)
            found.append(Neighbour(other, role, branch is not None))
    return found


def _branch(other: Run, replayed: Replayed | None) -> int | None:
    """The number of the branch that this run is of: the same network under the same noise."""
    spec = other.spec
    if spec is None or replayed is None or spec.preparation is not None:
        return None
    for number, member in enumerate(replayed.described.members[:-1]):
        if spec.model_digest == member.digest and member.noise == describe(spec.noise):
            return number
    return None


def _role(other: Run) -> str:
    if other.claim.guarantee == "memory":
        return "a noise level for every input, with a memory"
    if other.claim.guarantee == "none":
        return "a noise level for every input, without a memory: no certificates"
    procedure = None if other.spec is None else other.spec.procedure
    return (
        "another route"
        if isinstance(procedure, RouteProcedure)
        else "ACES"
        if isinstance(procedure, AcesProcedure)
        else ""
    )


def _table(run: Run, beside: Sequence[Neighbour], radii: Sequence[float]) -> Table:
    """Runs side by side, the route first; then the best branch at each radius."""
    shown = [Neighbour(run, "the route", False), *sorted(beside, key=lambda one: (not one.branch, one.role))]
    rows = []
    for one in shown:
        found = figures(one.run, radii)
        shares = [percent(found.certified_accuracy[radius]) for radius in radii]
        name = f"{one.run.name}\n{one.role}" if one.role else one.run.name
        rows.append((name, [*shares, decimal(found.acr), percent(found.abstained)]))
    alone = [one.run for one in beside if one.branch]
    if len(alone) > 1:
        best = envelope(alone, radii)
        rows.append((ENVELOPE, [*(percent(best[radius]) for radius in radii), "", ""]))
    return table_of("run", [*(radius_name(radius) for radius in radii), "ACR", "abstained %"], rows)


def _against(run: Run, alone: Sequence[Run], radii: Sequence[float]) -> list[str]:
    """Where the route is above the best of its branches, and where it is not."""
    if len(alone) < 2:
        return []
    mine, best = (envelope(runs, radii) for runs in ([run], alone))
    signs = {radius: mine[radius].hits - best[radius].hits for radius in radii}
    words = [
        f"{word} at {', '.join(radius_name(radius) for radius in found)}"
        for word, found in (
            ("more", [radius for radius, sign in signs.items() if sign > 0]),
            ("as many", [radius for radius, sign in signs.items() if sign == 0 and best[radius].hits]),
            ("fewer", [radius for radius, sign in signs.items() if sign < 0]),
        )
        if found
    ]
    return [f"inputs certified rightly, against the best branch alone at each radius: {'; '.join(words)}"][: len(words)]


def curve_figure(route: Run, branches: Sequence[Run], others: Sequence[Run]) -> Drawing:
    """Certified accuracy against radius: the route, its branches alone and their upper envelope, and other runs."""
    figure, axes = plots.canvas(SIZE, f"{NORMS[route.claim.norm]} radius (inputs in [0, 1])", "certified accuracy")
    for number, run in enumerate(branches):
        plots.draw_steps(axes, run, "branches alone" if number == 0 else "", plots.INK, 1.0, alpha=0.4)
    if len(branches) > 1:
        x, y = plots.envelope_steps(branches)
        axes.step(x, y, where="pre", color=plots.PALETTE[2], linewidth=1.7, label="their upper envelope")
    for number, run in enumerate(others):
        plots.draw_steps(axes, run, f" {run.name}", plots.PALETTE[(3, 4, 5, 1)[number % 4]], 1.7)
    plots.draw_steps(axes, route, f" {route.name}", plots.PALETTE[0], 2.3)
    axes.set_xlim(left=0.0)
    axes.set_ylim(0.0, 1.0)
    plots.legend_above(figure)
    return figure


def _sent(run: Replayed) -> list[tuple[Certificate, ...]]:
    """The parts of each input that was sent somewhere: of the selection, and of the branch."""
    return [found.parts for _, found in run.rows if len(found.parts) == 2]


def _left_out(run: Replayed) -> str:
    """Of many dots some are drawn, evenly apart in the order of inputs."""
    there = len(_sent(run))
    return f" ({MOST_DOTS:,} of {there:,}, evenly apart)" if there > MOST_DOTS else ""


def binding_figure(run: Replayed) -> Drawing:
    """The selector's radius against that of the branch, one dot an input: the smaller is the route's."""
    figure, axes = plots.canvas(SIZE, "radius of the selection", "radius of the selected branch")
    sure = evenly(_sent(run), MOST_DOTS)
    top = max((part.radius for parts in sure for part in parts), default=0.0) * 1.04 or 1.0
    axes.plot([0.0, top], [0.0, top], color=plots.INK, alpha=0.6, linewidth=1.0, linestyle=(0, (4, 3)))
    for number, name in enumerate(names_of(run)):
        radii = [(parts[0].radius, parts[1].radius) for parts in sure if parts[0].label == number]
        if radii:
            axes.plot(*zip(*radii, strict=True), plots.MARKERS[number % len(plots.MARKERS)], linestyle="none",
                      markersize=4, alpha=0.55, color=plots.PALETTE[number % len(plots.PALETTE)], markeredgewidth=0,
                      clip_on=False, label=f"branch {name}")  # fmt: skip
    axes.set_xlim(0.0, top)
    axes.set_ylim(0.0, top)
    plots.plain_numbers(axes)
    plots.legend_above(figure)
    return figure
