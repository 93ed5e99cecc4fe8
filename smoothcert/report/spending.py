"""What a run spent and what it bought: draws an input, reduction factors, and what the runner-up bound brought.

SampleRF and TimeRF are the reduction factors of Horváth, Müller, Fischer, Vechev (ICLR 2022): draws, and seconds, of
CERTIFY with a fixed number of draws ÷ those used. Each figure is there only where a run has what it needs: votes and
settings. A log of the field has neither.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.contracts import ABSTAIN, Sampling, Source
from smoothcert.report.metrics import Share, certified_accuracy, reached
from smoothcert.report.schemes import (
    ExpectedDraws,
    Scheme,
    StageOutcomes,
    expected_draws,
    scheme,
    stage_outcomes,
    tested,
    tested_class,
)
from smoothcert.runs.run import Row, Run
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.runner_up import RunnerUp

if TYPE_CHECKING:
    from torch import Tensor

FIXED = 100_000  # the field's number of draws
CHOOSING = 100  # and of those that choose the class, where the run's own number is not known
DEAREST = 20  # one in so many inputs is among the most expensive


@dataclass(frozen=True)
class Spread:
    """How draws are spread over the inputs of a run."""

    draws: tuple[int, ...]  # ascending

    @property
    def total(self) -> int:
        return sum(self.draws)

    @property
    def mean(self) -> float:
        return self.total / len(self.draws)

    @property
    def median(self) -> float:
        return float(statistics.median(self.draws))

    @property
    def even(self) -> bool:
        """Every input got the same."""
        return self.draws[0] == self.draws[-1]

    @property
    def dearest(self) -> int:
        """How many inputs are the most expensive 5 %, rounded up."""
        return -(-len(self.draws) // DEAREST)

    @property
    def dearest_share(self) -> float:
        """What they took of all draws."""
        return sum(self.draws[-self.dearest :]) / self.total if self.total else 0.0


@dataclass(frozen=True)
class Saving:
    """Draws and seconds of a fixed number of draws ÷ those of this run, over the inputs both have."""

    against: str | None  # the name of the fixed run; None: draws as they would have been
    n: int
    n0: int
    inputs: int
    sample: float
    time: float | None  # of two runs, each under its own load

    @property
    def words(self) -> str:
        if self.against is None:
            return f"against n = {self.n:,} and n0 = {self.n0:,} for each input, as they would have been"
        return f"against the draws of {self.against} (n = {self.n:,}) on the same {self.inputs:,} inputs"


@dataclass(frozen=True)
class BoundFigures:
    """One of two bounds over the inputs of a run."""

    name: str
    mean_radius: float  # over all inputs, an abstention counting 0, right or wrong
    acr: float
    certified: Share  # with any radius, right or wrong
    certified_accuracy: dict[float, Share]  # by radius


@dataclass(frozen=True)
class RunnerUpGain:
    """The runner-up bound and the plain one side by side, and how many inputs moved."""

    with_runner_up: BoundFigures
    plain: BoundFigures
    gained: int  # certified by the runner-up bound only
    lost: int  # certified by the plain bound only
    larger: int  # radius larger, inputs gained among them
    smaller: int


@dataclass(frozen=True)
class SamplingCost:
    """One run; None or empty: not known, or not a figure of this kind of run."""

    name: str
    spread: Spread | None
    saving: Saving | None
    scheme: Scheme | None
    outcomes: tuple[StageOutcomes, ...]
    expected: ExpectedDraws | None
    gain: RunnerUpGain | None


def sampling_cost(run: Run, runs: Sequence[Run], radii: Sequence[float]) -> SamplingCost:
    """What a run spent, with its reduction factors against the fixed run among `runs`, if there is one."""
    found = scheme(run)
    outcomes = stage_outcomes(run, found) if found else ()
    expected = expected_draws(run, found) if found and outcomes else None
    return SamplingCost(run.name, spread(run), saving(run, runs), found, outcomes, expected, runner_up_gain(run, radii))


def spread(run: Run) -> Spread | None:
    """The draws of each input; None where a log does not say."""
    known = sorted(row.draws for row in run.rows if row.draws is not None)
    return Spread(tuple(known)) if known and len(known) == len(run.rows) else None


def saving(run: Run, runs: Sequence[Run]) -> Saving | None:
    """Against the first fixed run of the same inputs, else against n = 100 000; None for one look or a log."""
    sampling, spent = None if run.spec is None else run.spec.sampling, spread(run)
    # Of fixed and runner_up the number of draws is given, not found.
    if run.kind != "certify" or sampling is None or isinstance(sampling, Fixed | RunnerUp):
        return None
    if spent is None or spent.total == 0:
        return None
    for other in runs:
        if _same_question(run, other) and (found := _paired(run, other)):
            return found
    inputs, n0 = len(run.rows), _choosing(run)
    return Saving(None, FIXED, n0, inputs, inputs * (FIXED + n0) / spent.total, None)


def _same_question(run: Run, other: Run) -> bool:
    """A fixed run of the same network under the same noise; its inputs are compared one by one."""
    mine, theirs = run.asked, other.spec
    if theirs is None or other.kind != "certify" or not isinstance(theirs.sampling, Fixed):
        return False
    one, two = (replace(spec.data, start=0, skip=1, max=-1) for spec in (mine, theirs))
    same_data = mine.data_digest == theirs.data_digest or one == two
    return same_data and (mine.model_digest, mine.noise) == (theirs.model_digest, theirs.noise)


def _paired(run: Run, other: Run) -> Saving | None:
    theirs = {row.index: row for row in other.rows}
    pairs = [(row, theirs[row.index]) for row in run.rows if row.index in theirs]
    if not pairs or any(a.label != b.label or a.draws is None or b.draws is None for a, b in pairs):
        return None
    sample = _ratio([b.draws for _, b in pairs], [a.draws for a, _ in pairs])
    time = _ratio([b.seconds for _, b in pairs], [a.seconds for a, _ in pairs])
    n = other.asked.sampling.cap if other.asked.sampling else FIXED
    return None if sample is None else Saving(other.name, n, _choosing(other), len(pairs), sample, time)


def _choosing(run: Run) -> int:
    return int(getattr(run.asked.procedure, "n0", CHOOSING))


def _ratio(above: Sequence[float | None], below: Sequence[float | None]) -> float | None:
    if any(value is None for value in [*above, *below]):
        return None
    total = sum(value or 0 for value in below)
    return sum(value or 0 for value in above) / total if total else None


def runner_up_gain(run: Run, radii: Sequence[float]) -> RunnerUpGain | None:
    """The radii that the plain bound proves from the same votes at the same alpha, beside those of the runner-up bound.

    None for other runs, where votes are not kept, and where they do not give the stored radii.
    """
    sampling = None if run.spec is None else run.spec.sampling
    if not isinstance(sampling, RunnerUp) or not all(tested(row) for row in run.rows):
        return None
    if _answered(run, sampling) != run.rows:
        return None
    plain = replace(run, rows=_answered(run, Fixed(sampling.n, sampling.alpha)))
    pairs = list(zip(run.rows, plain.rows, strict=True))
    return RunnerUpGain(
        _bound_figures("with the runner-up bound", run, radii),
        _bound_figures("with the plain bound", plain, radii),
        sum(a.predicted != ABSTAIN == b.predicted for a, b in pairs),
        sum(b.predicted != ABSTAIN == a.predicted for a, b in pairs),
        sum(a.radius > b.radius for a, b in pairs),
        sum(a.radius < b.radius for a, b in pairs),
    )


def _answered(run: Run, sampling: Sampling) -> tuple[Row, ...]:
    """The rows as this sampling would have them from the stored votes; no classifier is asked."""
    spec, rows = run.asked, list[Row]()
    source = Source(_silent, spec.noise)
    for row in run.rows:
        steps = sampling.test(source, tested_class(spec.procedure.test_class, row), spec.dim)
        next(steps)
        try:
            steps.send(np.array(tested(row)[:1], dtype=np.int64))
        except StopIteration as end:
            found = end.value.certificate(spec.noise, spec.dim)
            rows.append(replace(row, predicted=found.label, radius=found.radius))
    return tuple(rows)


def _silent(x: Tensor) -> Tensor:
    raise RuntimeError("a report asks no classifier")


def _bound_figures(name: str, run: Run, radii: Sequence[float]) -> BoundFigures:
    rows = run.rows
    return BoundFigures(
        name,
        math.fsum(row.radius for row in rows) / len(rows),
        math.fsum(map(reached, rows)) / len(rows),
        Share(sum(row.predicted != ABSTAIN for row in rows), len(rows)),
        {radius: certified_accuracy(run, radius) for radius in radii},
    )
