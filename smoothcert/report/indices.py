"""SWEEN's γ-robustness index of runs, E[γ(R)] over their inputs (Liu et al. 2020, Definition 1): γ by name.

    identity          γ(r) = r: the average certified radius
    indicator:0.5     γ(r) = [r ≥ 0.5]: certified accuracy at 0.5
    power:2           γ(r) = r²
    volume            γ(r) = the volume of a ball of radius r in the input's dimension, told as log₁₀ of the mean

A wrong or abstained input counts 0. In thousands of dimensions the mean volume is almost that of the largest ball.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from smoothcert.errors import OptionError, RunError, unknown
from smoothcert.report.metrics import figures, robustness_index
from smoothcert.report.section import Table, table_of
from smoothcert.report.tables import notes
from smoothcert.runs.run import Run

NAMES = ("identity", "indicator", "power", "volume")
VOLUMES: dict[str, Callable[[int], float]] = {  # log of the volume of a ball of radius 1, by dimension
    "l1": lambda d: d * math.log(2) - math.lgamma(d + 1),
    "l2": lambda d: d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1),
    "linf": lambda d: d * math.log(2),
}


class GammaIndex(NamedTuple):
    """γ, and its number where it has one."""

    name: str
    number: float | None = None

    @property
    def words(self) -> str:
        if self.name == "volume":
            return "log₁₀ E[volume]"
        return {
            "identity": "E[r]",
            "indicator": f"P(r ≥ {self.number:g})" if self.number is not None else "",
            "power": f"E[r^{self.number:g}]" if self.number is not None else "",
        }[self.name]

    def of(self, run: Run) -> float | None:
        """The index of a run; log₁₀ of it for volumes, None where that is of 0."""
        number = self.number or 0.0
        if self.name == "volume":
            return _log_volume(run)
        gammas: dict[str, Callable[[float], float]] = {
            "identity": lambda r: r,
            "indicator": lambda r: float(r >= number),
            "power": lambda r: r**number,
        }
        return robustness_index(run, gammas[self.name])


def parse(text: str) -> list[GammaIndex]:
    """`identity,indicator:0.5` as indices."""
    found = []
    for part in text.split(","):
        name, colon, written = part.strip().partition(":")
        if name not in NAMES:
            raise unknown("--index", name, NAMES)
        if bool(colon) != (name in ("indicator", "power")):
            takes = "a number, as in indicator:0.5" if name in ("indicator", "power") else "no number"
            raise OptionError(f"{name} of --index must have {takes}; got '{part.strip()}'")
        found.append(GammaIndex(name, _number(name, written) if colon else None))
    return found


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and (value > 0 if name == "power" else value >= 0)):
        raise OptionError(f"number of {name} of --index must be finite and not negative; got '{text}'")
    return value


def values(runs: Sequence[Run], indices: Sequence[GammaIndex]) -> list[dict[str, Any]]:
    """For programs."""
    return [{"name": run.name, **{index.words: index.of(run) for index in indices}} for run in runs]


def table(runs: Sequence[Run], indices: Sequence[GammaIndex]) -> Table:
    """A row a run, a column an index, and below what a reader must know of the runs."""
    rows = [(run.name, [_cell(index.of(run)) for index in indices]) for run in runs]
    return table_of("run", [index.words for index in indices], rows, *notes([figures(run) for run in runs]))


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _log_volume(run: Run) -> float | None:
    if run.claim.norm not in VOLUMES:
        raise RunError(f"volume of {run.name} must be of balls in {', '.join(VOLUMES)}; got norm {run.claim.norm}")
    dim = math.prod(run.asked.shape)
    logs = [dim * math.log(row.radius) for row in run.rows if row.correct and row.radius > 0]
    if not logs:
        return None
    most = max(logs)
    mean = most + math.log(math.fsum(math.exp(one - most) for one in logs) / len(run.rows))
    return (mean + VOLUMES[run.claim.norm](dim)) / math.log(10)
