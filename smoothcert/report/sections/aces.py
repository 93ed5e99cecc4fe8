"""ACES among the runs of a report: every threshold, the frontier beside single networks, and who is selected.

A further run of the same networks on other inputs is hold-out: thresholds for demands on accuracy are found there.
Runs of single networks on the same inputs stand beside a composition, network by network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smoothcert.errors import RunError
from smoothcert.files import writing
from smoothcert.procedures.aces import AcesProcedure
from smoothcert.procedures.certify import Certify
from smoothcert.report import aces
from smoothcert.report.metrics import radius_name, same_inputs
from smoothcert.report.plots import DASHES, INK, MARKERS, PALETTE, canvas, legend_above, plain_numbers, save
from smoothcert.report.section import Figure, Section
from smoothcert.report.tables import NORMS
from smoothcert.runs.components import (
    ENTROPY,
    Combination,
    Components,
    NoisyNetwork,
    SingleNetwork,
    components_of,
    single,
)
from smoothcert.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

PLACE = 30
HALF, WIDE, LOW = (4.8, 4.2), (6.4, 4.2), (6.4, 3.6)  # HALF: two pictures stand side by side
NAMES: Any = {"xytext": (4, 3), "textcoords": "offset points", "fontsize": 7.5, "color": INK}  # of points
SHOWN = (0.1, 0.2, 0.3, 0.5, 0.8)  # thresholds whose selection radii are drawn
LEAD = (
    "The certified network answers where it is selected, with the smaller of both radii; elsewhere the core does, with "
    "none. θ is the most doubt at which a noisy copy is selected: at 0 the core answers everything, at 1 the certified "
    "network. All thresholds come from the same draws. Certified selection rate at r: inputs that are certainly "
    "selected within r; a selector that does not know has selected nothing"
)


class Composed(NamedTuple):
    """A run of ACES, its components, and those of the same networks on hold-out inputs."""

    run: Run
    components: Components
    holdout: Components | None


class AloneRun(NamedTuple):
    """A run of a single network on the same inputs, and whether it is the certified network under its noise."""

    run: Run
    single: SingleNetwork
    own: bool


class NetworkGroup(NamedTuple):
    """Single networks that share a colour: several are joined, and named one by one in the picture."""

    name: str
    members: Sequence[SingleNetwork]


def section(runs: Sequence[Run], radii: Sequence[float]) -> Section | None:
    """The compositions of these runs, or None where there is none."""
    found = [run for run in runs if run.spec is not None and isinstance(run.spec.procedure, AcesProcedure)]
    if not found:
        return None
    parts = tuple(_part(one, alone(runs, one), radii) for one in _grouped(found))
    return Section(
        "aces", "ACES: accurate where it can be, certified where it counts", lead=LEAD, parts=parts, brief=()
    )


def _grouped(runs: Sequence[Run]) -> list[Composed]:
    """Each run but those that are hold-out of an earlier one."""
    found: list[Composed] = []
    for run in runs:
        parts = components_of(run)
        for place, one in enumerate(found):
            same = one.components.same_network(parts)
            if same and one.holdout is None and not len(one.components.shared(parts)):
                found[place] = one._replace(holdout=parts)
                break
        else:
            found.append(Composed(run, parts, None))
    return found


def _part(one: Composed, singles: Sequence[AloneRun], radii: Sequence[float]) -> Section:
    parts, procedure = one.components, one.run.asked.procedure
    theta = procedure.theta if isinstance(procedure, AcesProcedure) else 1.0
    at = parts.at(sorted({*aces.TENTHS, theta}))
    most = max(at.answers.radius.max(), at.selection.radius.max())  # other runs of the page may go further
    radii = [radius for radius in radii if radius <= most] or radii[:1]
    found = aces.by_threshold(at, radii)
    middle = _middle(found, radii)
    both = [parts]
    if any(answer.purpose.startswith("select-") for answer in one.run.rows[0].answers):
        entropy = components_of(one.run, select=ENTROPY)
        both = [replace(parts, name=f"{parts.name}, network selects"), replace(entropy, name="entropy selects")]
    said = (*aces.notes(parts), *_compared(parts, singles, middle))
    return Section(
        "", parts.name, (aces.table(found, said, theta),), _figures(both, by_network(singles), middle),
        parts=() if one.holdout is None else (_choices(parts, one.holdout),),
    )  # fmt: skip


def _choices(parts: Components, holdout: Components) -> Section:
    lead = (
        f"Found on hold-out inputs ({len(holdout.labels)} inputs of {holdout.name}; the same networks and noise, none "
        "of the inputs above), where each has the largest ACR that meets the demand; then used here as it is"
    )
    found = aces.choice_table(parts, holdout)
    return Section("", "Thresholds for a demand", (found,) if found.names else (), lead=lead)


def _middle(found: Sequence[aces.ThresholdFigures], radii: Sequence[float]) -> float:
    """A radius in the middle of those that some threshold certifies anything at."""
    reached = [radius for radius in radii if radius > 0 and any(one.certified[radius].hits for one in found)]
    return reached[(len(reached) - 1) // 2] if reached else radii[0]


def _compared(parts: Components, singles: Sequence[AloneRun], radius: float) -> list[str]:
    """What single networks on the same inputs say of the composition; its own is θ = 1 but for α."""
    points = [aces.point(one.single, radius) for one in singles if not one.own]
    if not points or parts.origin is None:
        return []
    found = aces.by_threshold(parts.at(parts.thetas), [radius])
    said = [aces.verdict(found, points, at) for at in (radius, None)]
    n, predicted = parts.origin.draws, parts.origin.n_predict
    draws = sorted({one.single.draws for one in singles if one.single.draws is not None})
    if draws and (draws != [n] or predicted != n):
        others = " to ".join(f"{number:,}" for number in dict.fromkeys((draws[0], draws[-1])))
        said.append(
            f"more draws prove more: this was certified by {n:,} and predicted by {predicted:,}, the others by {others}"
        )
    return said


def alone(runs: Sequence[Run], composed: Composed) -> list[AloneRun]:
    """The runs of single networks, one noise level for all, that looked for their radii on the same inputs."""
    origin, found = composed.components.origin, []
    for run in runs:
        one_network = run.spec is None or isinstance(run.spec.procedure, Certify)
        if not one_network or run.kind != "certify" or run.claim.radii or run.claim.norm != composed.run.claim.norm:
            continue
        if same_inputs([composed.run, run]):
            try:
                own = origin is not None and _network(run) == origin.certified
                found.append(AloneRun(run, single(run), own))
            except RunError:  # noise levels of its own, or another number of draws for every input
                continue
    return found


def by_network(runs: Sequence[AloneRun]) -> list[NetworkGroup]:
    """One network at several noise levels is one group, its points named by the level."""
    groups: dict[str, list[AloneRun]] = {}
    for one in runs:
        groups.setdefault(one.run.spec.model_digest if one.run.spec else one.single.name, []).append(one)
    return [_group(members) for members in groups.values()]


def _group(members: Sequence[AloneRun]) -> NetworkGroup:
    if len(members) == 1:
        return NetworkGroup(members[0].single.name, [members[0].single])
    ordered = sorted(members, key=lambda one: one.run.asked.sigma or 0.0)
    named = [replace(one.single, name=one.run.asked.noise.level) for one in ordered]
    return NetworkGroup(f"{Path(members[0].run.asked.model).name} at noise levels", named)


def _network(run: Run) -> NoisyNetwork | None:
    return None if run.spec is None else NoisyNetwork(run.spec.model_digest, run.spec.noise)


def _figures(shown: Sequence[Components], groups: Sequence[NetworkGroup], radius: float) -> tuple[Figure, ...]:
    parts, at = shown[0], radius_name(radius)
    points = " Points: single smoothed networks of this page on the same inputs, each at its own α." if groups else ""
    drawn = parts.at([theta for theta in SHOWN if theta in parts.thetas])
    made = (
        (partial(frontier, shown, groups, radius, HALF),
         f"What robustness costs: certified accuracy at radius {at} over natural accuracy, θ at the dots.{points}"),
        (partial(frontier, shown, groups, None, HALF),
         "Average certified radius over natural accuracy, θ at the dots."),
        (partial(entropy_figure, parts, radius, HALF),
         f"Inputs by the median doubt of their noisy copies: those that the certified network is right about within "
         f"{at}, and the others. Where the two part, a threshold can tell them apart."),
        (partial(selection_figure, drawn, parts, HALF),
         "Inputs sorted by the radius of their selection: above 0 the certified network is selected, below 0 the core "
         "(its radius turned down), at 0 neither is certain."),
    )  # fmt: skip
    return tuple(Figure(draw, words, words) for draw, words in made)


def save_all(folder: Path, parts: Components, radius: float, singles: Sequence[SingleNetwork] = ()) -> list[Path]:
    """Every picture that these components have, as SVG and PNG."""
    groups = [NetworkGroup(one.name, [one]) for one in singles]
    figures = {
        "frontier": frontier([parts], groups),
        "at-radius": frontier([parts], groups, radius),
        "selection": selection_figure(parts.at([theta for theta in SHOWN if theta in parts.thetas]), parts),
    }
    if parts.entropy is not None:
        figures["entropy"] = entropy_figure(parts, radius)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return [path for name, figure in figures.items() for path in save(figure, folder / f"{name}.svg")]


def frontier(
    shown: Sequence[Components],
    groups: Sequence[NetworkGroup] = (),
    radius: float | None = None,
    size: tuple[float, float] = WIDE,
) -> Drawing:
    """ACR, or certified accuracy at a radius, over natural accuracy; single smoothed networks are points."""
    norm = NORMS[shown[0].norm]
    up = f"average certified {norm} radius" if radius is None else f"certified accuracy at {radius_name(radius)}"
    figure, axes = canvas(size, "natural accuracy", up)
    every = [aces.by_threshold(parts.at(parts.thetas), [radius or 0.0]) for parts in shown]
    room = 0.04 * max(1e-9, *(aces.height(one, radius) for found in every for one in found))
    named: list[float] = []  # heights of the first frontier's names; closer than that they would overlap
    for number, (parts, found) in enumerate(zip(shown, every, strict=True)):
        colour = PALETTE[number % len(PALETTE)]
        corners = [(one.natural.value, aces.height(one, radius)) for one in found]
        axes.plot(*zip(*corners, strict=True), color=colour, linewidth=1.9, label=_shown(parts.name))
        for one, place in list(zip(found, corners, strict=True))[:: max(1, len(found) // 10)]:
            axes.plot(*place, "o", color=colour, markersize=4)
            if number == 0 and all(abs(place[1] - other) > room for other in named):
                axes.annotate(f"{one.theta:.1f}", place, **NAMES)
                named.append(place[1])
    _points(axes, groups, radius, first=len(shown))
    if radius is None:
        plain_numbers(axes)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}".replace("%", " %"))
    axes.set_ylim(bottom=0.0)
    legend_above(figure)
    return figure


def _points(axes: Axes, groups: Sequence[NetworkGroup], radius: float | None, first: int) -> None:
    for number, group in enumerate(groups):
        points = [aces.point(one, radius or 0.0) for one in group.members]
        places = [(one.natural.value, aces.height(one, radius)) for one in points]
        axes.plot(*zip(*places, strict=True), MARKERS[number % len(MARKERS)], markersize=6, linestyle=":", linewidth=1,
                  color=PALETTE[(first + number) % len(PALETTE)], label=_shown(group.name))  # fmt: skip
        for one, place in zip(points, places, strict=True) if len(points) > 1 else ():
            axes.annotate(one.name, place, **NAMES)


def entropy_figure(parts: Components, radius: float, size: tuple[float, float] = LOW) -> Drawing:
    """How many inputs the certified network is right about within a radius, over their median doubt."""
    if parts.entropy is None:
        raise ValueError("the entropies of these components are not known")
    right = (parts.certified.label == parts.labels) & (parts.certified.radius >= radius)
    figure, axes = canvas(size, "median doubt of the noisy copies of an input", "inputs")
    words = [f"certified and right at {radius_name(radius)}", "not"]
    shares = [parts.entropy[right], parts.entropy[~right]]
    axes.hist(shares, bins=np.linspace(0.0, 1.0, 21).tolist(), stacked=True, color=list(PALETTE[:2]), label=words)
    plain_numbers(axes)
    axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    return figure


def selection_figure(found: Combination, parts: Components, size: tuple[float, float] = LOW) -> Drawing:
    """Radii of the selection, sorted: above 0 the certified network is selected, below 0 the core, at 0 neither."""
    figure, axes = canvas(size, "share of inputs", f"certified {NORMS[parts.norm]} radius of the selection")
    for number, theta in enumerate(found.thetas):
        label, radius = found.selection.label[number], found.selection.radius[number]
        values = np.sort(np.where(label == 0, -radius, radius))  # an abstention has radius 0
        dashes: Any = DASHES[number // len(PALETTE) % len(DASHES)]
        axes.step(np.arange(1, len(values) + 1) / len(values), values, label=f"theta {theta:g}", linewidth=1.7,
                  color=PALETTE[number % len(PALETTE)], linestyle=dashes)  # fmt: skip
    axes.axhline(0.0, color=INK, alpha=0.4, linewidth=0.8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}".replace("%", " %"))
    plain_numbers(axes)
    axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    return figure


def _shown(name: str) -> str:
    # matplotlib hides labels that begin with an underscore.
    return f" {name}" if name.startswith("_") else name
