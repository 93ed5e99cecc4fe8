"""A plan as a value, as text and as JSON: every scheme, what awaits each kind of input, and what a whole run costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.bounds import Floats
from smoothcert.contracts import Noise
from smoothcert.plan import cost
from smoothcert.plan.cost import Mean, Prospect
from smoothcert.plan.like import Rate
from smoothcert.report.tables import count, duration
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.pilot import Pilot

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Entry:
    """One scheme."""

    name: str
    error: float  # probability of a wrong certificate at the worst p
    kinds: dict[str, Prospect]
    like: Prospect | None  # the mean over inputs like those of a run


@dataclass(frozen=True)
class Sheet:
    """Everything a plan says."""

    noise: Noise
    alpha: float
    beta: float
    n: int
    radii: tuple[float, ...]
    needs: tuple[float, ...]  # P(class) for each radius
    reach: float  # of n draws
    kinds: dict[str, float]
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()
    inputs: int | None = None
    rate: Rate | None = None

    @property
    def gain(self) -> str:
        return "certified" if self.radii else "radius"


@dataclass(frozen=True)
class Request:
    """What is to be planned."""

    noise: Noise
    radii: tuple[float, ...] = ()
    alpha: float = 0.001
    beta: float = 0.001
    cap: int = 120_000
    n: int = 100_000
    n0: int = 100
    p: Floats | None = field(default=None, compare=False)  # of inputs like those that will come

    def sheet(
        self, notes: Sequence[str] = (), inputs: int | None = None, rate: Callable[[], Rate | None] = lambda: None
    ) -> Sheet:
        """The plan; refused where the default scheme can certify nothing, before `rate` is asked."""
        entries, needs, unable = self._known() if self.radii else (self._full(), (), [])
        reach = cost.reach(self.noise, self.n, self.alpha)
        every = (*unable, *notes)
        named = self.noise, self.alpha, self.beta, self.n, self.radii, needs, reach, cost.kinds(needs)
        return Sheet(*named, tuple(entries), every, inputs, rate())

    def _known(self) -> tuple[list[Entry], tuple[float, ...], list[str]]:
        able, unable = cost.schemes(self.noise, self.radii, self.alpha, self.beta, self.cap, self.n, self.n0)
        needs = tuple(p0 for p0, _ in able[-1].tables)
        entries = [
            Entry(
                scheme.name,
                scheme.error(),
                {kind: cost.prospect(scheme, p) for kind, p in cost.kinds(needs).items()},
                cost.expected(scheme, self.p) if self.p is not None else None,
            )
            for scheme in able
        ]
        return entries, needs, unable

    def _full(self) -> list[Entry]:
        def costs(sampling: Fixed | Pilot, p: Floats, paths: int) -> Prospect:
            return cost.full_radius(sampling, self.noise, p, self.n0, paths)

        pilot = Pilot(self.alpha)
        return [
            Entry(
                name,
                self.alpha,
                {kind: costs(sampling, np.array([p]), 2000) for kind, p in cost.kinds(()).items()},
                costs(sampling, self.p, 20_000) if self.p is not None else None,
            )
            for name, sampling in ((f"fixed n={self.n}", Fixed(self.n, self.alpha)), (f"pilot cap={pilot.cap}", pilot))
        ]


def as_json(sheet: Sheet) -> dict[str, Any]:
    """The plan as one JSON object; null where something is not known."""

    def told(found: Prospect) -> dict[str, float]:
        pairs = {"draws": found.draws, sheet.gain: found.gain}
        values = {name: mean.value for name, mean in pairs.items()}
        return {**values, **{f"{name}_error": mean.error for name, mean in pairs.items()}}

    def like(entry: Entry) -> dict[str, Any] | None:
        return {**told(entry.like), **_total(sheet, entry.like)} if entry.like else None

    kept = ("alpha", "beta", "n", "radii", "needs", "reach", "kinds", "inputs", "notes")
    return {
        "norm": sheet.noise.norm,
        **{name: getattr(sheet, name) for name in kept},
        "rate": sheet.rate._asdict() if sheet.rate else None,
        "schemes": [
            {
                "name": entry.name,
                "error": entry.error,
                "kinds": {kind: told(found) for kind, found in entry.kinds.items()},
                "like": like(entry),
            }
            for entry in sheet.entries
        ],
    }


def _total(sheet: Sheet, found: Prospect) -> dict[str, float | None]:
    total = found.draws.value * sheet.inputs if sheet.inputs is not None else None
    return {"total_draws": total, "seconds": total / sheet.rate.draws if sheet.rate and total is not None else None}


def text(sheet: Sheet) -> RenderableType:
    """The plan for a terminal or a file."""
    from rich.console import Group
    from rich.text import Text

    lines = [f"{sheet.n} draws at alpha {sheet.alpha:g} can prove {sheet.noise.norm} radii up to {sheet.reach:.3f}"]
    lines += [f"radius {r:g} needs P(class) ≥ {p0:.6f}" for r, p0 in zip(sheet.radii, sheet.needs, strict=True)]
    way = "exact" if len(sheet.radii) == 1 else "simulated"
    gain = {0: "mean radius", 1: "P(certify)"}.get(len(sheet.radii), "P(every radius)")
    parts: list[RenderableType] = [Text("\n".join(lines)), Text(f"\nexpected draws and {gain} of one input, {way}")]
    heads = ["scheme", *(f"{kind}\np = {p:.7g}" for kind, p in sheet.kinds.items()), *_error_head(sheet)]
    parts.append(_grid(heads, [[entry.name, *_cells(sheet, entry)] for entry in sheet.entries]))
    if any(entry.like for entry in sheet.entries):
        parts += _whole(sheet)
    parts += [Text(f"note: {note}") for note in sheet.notes]
    return Group(*parts)


def _whole(sheet: Sheet) -> list[RenderableType]:
    """The second table: what all inputs together take."""
    from rich.text import Text

    rows = []
    for entry in sheet.entries:
        if entry.like:
            total = _total(sheet, entry.like)
            draws = f"{count(entry.like.draws.value)} ± {count(entry.like.draws.error)}"
            gain = _gain(sheet, entry.like.gain)
            rows.append([entry.name, draws, count(total["total_draws"]), gain, duration(total["seconds"])])
    speed = f"{count(sheet.rate.draws)} draws a second, {sheet.rate.source}" if sheet.rate else "speed unknown: --rate"
    title = f"\n{sheet.inputs} inputs like those, simulated (± Monte-Carlo standard error); {speed}"
    return [Text(title), _grid(["scheme", "draws an input", "draws in all", sheet.gain, "time"], rows)]


def _gain(sheet: Sheet, gain: Mean) -> str:
    return f"{100 * gain.value:.1f} %" if sheet.radii else f"{gain.value:.3f}"


def _error_head(sheet: Sheet) -> list[str]:
    return [f"worst error\nalpha = {sheet.alpha:g}"] if sheet.radii else []


def _cells(sheet: Sheet, entry: Entry) -> list[str]:
    cells = [f"{count(found.draws.value)}  {_gain(sheet, found.gain)}" for found in entry.kinds.values()]
    return [*cells, f"{entry.error:.6f}"] if sheet.radii else cells


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=SIMPLE_HEAD, pad_edge=False)
    for place, head in enumerate(heads):
        grid.add_column(head, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*map(Text, row))
    return grid
