"""A noise level for every input beside fixed ones, and what a memory made of it: figures, words and JSON.

Runs compare when they are of the same network on the same inputs. What smoothing alone had said at the inputs' own
levels is no certificate; it stands there to show what the memory cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from smoothcert.contracts import ABSTAIN
from smoothcert.report._paired import Estimate, resampled
from smoothcert.report.metrics import radius_name
from smoothcert.report.question import asked, part
from smoothcert.runs.run import BeforeMemory, Row, Run


class Gain(NamedTuple):
    """What the run has beyond another: mean radius, and certified accuracy by radius."""

    over: Run
    acr: Estimate
    shares: dict[float, Estimate]


@dataclass(frozen=True, eq=False)
class Beside:
    """A run with levels of its own, or with a memory, and the runs at fixed levels that it compares with."""

    run: Run
    fixed: tuple[Run, ...]  # by rising level

    @property
    def alone(self) -> Run:
        """As smoothing alone left it."""
        return replace(self.run, rows=tuple(row.smoothed for row in self.run.rows))

    @property
    def levels(self) -> list[float]:
        return sorted(row.sigma for row in self.run.rows if row.sigma is not None)

    @property
    def start(self) -> float | None:
        """The level that the search began at."""
        return level(self.run) if self.levels else None

    @property
    def settled(self) -> list[tuple[Row, BeforeMemory]]:
        """Rows that a memory answered for, with what smoothing alone had said."""
        return [(row, row.settled) for row in self.run.rows if row.settled is not None]

    def how_settled(self) -> dict[str, int]:
        """Inputs by what the memory did with them."""
        return dict(Counter(how(row, settled) for row, settled in self.settled))


def beside(records: Sequence[Run]) -> list[Beside]:
    """Every run of that kind, with its partners among the records."""
    found = [r for r in records if r.kind == "certify" and (asked(r).own_levels or asked(r).settled)]
    return [Beside(run, tuple(sorted((o for o in records if _fixed(o, run)), key=level))) for run in found]


def how(row: Row, settled: BeforeMemory) -> str:
    """What a memory did with a row, in a word."""
    if settled.conflict is not None:
        return settled.conflict
    return "answered" if settled.predicted == ABSTAIN != row.predicted else "left"


def gains(found: Beside, radii: Sequence[float]) -> list[Gain]:
    """The run against each run at a fixed level, paired over inputs."""
    runs = [found.run, *found.fixed]
    if not found.fixed:
        return []
    drawn = resampled(np.stack([_values(run, radii) for run in runs], axis=1))
    return [
        Gain(other, drawn.gain(0, number, 0), {r: drawn.gain(0, number, 1 + i) for i, r in enumerate(radii)})
        for number, other in enumerate(found.fixed, start=1)
    ]


def level(record: Run) -> float:
    """The noise level in a record's question."""
    return float(part(record, "noise").get("sigma", 0.0))


def owners(record: Run) -> dict[int, int]:
    """Regions that inputs of this run stored: number → index of the input."""
    return {row.settled.seen + 1: row.index for row in record.rows if row.settled and row.settled.stored}


def words(found: Beside) -> list[str]:
    """Levels and conflicts in a line each."""
    said, own = [], found.levels
    if own:
        middle = float(np.median(own))
        said.append(
            f"levels from {own[0]:.3g} to {own[-1]:.3g}, half of them below {middle:.3g}; begun at {found.start:g}"
        )
    counts = found.how_settled()
    if asked(found.run).frozen:
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


def as_json(found: Beside, radii: Sequence[float]) -> dict[str, Any]:
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


def _values(record: Run, radii: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Of each input: its radius if right, and whether right at each radius [inputs, 1 + radii]."""
    rows = [[row.radius * row.correct, *(row.correct and row.radius >= r for r in radii)] for row in record.rows]
    return np.array(rows, dtype=np.float64)


def _fixed(other: Run, run: Run) -> bool:
    """Whether another run is of the same network on the same inputs at one level, with the certificate of smoothing."""
    question = asked(other)
    if other.kind != "certify" or question.own_levels or question.settled or question.radii != asked(run).radii:
        return False
    mine, theirs = (record.settings.get("question", {}) for record in (run, other))
    same = all(mine.get(key) == theirs.get(key) for key in ("model_digest", "data_digest")) and "data_digest" in mine
    return same and other.norm == run.norm and [r.index for r in other.rows] == [r.index for r in run.rows]
