"""What a run spent: draws an input, and how many times fewer than a fixed number of draws would have been.

SampleRF and TimeRF are the reduction factors of Horváth, Müller, Fischer, Vechev (ICLR 2022): draws, and seconds, of
CERTIFY with a fixed number of draws ÷ those used.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from smoothcert.report.question import part
from smoothcert.runs.run import Row, Run

FIXED = 100_000  # the field's number of draws
CHOOSING = 100  # and of those that choose the class, where the run's own number is not known
DEAREST = 20  # one in so many inputs is among the most expensive
ONE_LOOK = ("fixed", "runner_up")  # schemes whose number of draws is given, not found


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
    time: float | None

    @property
    def words(self) -> str:
        if self.against is None:
            return f"against n = {self.n:,} and n0 = {self.n0:,} for each input, as they would have been"
        return f"against the draws of {self.against} (n = {self.n:,}) on the same {self.inputs:,} inputs"


def spread(record: Run) -> Spread | None:
    """The draws of each input; None where a log does not say."""
    known = sorted(row.draws for row in record.rows if row.draws is not None)
    return Spread(tuple(known)) if known and len(known) == len(record.rows) else None


def saving(record: Run, records: Sequence[Run]) -> Saving | None:
    """Against the first fixed run of the same inputs, else against n = 100 000; None for one look or a log."""
    scheme, spent = part(record, "sampling").get("name"), spread(record)
    if record.kind != "certify" or scheme in (None, *ONE_LOOK) or spent is None or spent.total == 0:
        return None
    for other in records:
        if _pairs(record, other) and (found := _paired(record, other)):
            return found
    n0 = int(part(record, "procedure").get("n0", CHOOSING))
    return Saving(None, FIXED, n0, len(record.rows), len(record.rows) * (FIXED + n0) / spent.total, None)


def _pairs(record: Run, other: Run) -> bool:
    """A fixed run of the same network under the same noise; its inputs are compared one by one."""
    if part(other, "sampling").get("name") != "fixed" or other.kind != "certify":
        return False
    mine, theirs = (_question(run) for run in (record, other))
    same_data = mine.get("data_digest") == theirs.get("data_digest") or all(
        mine.get(key) == theirs.get(key) for key in ("data", "split", "image_size", "value_range")
    )
    return same_data and all(mine.get(key) == theirs.get(key) for key in ("model_digest", "noise"))


def _question(record: Run) -> Mapping[str, object]:
    found = record.settings.get("question")
    return found if isinstance(found, Mapping) else {}


def _paired(record: Run, other: Run) -> Saving | None:
    theirs = {row.index: row for row in other.rows}
    pairs = [(row, theirs[row.index]) for row in record.rows if row.index in theirs]
    if not pairs or any(a.label != b.label or a.draws is None or b.draws is None for a, b in pairs):
        return None
    sample = _ratio([b.draws for _, b in pairs], [a.draws for a, _ in pairs])
    time = _ratio([b.seconds for _, b in pairs], [a.seconds for a, _ in pairs])
    n, n0 = int(part(other, "sampling").get("n", FIXED)), int(part(other, "procedure").get("n0", CHOOSING))
    return None if sample is None else Saving(other.name, n, n0, len(pairs), sample, time)


def _ratio(above: Sequence[float | None], below: Sequence[float | None]) -> float | None:
    if any(value is None for value in [*above, *below]):
        return None
    total = sum(value or 0 for value in below)
    return sum(value or 0 for value in above) / total if total else None


def tested(row: Row) -> list[tuple[int, ...]]:
    """The votes of the test's draws, look by look."""
    return [answer.counts[0] for answer in row.answers if answer.purpose == "test"]
