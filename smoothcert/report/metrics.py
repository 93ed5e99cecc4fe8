"""The figures of merit of a run, each with what its sample of inputs leaves open.

A share of inputs comes with its exact (Clopper–Pearson) interval, the mean radius with a betting interval (Waudby-Smith
and Ramdas, JRSS B 2023), which holds for any bounded values and any number of them: both speak about inputs drawn like
these, not about the certificates, whose own risk is α an input. Nothing is rounded here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from smoothcert.contracts import ABSTAIN, WHOLE
from smoothcert.errors import RunError
from smoothcert.runs.run import Claim, Row, Run

if TYPE_CHECKING:
    from smoothcert.bounds import Floats, Integers
    from smoothcert.report.columns import RunColumns

LEVEL = 0.95  # of every interval
MEAN = "betting (Waudby-Smith, Ramdas 2023)"  # the interval of a mean radius
BOLDEST = 0.75  # of its capital, what a bet may lose: the paper's c
STEP = 0.25  # between default radii, as papers have them
FEWEST, MOST = 3, 9  # radii for which STEP is kept


class Interval(NamedTuple):
    """Where the figure lies for inputs drawn like these, at level LEVEL."""

    low: float
    high: float


def columns(run: Run) -> RunColumns:
    """The rows of a run by column; whoever needs no figures need not wait for numpy."""
    from smoothcert.report import columns

    return columns.columns(run)


@dataclass(frozen=True)
class Share:
    """So many of so many inputs."""

    hits: int
    of: int

    @property
    def value(self) -> float:
        return self.hits / self.of

    @property
    def interval(self) -> Interval:
        """Exact (Clopper–Pearson), both tails alike."""
        from scipy.special import betaincinv

        tail, misses = (1.0 - LEVEL) / 2.0, self.of - self.hits
        low = float(betaincinv(self.hits, misses + 1, tail)) if self.hits else 0.0
        high = float(betaincinv(self.hits + 1, misses, 1.0 - tail)) if misses else 1.0
        return Interval(low, high)


@dataclass(frozen=True)
class Figures:
    """What a report says about one run. None: not known, or not a figure of this kind of run."""

    run: Run
    clean_accuracy: Share | None  # of the base classifier without noise
    accuracy: Share  # of the smoothed classifier, abstentions counted as wrong: certified accuracy at radius 0
    abstained: Share
    acr: float | None  # mean of radius·[correct]; never shown without the curve
    certified_accuracy: Mapping[float, Share | None]  # by radius; None: larger than any the run was asked for
    mean_draws: float | None
    seconds: float | None

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def kind(self) -> str:
        return self.run.kind

    @property
    def claim(self) -> Claim:
        return self.run.claim

    @property
    def norm(self) -> str:
        return self.run.claim.norm

    @property
    def inputs(self) -> int:
        return len(self.run.rows)

    @property
    def asked(self) -> int:
        """Inputs the run was asked for; more than `inputs` while it is unfinished."""
        return max(self.inputs, self.run.inputs or 0)

    @property
    def wrong(self) -> Share:
        return Share(self.inputs - self.accuracy.hits - self.abstained.hits, self.inputs)

    @cached_property
    def acr_interval(self) -> Interval | None:
        """None where it is not known how large a radius could have been, as of a log."""
        top = None if self.acr is None else ceiling(self.run)
        return None if top is None else mean_interval(columns(self.run).reached, top)


def reached(row: Row) -> float:
    """What an input adds to ACR: its radius, or nothing where it is wrong."""
    return row.radius if row.correct else 0.0


def figures(run: Run, radii: Sequence[float] | None = None) -> Figures:
    """The figures of a run, with certified accuracy at these radii (default: `default_radii`)."""
    known, certified, total = columns(run), run.kind == "certify", len(run.rows)
    if not total:
        raise RunError(f"run {run.name} must hold at least one finished input; got none")
    if run.spec is not None and run.spec.kind == "select":
        raise RunError(f"run {run.name} must hold classes; it holds selections: see smoothcert aces combine --select")
    radii = default_radii([run]) if radii is None else radii
    return Figures(
        run=run,
        clean_accuracy=None if known.clean is None else Share(int((known.clean == known.label).sum()), total),
        accuracy=Share(int(known.correct.sum()), total),
        abstained=Share(int(known.abstained.sum()), total),
        acr=_sum(known.reached) / total if certified else None,
        certified_accuracy={r: share_at(run, r) for r in radii} if certified else {},
        mean_draws=None if known.draws is None else _sum(known.draws) / total,
        seconds=None if known.seconds is None else _sum(known.seconds),
    )


def share_at(run: Run, radius: float) -> Share | None:
    """Certified accuracy at a radius; None where the run never tried so large a one."""
    return certified_accuracy(run, radius) if run.claim.tried(radius) else None


def certified_accuracy(run: Run, radius: float) -> Share:
    """Share of inputs whose predicted class is right and proven at least up to this radius."""
    return Share(columns(run).hits(radius), len(run.rows))


def robustness_index(run: Run, gamma: Callable[[float], float]) -> float:
    """SWEEN's γ-robustness index: the mean of γ(radius) over inputs, a wrong or abstained one counting 0.

    The identity gives ACR, the indicator of r ≥ R certified accuracy at R, a ball's volume the mean certified volume.
    """
    return math.fsum(gamma(row.radius) for row in run.rows if row.correct) / len(run.rows)


def envelope(runs: Sequence[Run], radii: Sequence[float]) -> dict[float, Share]:
    """The best certified accuracy that any of the runs has, radius by radius."""
    return {r: max((certified_accuracy(run, r) for run in runs), key=lambda share: share.value) for r in radii}


def lows(run: Run) -> Floats | None:
    """The lower bounds on P(top class), ascending: their empirical distribution. None where they are not kept.

    An abstention that keeps no bound had none above 0. A test of given radii keeps the P they need, not a bound.
    """
    if run.claim.radii is not None:
        return None
    import numpy as np

    if any(row.low is None and row.predicted != ABSTAIN for row in run.rows):
        return None
    known = np.sort(np.fromiter((row.low or 0.0 for row in run.rows), np.float64, len(run.rows)))
    return known if known.any() else None


def default_radii(runs: Iterable[Run]) -> list[float]:
    """Some radii up to the largest that any run reached, right or wrong (`usual_radii`), and every radius asked for.

    Only the latter where no run looked for its largest radius: the others would repeat them.
    """
    runs = [run for run in runs if run.kind == "certify"]
    asked = [run.claim.radii for run in runs]
    wanted = {radius for radii in asked for radius in radii or ()}
    if asked and None not in asked:
        return sorted(wanted)
    largest = max((float(columns(run).radius.max()) for run in runs if run.rows), default=0.0)
    level = max((getattr(run.spec.noise, "sigma", 0.0) for run in runs if run.spec is not None), default=0.0)
    return sorted(wanted.union(usual_radii(largest, level, whole=any(run.claim.norm in WHOLE for run in runs))))


def usual_radii(largest: float, level: float = 0.0, whole: bool = False) -> list[float]:
    """0 and every STEP up to the largest, as the field prints them, where that is 3 to 9 radii; `whole`: every 1.

    Elsewhere a step of 1, 2, 2.5 or 5 times a power of ten that gives 5 to 8 of them; fewer only of whole numbers.
    Where nothing has a radius, 0 and one in the size of the level of noise.
    """
    if not 0.0 < largest < math.inf:
        return [0.0, float(1 if whole else _round_step(level) if level > 0.0 else STEP)]
    exact, step = Decimal(repr(largest)), Decimal(1 if whole else STEP)
    if not (whole and exact < FEWEST) and not FEWEST <= exact // step + 1 <= MOST:
        step = _round_step(largest / 4.0, whole)
    return [float(step * number) for number in range(max(int(exact // step), 1) + 1)]


def _round_step(most: float, whole: bool = False) -> Decimal:
    """The largest of 1, 2, 2.5 and 5 times a power of ten that is at most so much; whole: a whole number from 1 on."""
    unit = Decimal(1).scaleb(Decimal(repr(most)).adjusted())
    steps = [unit * Decimal(part) for part in ("1", "2", "2.5", "5")]
    fits = [step for step in steps if step <= Decimal(repr(most)) and not (whole and step % 1)]
    return max([*fits, Decimal(1)]) if whole else max(fits)


def same_inputs(runs: Sequence[Run]) -> bool:
    """Whether all runs are of the same inputs: the same indices and labels, and the same values where they are told."""
    values = {run.spec.data_digest for run in runs if run.spec is not None}
    return len(values) <= 1 and all(same_rows(runs[0], run) for run in runs[1:])


def same_rows(one: Run, other: Run) -> bool:
    """Whether two runs have the same indices and labels, in the same order."""
    import numpy as np

    first, second = columns(one), columns(other)
    return np.array_equal(first.index, second.index) and np.array_equal(first.label, second.label)


def ceiling(run: Run) -> float | None:
    """The largest radius that an input of the run could have had; None where the run does not tell.

    Whatever the scheme, if all of N draws fall on one class it may claim P ≥ α^(1/N) and no more: else it would be
    wrong too often. Levels of inputs' own, memories and logs have no ceiling that is known.
    """
    spec, claim = run.spec, run.claim
    if spec is None or spec.preparation is not None or run.memory is not None:
        return None
    if claim.radii is not None:
        return claim.radii[-1]
    import numpy as np

    from smoothcert.bounds import best_lower_bound, radii_between

    draws = (spec.sampling or spec.procedure).cap
    low = np.array([1.0 if spec.alpha == 0.0 else best_lower_bound(draws, spec.alpha)])
    top = float(radii_between(low, 1.0 - low, spec.noise, spec.dim, exact=spec.alpha == 0.0)[0])
    return top if 0.0 < top < math.inf and bool((columns(run).radius <= top).all()) else None


def mean_interval(values: Sequence[float] | Floats, top: float) -> Interval:
    """For the mean of values in [0, top]: hedged betting (Waudby-Smith, Ramdas, JRSS B 2023), valid for every number.

    Under a mean m nobody gets rich by betting on values above it, or below it: an m is left out if one of the two bets,
    each with half of the capital, has multiplied it by 1/(1 − LEVEL).
    """
    import numpy as np

    scaled = np.minimum(np.asarray(values, dtype=np.float64) / top, 1.0)
    return Interval(top * _lower_mean(scaled), top * (1.0 - _lower_mean(1.0 - scaled)))


def _lower_mean(values: Floats) -> float:
    """The largest m in [0, 1] that betting on larger values leaves out; the capital falls with m, so it is bisected."""
    import numpy as np

    n, rich = len(values), math.log(2.0 / (1.0 - LEVEL))
    seen = np.arange(2, n + 2)
    centre = (0.5 + np.cumsum(values)) / seen
    spread = (0.25 + np.cumsum((values - centre) ** 2)) / seen
    # Each bet is set by the values before it.
    stakes = np.sqrt(2.0 * rich / (n * np.concatenate([[0.25], spread[:-1]])))

    def left_out(m: float) -> bool:
        return bool(np.log1p(np.minimum(stakes, BOLDEST / m) * (values - m)).sum() >= rich)

    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if left_out(middle) else (low, middle)
    return low


def radius_name(radius: float) -> str:
    """A radius as a key or a column's head: 0, 0.25, 1."""
    return repr(float(radius)).removesuffix(".0")


def as_json(figure: Figures) -> dict[str, Any]:
    """One run as one JSON object; null where a figure is not known."""
    shares = {"clean_accuracy": figure.clean_accuracy, "accuracy": figure.accuracy, "abstained": figure.abstained}
    by_radius = {radius_name(r): share for r, share in figure.certified_accuracy.items()}
    intervals: dict[str, Any] = {name: list(share.interval) if share else None for name, share in shares.items()}
    claim = figure.claim
    radii = None if claim.radii is None else list(claim.radii)
    intervals["acr"] = list(figure.acr_interval) if figure.acr_interval else None
    intervals["certified_accuracy"] = {name: list(s.interval) if s else None for name, s in by_radius.items()}
    return {
        "name": figure.name,
        "kind": figure.kind,
        "norm": figure.norm,
        "inputs": figure.inputs,
        "asked": figure.asked,
        "question": {"radii": radii, "against": claim.test_class, "words": list(claim.words)},
        **{name: share.value if share else None for name, share in shares.items()},
        "certified_accuracy": {name: share.value if share else None for name, share in by_radius.items()},
        "acr": figure.acr,
        "mean_draws": figure.mean_draws,
        "seconds": figure.seconds,
        "intervals": {"level": LEVEL, "shares": "Clopper–Pearson", "mean": MEAN, **intervals},
    }


def _sum(values: Floats | Integers) -> float:
    """Rounded once, whatever the order."""
    return math.fsum(values.tolist())
