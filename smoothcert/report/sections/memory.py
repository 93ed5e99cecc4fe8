"""A noise level for every input beside fixed ones, and what a memory made of it: gains, levels, and conflicts.

Runs compare when they are of the same network on the same inputs. What smoothing alone had said at the inputs' own
levels is no certificate; it stands there to show what the memory cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smoothcert.bounds import Floats
from smoothcert.contracts import ABSTAIN
from smoothcert.report import plots
from smoothcert.report.columns import columns
from smoothcert.report.inputs import SMALL, album
from smoothcert.report.metrics import LEVEL, envelope, figures, radius_name, same_inputs
from smoothcert.report.paired import Estimate, resampled
from smoothcert.report.render import fill
from smoothcert.report.section import Figure, Section, table_of
from smoothcert.report.tables import NAME, NORMS, UNKNOWN, class_name, decimal, outcome, percent
from smoothcert.runs.run import BeforeMemory, Row, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

PLACE = 20
EXTREMES = 6  # inputs shown at each end of the levels
CONFLICTS = 30  # listed; the run holds all of them
SIZE = (4.8, 4.3)  # two pictures stand side by side
BINS = 24  # of levels that are not those of a grid
LEAD = (
    "A level of its own gives an input a larger radius, but the classifier that chooses it anew at every point is no "
    "fixed function: by itself that radius certifies nothing. With a memory of regions every later query inside a "
    "radius gets this label from this memory, whatever level it would have chosen; no luck of the draw is left in "
    "that, and the order of inputs matters. Columns headed by a number: certified accuracy (%) at that radius. Gains "
    f"are in percentage points, with {LEVEL * 100:g} % intervals of a paired bootstrap over inputs"
)
CHANGED = ("σ", "smoothing alone: label, radius", "the memory: label, radius", "true label", "why")


class GainOverFixed(NamedTuple):
    """What the run has beyond one at a fixed level: mean radius, and certified accuracy by radius."""

    over: Run
    acr: Estimate
    shares: dict[float, Estimate]


@dataclass(frozen=True, eq=False)
class OwnLevels:
    """A run with levels of its own, or with a memory, and the runs at fixed levels that it compares with."""

    run: Run
    fixed: tuple[Run, ...]  # by rising level

    @cached_property
    def alone(self) -> Run:
        """As smoothing alone left it."""
        return replace(self.run, rows=tuple(row.smoothed for row in self.run.rows))

    @cached_property
    def levels(self) -> list[float]:
        return sorted(row.sigma for row in self.run.rows if row.sigma is not None)

    @property
    def start(self) -> float | None:
        """The level that the search began at."""
        return level(self.run) if self.levels else None

    @cached_property
    def settled(self) -> list[tuple[Row, BeforeMemory]]:
        """Rows that a memory answered for, with what smoothing alone had said."""
        return [(row, row.settled) for row in self.run.rows if row.settled is not None]

    def how_settled(self) -> dict[str, int]:
        """Inputs by what the memory did with them."""
        return dict(Counter(how(row, settled) for row, settled in self.settled))


def section(runs: Sequence[Run], radii: Sequence[float]) -> Section | None:
    """Runs with levels of their own or with a memory, or None where there is none."""
    found = own_levels(runs)
    if not found:
        return None
    title = "A noise level for every input" + ", and a memory" * any(_changed(one) for one in found)
    return Section(
        "memory", title, lead=LEAD, parts=tuple(_part(one, radii) for one in found),
        data={_number(runs, one.run): {"memory": as_json(one, radii)} for one in found},
        brief=tuple(f"{one.run.name}: {line}" for one in found for line in words(one)),
    )  # fmt: skip


def _number(runs: Sequence[Run], run: Run) -> int:
    return next(number for number, other in enumerate(runs) if other is run)


def own_levels(runs: Sequence[Run]) -> list[OwnLevels]:
    """Every run of that kind, with its partners among the others."""
    found = [run for run in runs if run.kind == "certify" and _special(run)]
    return [OwnLevels(run, tuple(sorted((o for o in runs if _fixed(o, run)), key=level))) for run in found]


def _special(run: Run) -> bool:
    """Whether its radii are not plainly those of smoothing at one level."""
    return run.spec is not None and (run.spec.preparation is not None or any(row.settled for row in run.rows))


def _fixed(other: Run, run: Run) -> bool:
    """Whether another run is of the same network on the same inputs at one level, with the certificate of smoothing."""
    mine, theirs = run.asked, other.spec
    if theirs is None or other.kind != "certify" or _special(other) or other.claim.radii != run.claim.radii:
        return False
    same = (theirs.model_digest, theirs.norm) == (mine.model_digest, mine.norm)
    return same and same_inputs([run, other])


def _changed(found: OwnLevels) -> list[tuple[Row, BeforeMemory]]:
    """Rows that a memory which still changes answered for."""
    return [] if found.run.claim.frozen else found.settled


def how(row: Row, settled: BeforeMemory) -> str:
    """What a memory did with a row, in a word."""
    if settled.conflict is not None:
        return settled.conflict
    return "answered" if settled.predicted == ABSTAIN != row.predicted else "left"


def level(run: Run) -> float:
    """The noise level that a run was asked for."""
    return run.asked.sigma or 0.0


def gains(found: OwnLevels, radii: Sequence[float]) -> list[GainOverFixed]:
    """The run against each run at a fixed level, paired over inputs."""
    if not found.fixed:
        return []
    drawn = resampled(np.stack([_values(run, radii) for run in [found.run, *found.fixed]], axis=1))
    return [
        GainOverFixed(other, drawn.gain(0, number, 0), {r: drawn.gain(0, number, 1 + i) for i, r in enumerate(radii)})
        for number, other in enumerate(found.fixed, start=1)
    ]


def _values(run: Run, radii: Sequence[float]) -> Floats:
    """Of each input: its radius if right, and whether right at each radius [inputs, 1 + radii]."""
    known = columns(run)
    shares = (known.correct & (known.radius >= radius) for radius in radii)
    return np.stack([known.reached, *shares], axis=1).astype(np.float64)


def words(found: OwnLevels) -> list[str]:
    """Levels and conflicts in a line each."""
    said, own = [], found.levels
    if own:
        middle = float(np.median(own))
        said.append(
            f"levels from {own[0]:.3g} to {own[-1]:.3g}, half of them below {middle:.3g}; begun at {found.start:g}"
        )
    counts = found.how_settled()
    if found.run.claim.frozen:
        inside = counts.get("answered", 0)
        said.append(f"{inside} of {len(found.run.rows)} inputs lie in a region of the memory; nothing was drawn")
    elif counts == {"left": len(found.run.rows)}:
        said.append("the memory left every answer as it was: no certified balls of different labels met")
    elif counts:
        said.append(
            f"of {len(found.settled)} inputs the memory gave {counts.get('switched', 0)} the label of a region around "
            f"them, shrank {counts.get('shrunk', 0)} to make room, and answered {counts.get('answered', 0)} abstentions"
        )
    return said


def as_json(found: OwnLevels, radii: Sequence[float]) -> dict[str, Any]:
    """The same for programmes."""
    own = found.levels
    levels = {"start": found.start, "least": own[0], "median": float(np.median(own)), "most": own[-1]} if own else None
    alone = _values(found.alone, radii).mean(axis=0).tolist()
    smoothing = {"acr": alone[0], "certified_accuracy": dict(zip(map(radius_name, radii), alone[1:], strict=True))}
    against = [
        {
            "run": gain.over.name,
            "sigma": level(gain.over),
            "acr": gain.acr._asdict(),
            "certified_accuracy": {radius_name(r): share._asdict() for r, share in gain.shares.items()},
        }
        for gain in gains(found, radii)
    ]
    settled = found.how_settled() if found.settled else None
    return {"levels": levels, "settled": settled, "smoothing_alone": smoothing, "gain_over_fixed": against}


def _part(found: OwnLevels, radii: Sequence[float]) -> Section:
    run, heads = found.run, [*(radius_name(radius) for radius in radii), "ACR"]
    tables = [table_of("σ", [*heads, "abstained %"], _rows(found, radii))]
    over = [
        (f"σ = {level(gain.over):g} ({gain.over.name})", ["\n".join(cell) for cell in _cells(gain)])
        for gain in gains(found, radii)
    ]
    tables += [table_of("gain over", heads, over)] if over else []
    curves = f"Certified accuracy against radius of {run.name} and of the same network at fixed σ."
    shown = [Figure(partial(curve_figure, found), curves, "The same network on the same inputs.")]
    if found.levels:
        said = "The σ of each input, by whether the answer is right; dashed: where the search began."
        alt = f"How many inputs have which σ. {words(found)[0]}."
        shown.append(Figure(partial(level_figure, found), alt, said))
    parts = tuple(_conflicts(run, found))
    return Section("", run.name, tuple(tables), tuple(shown), tuple(words(found)), parts=parts, html=_extremes(found))


def _rows(found: OwnLevels, radii: Sequence[float]) -> list[tuple[str, list[str]]]:
    """Fixed levels, the best of them, own levels without and with the memory."""
    shown = [(f"fixed σ = {level(run):g} ({run.name})", run) for run in found.fixed]
    if found.levels:
        shown.append(("own σ, without a memory: no certificate", found.alone))
    if found.settled:
        shown.append(("own σ, with the memory" if found.levels else "with the memory", found.run))
    rows = [(name, _figures(run, radii)) for name, run in shown]
    if len(found.fixed) > 1:
        best = envelope(found.fixed, radii)
        shares = [percent(best[radius]) for radius in radii]
        rows.insert(len(found.fixed), ("best fixed σ at each radius", [*shares, UNKNOWN, UNKNOWN]))
    return rows


def _figures(run: Run, radii: Sequence[float]) -> list[str]:
    found = figures(run, radii)
    shares = [percent(found.certified_accuracy[radius]) for radius in radii]
    return [*shares, decimal(found.acr), percent(found.abstained)]


def _cells(gain: GainOverFixed) -> list[tuple[str, str]]:
    """Gains as shown: the value, and its interval below; shares in percentage points."""
    return [*(share.told(2) for share in gain.shares.values()), gain.acr.told()]


def _conflicts(run: Run, found: OwnLevels) -> list[Section]:
    """A table of the inputs that the memory did not leave as they were."""
    conflicts = [(row, settled) for row, settled in _changed(found) if how(row, settled) != "left"]
    if not conflicts:
        return []
    owners = {row.settled.seen + 1: row.index for row in run.rows if row.settled and row.settled.stored}
    rows = [(str(row.index), _conflict(run, row, settled, owners)) for row, settled in conflicts[:CONFLICTS]]
    more = len(conflicts) - CONFLICTS
    table = table_of("input", CHANGED, rows, *([f"and {more} more, which the run holds"] if more > 0 else []))
    return [Section("", "What the memory changed", (table,))]


def _conflict(run: Run, row: Row, settled: BeforeMemory, owners: dict[int, int]) -> list[str]:
    said = "abstained" if settled.predicted == ABSTAIN else _answer(run, settled.predicted, settled.radius)
    region = f"region {settled.by}" + (f" (input {owners[settled.by]})" if settled.by in owners else "")
    why = {"switched": "took the label of", "shrunk": "made room for", "answered": "lies in"}[how(row, settled)]
    sigma = UNKNOWN if row.sigma is None else f"{row.sigma:.3g}"
    return [sigma, said, _answer(run, row.predicted, row.radius), class_name(run, row.label, NAME), f"{why} {region}"]


def _answer(run: Run, label: int, radius: float) -> str:
    return f"{class_name(run, label, NAME)}, {decimal(radius)}"


def _extremes(found: OwnLevels) -> str:
    """Pictures at both ends of the levels, where the inputs are pictures and at hand."""
    pictures = album(found.run) if found.levels else ""
    if isinstance(pictures, str):
        return ""
    pictures = replace(pictures, side=SMALL)
    rows = sorted((row for row in found.run.rows if row.sigma is not None), key=lambda row: row.sigma or 0.0)
    sides = ("smallest σ", rows[:EXTREMES]), ("largest σ", rows[::-1][:EXTREMES])
    extremes = [
        (name, [
            {"row": row, "outcome": outcome(row), "label": class_name(found.run, row.label),
             "sigma": f"{row.sigma:.3g}", "picture": pictures.original(row), "noisy": pictures.noisy(row)}
            for row in some
        ])
        for name, some in sides
    ]  # fmt: skip
    return fill("memory.html.jinja", extremes=extremes)


def curve_figure(found: OwnLevels) -> Drawing:
    """Certified accuracy against radius: fixed levels, the best of them, own levels without and with the memory."""
    figure, axes = plots.canvas(SIZE, f"{NORMS[found.run.claim.norm]} radius (inputs in [0, 1])", "certified accuracy")
    runs = [found.run, found.alone, *found.fixed]
    top = max(float(columns(run).right_radii.max(initial=0.0)) for run in runs) or 1.0
    for number, run in enumerate(found.fixed, start=1):
        plots.draw_steps(axes, run, f"fixed σ = {level(run):g}", plots.PALETTE[number % len(plots.PALETTE)], 1.3)
    if len(found.fixed) > 1:
        x, best = plots.envelope_steps(found.fixed)
        dotted: Any = {"linestyle": (0, (1, 1.2)), "label": "best fixed σ at each r"}
        axes.step(x, best, where="pre", color=plots.INK, linewidth=1.6, **dotted)
    if found.settled and found.levels:
        plots.draw_steps(axes, found.alone, "own σ, no certificate", plots.PALETTE[0], 1.2, linestyle=plots.DASHES[1])
    own = "own σ" if found.levels else "with the memory"
    name = f"{own}, with the memory" if found.settled and found.levels else own
    dashes = plots.DASHES[0 if found.settled else 1]
    plots.draw_steps(axes, found.run, name, plots.PALETTE[0], 2.3, linestyle=dashes)
    axes.set_xlim(0.0, top * 1.04)
    axes.set_ylim(0.0, 1.0)
    plots.legend_above(figure, 8.5)
    return figure


def level_figure(found: OwnLevels) -> Drawing:
    """How many inputs have which level, on a scale of even ratios; dashed: where the search began."""
    figure, axes = plots.canvas(SIZE, "σ of an input", "inputs")
    edges = _edges(np.unique(found.levels))
    shares = [
        [row.sigma for row in found.run.rows if row.sigma is not None and row.correct == right]
        for right in (True, False)
    ]
    axes.hist(
        shares, bins=edges.tolist(), stacked=True, color=list(plots.PALETTE[:2]), label=["right", "wrong or none"]
    )
    axes.axvline(found.start or 0.0, color=plots.INK, alpha=0.6, linewidth=1.1, linestyle=(0, (4, 3)))
    axes.set_xscale("log")
    axes.set_xticks(_ticks(edges[0], edges[-1]))
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.2g}")
    plots.plain_numbers(axes)
    axes.legend(frameon=False, labelcolor=plots.INK, fontsize=9)
    return figure


def _edges(levels: Floats) -> Floats:
    """Bins in even ratio; where levels are few, as of a grid, one around each."""
    if len(levels) > 2 * BINS or len(levels) == 1:
        return np.geomspace(levels[0] * 0.99, levels[-1] * 1.01, BINS + 1)
    between = np.sqrt(levels[1:] * levels[:-1])
    return np.array([levels[0] ** 2 / between[0], *between, levels[-1] ** 2 / between[-1]])


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between, at most a handful."""
    found = [m * 10.0**e for e in range(-6, 4) for m in (1, 2, 3, 5, 7) if low <= m * 10.0**e <= high]
    return found if len(found) > 1 else [low, high]
