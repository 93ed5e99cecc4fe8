"""What a certification will cost, before any draw is spent: every scheme, what awaits each kind of input, and what a
whole run costs on inputs like those of a finished one. As a value, as text and as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smoothcert.bounds import Floats, check_draws
from smoothcert.contracts import Noise
from smoothcert.plan import cost
from smoothcert.plan.cost import Mean, Prospect
from smoothcert.plan.like import Rate
from smoothcert.report.render import laid_out
from smoothcert.report.section import Table, table_of
from smoothcert.report.tables import count, duration
from smoothcert.sampling import Budget, Foreseen

MOST_EXACT = 10**8  # draws of a test that is computed exactly: a minute, and gigabytes
ASSUMED_DIM = 3 * 224 * 224  # where there are no inputs yet; it moves no figure by more than rounding


@dataclass(frozen=True)
class PlannedScheme:
    """One scheme."""

    name: str
    error: float  # probability of a wrong certificate at the worst p
    kinds: dict[str, Prospect]
    like: Prospect | None  # the mean over inputs like those of a run


@dataclass(frozen=True)
class PlanResult:
    """Everything a plan says."""

    noise: Noise
    alpha: float
    beta: float
    n: int
    radii: tuple[float, ...]
    needs: tuple[float, ...]  # P(class) for each radius
    reach: float  # of n draws
    kinds: dict[str, float]
    schemes: tuple[PlannedScheme, ...]
    notes: tuple[str, ...] = ()
    inputs: int | None = None
    rate: Rate | None = None

    @property
    def gain(self) -> str:
        return "certified" if self.radii else "radius"


@dataclass(frozen=True)
class PlanRequest:
    """What is to be planned."""

    noise: Noise
    radii: tuple[float, ...] = ()
    alpha: float = 0.001
    beta: float = 0.001
    cap: int = 120_000
    n: int = 100_000
    n0: int = 100
    dim: int | None = None  # coordinates of an input, where a run says
    p: Floats | None = field(default=None, compare=False)  # of inputs like those that will come

    def __post_init__(self) -> None:
        check_draws(self.n0, "n0", "plan")
        if self.radii:  # what a test of them draws is computed exactly, count by count
            check_draws(self.n, "n", "a plan for known radii", MOST_EXACT)

    def result(
        self, notes: Sequence[str] = (), inputs: int | None = None, rate: Callable[[], Rate | None] = lambda: None
    ) -> PlanResult:
        """The plan; refused where the default scheme can certify nothing, before `rate` is asked."""
        budget, dim = Budget(self.radii, self.alpha, self.beta, self.cap, self.n), self.dim or ASSUMED_DIM
        schemes, unable = self._known(budget, dim) if self.radii else (self._full(budget, dim), [])
        reach, small = (cost.reach(self.noise, size, self.n, self.alpha) for size in (dim, 1))
        needs = tuple(self.noise.p_needed(radius, dim) for radius in self.radii)
        if self.dim is None and reach != small:
            notes = [*notes, f"no run says how large its inputs are: {dim} coordinates are assumed"]
        named = self.noise, self.alpha, self.beta, self.n, self.radii, needs, reach, cost.kinds(needs)
        return PlanResult(*named, tuple(schemes), (*unable, *notes), inputs, rate())

    def _known(self, budget: Budget, dim: int) -> tuple[list[PlannedScheme], list[str]]:
        able, unable = cost.radius_tests(self.noise, dim, budget, self.n0)
        kinds = cost.kinds([p0 for p0, _ in able[-1].tables])
        schemes = [
            PlannedScheme(
                test.name,
                test.error(),
                {kind: cost.prospect(test, p) for kind, p in kinds.items()},
                cost.expected(test, self.p) if self.p is not None else None,
            )
            for test in able
        ]
        return schemes, unable

    def _full(self, budget: Budget, dim: int) -> list[PlannedScheme]:
        def costs(sampling: Foreseen, p: Floats, paths: int) -> Prospect:
            return cost.full_radius(sampling, self.noise, dim, p, self.n0, paths)

        return [
            PlannedScheme(
                name,
                self.alpha,
                {kind: costs(sampling, np.array([p]), 2000) for kind, p in cost.kinds(()).items()},
                costs(sampling, self.p, 20_000) if self.p is not None else None,
            )
            for name, sampling in cost.offered(budget).items()
            if isinstance(sampling, Foreseen)
        ]


def as_json(plan: PlanResult) -> dict[str, Any]:
    """The plan as one JSON object; null where something is not known."""

    def told(found: Prospect) -> dict[str, float]:
        pairs = {"draws": found.draws, plan.gain: found.gain}
        values = {name: mean.value for name, mean in pairs.items()}
        return {**values, **{f"{name}_error": mean.error for name, mean in pairs.items()}}

    def like(scheme: PlannedScheme) -> dict[str, Any] | None:
        return {**told(scheme.like), **_total(plan, scheme.like)} if scheme.like else None

    kept = ("alpha", "beta", "n", "radii", "needs", "reach", "kinds", "inputs", "notes")
    return {
        "norm": plan.noise.norm,
        **{name: getattr(plan, name) for name in kept},
        "rate": plan.rate._asdict() if plan.rate else None,
        "schemes": [
            {
                "name": scheme.name,
                "error": scheme.error,
                "kinds": {kind: told(found) for kind, found in scheme.kinds.items()},
                "like": like(scheme),
            }
            for scheme in plan.schemes
        ],
    }


def _total(plan: PlanResult, found: Prospect) -> dict[str, float | None]:
    total = found.draws.value * plan.inputs if plan.inputs is not None else None
    return {"total_draws": total, "seconds": total / plan.rate.draws if plan.rate and total is not None else None}


def text(plan: PlanResult, width: int) -> str:
    """The plan for a terminal or a file of that width."""
    needs = zip(plan.radii, plan.needs, strict=True)
    way = "exact" if len(plan.radii) == 1 else "simulated"
    gain = {0: "mean radius", 1: "P(certify)"}.get(len(plan.radii), "P(every radius)")
    heads = [*(f"{kind}\np = {p:.7g}" for kind, p in plan.kinds.items()), *_error_head(plan)]
    one = table_of("scheme", heads, [(scheme.name, _cells(plan, scheme)) for scheme in plan.schemes])
    parts: list[str | Table] = [
        f"{plan.n} draws at alpha {plan.alpha:g} can prove {plan.noise.norm} radii up to {plan.reach:.3f}",
        *(f"radius {r:g} needs P(class) ≥ {p0:.6f}" for r, p0 in needs),
        "",
        f"expected draws and {gain} of one input, {way}",
        one,
    ]
    if any(scheme.like for scheme in plan.schemes):
        parts += ["", *_whole(plan)]
    return laid_out([*parts, *(f"note: {note}" for note in plan.notes)], width)


def _whole(plan: PlanResult) -> tuple[str, Table]:
    """The second table, and what stands over it: what all inputs together take."""
    rows = []
    for scheme in plan.schemes:
        if scheme.like:
            total = _total(plan, scheme.like)
            draws = f"{count(scheme.like.draws.value)} ± {count(scheme.like.draws.error)}"
            gain = _gain(plan, scheme.like.gain)
            rows.append((scheme.name, [draws, count(total["total_draws"]), gain, duration(total["seconds"])]))
    speed = f"{count(plan.rate.draws)} draws a second, {plan.rate.source}" if plan.rate else "speed unknown: --rate"
    title = f"{plan.inputs} inputs like those, simulated (± Monte-Carlo standard error); {speed}"
    return title, table_of("scheme", ["draws an input", "draws in all", plan.gain, "time"], rows)


def _gain(plan: PlanResult, gain: Mean) -> str:
    return f"{100 * gain.value:.1f} %" if plan.radii else f"{gain.value:.3f}"


def _error_head(plan: PlanResult) -> list[str]:
    return [f"worst error\nalpha = {plan.alpha:g}"] if plan.radii else []


def _cells(plan: PlanResult, scheme: PlannedScheme) -> list[str]:
    cells = [f"{count(found.draws.value)}  {_gain(plan, found.gain)}" for found in scheme.kinds.values()]
    return [*cells, f"{scheme.error:.6f}"] if plan.radii else cells
