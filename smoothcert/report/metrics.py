"""The figures of merit of a run, each with what its sample of inputs leaves open.

A share of inputs comes with its exact (Clopper–Pearson) interval, the mean radius with a t interval: both speak about
inputs drawn like these, not about the certificates, whose own risk is α an input. Nothing is rounded here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from smoothcert.contracts import ABSTAIN
from smoothcert.errors import RunError
from smoothcert.report.question import Asked, asked
from smoothcert.report.question import part as question_part
from smoothcert.runs.run import Run

LEVEL = 0.95  # of every interval
STEP = 0.25  # between default radii
MOST_STEPS = 100  # a radius of thousands (another norm, another scale) must not make thousands of columns


class Interval(NamedTuple):
    """Where the figure lies for inputs drawn like these, at level LEVEL."""

    low: float
    high: float


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

    name: str
    kind: str
    norm: str
    inputs: int
    asked: int  # inputs the run was asked for; more than `inputs` while it is unfinished
    clean_accuracy: Share | None  # of the base classifier without noise
    accuracy: Share  # of the smoothed classifier, abstentions counted as wrong: certified accuracy at radius 0
    abstained: Share
    acr: float | None  # mean of radius·[correct]; never shown without the curve
    acr_interval: Interval | None
    certified_accuracy: Mapping[float, Share | None]  # by radius; None: larger than any the run was asked for
    mean_draws: float | None
    seconds: float | None
    question: Asked = field(default_factory=Asked)

    @property
    def wrong(self) -> Share:
        return Share(self.inputs - self.accuracy.hits - self.abstained.hits, self.inputs)


def figures(record: Run, radii: Sequence[float] | None = None) -> Figures:
    """The figures of a record, with certified accuracy at these radii (default: `default_radii`)."""
    rows = record.rows
    if not rows:
        raise RunError(f"run {record.name} must hold at least one finished input; got none")
    if question_part(record, "procedure").get("name") == "select":
        raise RunError(
            f"run {record.name} must hold classes; it holds selections: see smoothcert aces combine --select"
        )
    certified = record.kind == "certify"
    radii = default_radii([record]) if radii is None else radii
    gains = [row.radius if row.correct else 0.0 for row in rows]
    cleans = [row.clean for row in rows if row.clean is not None]
    hits = sum(row.clean == row.label for row in rows)
    question = asked(record)
    return Figures(
        name=record.name,
        kind=record.kind,
        norm=record.norm,
        inputs=len(rows),
        asked=max(len(rows), record.inputs or 0),
        clean_accuracy=Share(hits, len(rows)) if len(cleans) == len(rows) else None,
        accuracy=Share(sum(row.correct for row in rows), len(rows)),
        abstained=Share(sum(row.predicted == ABSTAIN for row in rows), len(rows)),
        acr=math.fsum(gains) / len(rows) if certified else None,
        acr_interval=t_interval(gains) if certified else None,
        certified_accuracy={r: certified_accuracy(record, r) if question.tried(r) else None for r in radii}
        if certified
        else {},
        mean_draws=_mean(row.draws for row in rows),
        seconds=_total(row.seconds for row in rows),
        question=question,
    )


def certified_accuracy(record: Run, radius: float) -> Share:
    """Share of inputs whose predicted class is right and proven at least up to this radius."""
    return Share(sum(row.correct and row.radius >= radius for row in record.rows), len(record.rows))


def robustness_index(record: Run, gamma: Callable[[float], float]) -> float:
    """SWEEN's γ-robustness index: the mean of γ(radius) over inputs, a wrong or abstained one counting 0.

    The identity gives ACR, the indicator of r ≥ R certified accuracy at R, a ball's volume the mean certified volume.
    """
    return math.fsum(gamma(row.radius) for row in record.rows if row.correct) / len(record.rows)


def envelope(records: Iterable[Run], radii: Sequence[float]) -> dict[float, Share]:
    """The best certified accuracy that any of the records has, radius by radius."""
    records = list(records)
    return {r: max((certified_accuracy(record, r) for record in records), key=lambda s: s.value) for r in radii}


def lows(record: Run) -> tuple[float, ...] | None:
    """The lower bounds on P(top class), ascending: their empirical distribution. None where they are not kept.

    An abstention that keeps no bound had none above 0. A test of given radii keeps the P they need, not a bound.
    """
    if asked(record).radii is not None:
        return None
    kept = [0.0 if row.low is None and row.predicted == ABSTAIN else row.low for row in record.rows]
    known = sorted(low for low in kept if low is not None)
    return tuple(known) if len(known) == len(kept) and any(known) else None


def default_radii(records: Iterable[Run]) -> list[float]:
    """0, 0.25, … (l0: 0, 1, …) up to the largest radius any record reached, right or wrong, and every radius asked for.

    Only the latter where no record looked for its largest radius: the others would repeat them.
    """
    records = [record for record in records if record.kind == "certify"]
    largest = max((row.radius for record in records for row in record.rows), default=0.0)
    step = STEP if all(record.norm != "l0" for record in records) else 1.0
    while largest > step * MOST_STEPS:
        step *= 2.0
    questions = [asked(record).radii for record in records]
    wanted = {radius for radii in questions for radius in radii or ()}
    if questions and None not in questions:
        return sorted(wanted)
    return sorted(wanted.union(step * i for i in range(math.floor(largest / step) + 1)))


def t_interval(values: Sequence[float]) -> Interval | None:
    """Student's t interval for a mean of values ≥ 0; needs two of them."""
    from scipy.special import stdtrit

    n = len(values)
    if n < 2:
        return None
    mean = math.fsum(values) / n
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = float(stdtrit(n - 1, (1.0 + LEVEL) / 2.0)) * deviation / math.sqrt(n)
    return Interval(max(0.0, mean - half), mean + half)


def setting(settings: Mapping[str, Any], name: str) -> Any:
    """The first value of that name in a recipe, in this table before the tables within it; None where there is none."""
    if name in settings:
        return settings[name]
    inner = (setting(table, name) for table in settings.values() if isinstance(table, Mapping))
    return next((value for value in inner if value is not None), None)


def radius_name(radius: float) -> str:
    """A radius as a key or a column's head: 0, 0.25, 1."""
    return repr(float(radius)).removesuffix(".0")


def as_json(figure: Figures) -> dict[str, Any]:
    """One run as one JSON object; null where a figure is not known."""
    shares = {"clean_accuracy": figure.clean_accuracy, "accuracy": figure.accuracy, "abstained": figure.abstained}
    by_radius = {radius_name(r): share for r, share in figure.certified_accuracy.items()}
    intervals: dict[str, Any] = {name: list(share.interval) if share else None for name, share in shares.items()}
    radii = None if figure.question.radii is None else list(figure.question.radii)
    intervals["acr"] = list(figure.acr_interval) if figure.acr_interval else None
    intervals["certified_accuracy"] = {name: list(s.interval) if s else None for name, s in by_radius.items()}
    return {
        "name": figure.name,
        "kind": figure.kind,
        "norm": figure.norm,
        "inputs": figure.inputs,
        "asked": figure.asked,
        "question": {"radii": radii, "against": figure.question.against, "words": list(figure.question.words)},
        **{name: share.value if share else None for name, share in shares.items()},
        "acr": figure.acr,
        "certified_accuracy": {name: share.value if share else None for name, share in by_radius.items()},
        "mean_draws": figure.mean_draws,
        "seconds": figure.seconds,
        "intervals": {"level": LEVEL, "shares": "Clopper–Pearson", "mean": "t", **intervals},
    }


def _total(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if any(value is None for value in known) else math.fsum(v for v in known if v is not None)


def _mean(values: Iterable[float | None]) -> float | None:
    known = list(values)
    total = _total(known)
    return None if total is None else total / len(known)
