"""The rows of a paper's table: runs by their names, pooled where they share one, and ensembles after their members."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from smoothcert.errors import RunError
from smoothcert.report.ensemble import Comparison, Line
from smoothcert.report.metrics import figures, setting
from smoothcert.report.question import part
from smoothcert.report.tables import UNKNOWN
from smoothcert.runs.run import Run


@dataclass(frozen=True)
class Entry:
    """One row: its figures, and what stands beside its name."""

    line: Line
    sigma: str
    members: int | None = None
    levels: str = ""  # FS or DS
    evaluations: float | None = None  # of members, an input


def pooled(records: Sequence[Run], radii: Sequence[float], best: bool) -> list[Entry]:
    """One row a name, in the order of first appearance: the best of its runs in each column, or their mean."""
    named: dict[str, list[Run]] = {}
    for record in records:
        named.setdefault(record.name, []).append(record)
    return [_entry(group, radii, best) for group in named.values()]


def _entry(group: Sequence[Run], radii: Sequence[float], best: bool) -> Entry:
    lines = [_line(record, radii) for record in group]
    sigmas = list(dict.fromkeys(_level(record) for record in group))
    sizes = {_size(record) for record in group}
    return Entry(
        lines[0] if len(lines) == 1 else _best(lines) if best else _mean(lines),
        ", ".join(sigmas),
        sizes.pop() if len(sizes) == 1 else None,
        "DS" if any(part(record, "preparation") for record in group) else "FS",
        _evaluations(group[0]) if len(group) == 1 else None,
    )


def with_members(records: Sequence[Run], kin: Sequence[Comparison], radii: Sequence[float]) -> list[Entry]:
    """Ensembles after the average and the upper envelope of their members; members stand for nothing else."""
    inside = {id(member) for found in kin for member in found.family.members}
    entries: list[Entry] = []
    for record in records:
        for found in kin:
            if found.family.ensemble is record:
                lines = (("AVG", found.average), ("UE", found.envelope))
                entries += [Entry(Line(f"{n} {record.name}", ln.acr, ln.certified), _level(record)) for n, ln in lines]
        if id(record) not in inside:
            entries.append(_entry([record], radii, best=False))
    return entries


def _line(record: Run, radii: Sequence[float]) -> Line:
    found = figures(record, radii)
    if found.acr is None:
        raise RunError(f"run {record.name} must hold certificates for a paper's table; it holds predictions")
    return Line(record.name, found.acr, {r: s.value for r, s in found.certified_accuracy.items() if s is not None})


def _mean(lines: Sequence[Line]) -> Line:
    by_radius = _by_radius(lines)
    return Line(
        lines[0].name,
        statistics.fmean(line.acr for line in lines),
        {r: statistics.fmean(values) for r, values in by_radius.items()},
        statistics.stdev(line.acr for line in lines),
        {r: statistics.stdev(values) for r, values in by_radius.items()},
    )


def _best(lines: Sequence[Line]) -> Line:
    shares = {r: max(values) for r, values in _by_radius(lines).items()}
    return Line(lines[0].name, max(line.acr for line in lines), shares)


def _by_radius(lines: Sequence[Line]) -> dict[float, list[float]]:
    """Values at the radii that every one of them tried."""
    return {
        r: [line.certified[r] for line in lines] for r in lines[0].certified if all(r in ln.certified for ln in lines)
    }


def _level(record: Run) -> str:
    sigma = setting(part(record, "noise"), "sigma")
    return UNKNOWN if sigma is None else f"{sigma:.2f}"


def _size(record: Run) -> int | None:
    """Networks behind a run; not known of a log."""
    counted: Mapping[str, int] = record.settings.get("means", {}).get("member_calls") or {}
    return counted.get("members", 1) if record.settings else None


def _evaluations(record: Run) -> float | None:
    """Evaluations of members an input, where the run has counted whom it asked."""
    counted = record.settings.get("means", {}).get("member_calls")
    draws = [row.draws for row in record.rows if row.draws is not None]
    return counted["asked"] / counted["rows"] * statistics.fmean(draws) if counted and draws else None
