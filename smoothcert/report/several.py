"""Several runs, each held against the same first one, with the correction that looking so often needs.

For each figure by itself, over all comparisons: intervals hold together at LEVEL (Bonferroni), and the chance that any
p at or below 0.05 is a false alarm is at most 0.05 (Holm). Figures at several radii are not corrected for each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from smoothcert.report import choices, compare, paired
from smoothcert.report.compare import Compared
from smoothcert.report.metrics import LEVEL, default_radii
from smoothcert.report.section import Table
from smoothcert.runs.run import Run


@dataclass(frozen=True)
class Against:
    """Comparisons with one run, which is the first of each."""

    pairs: tuple[Compared, ...]

    @property
    def runs(self) -> list[Run]:
        return [self.pairs[0].before, *(pair.after for pair in self.pairs)]

    @property
    def corrected(self) -> str:
        """What was done about the number of comparisons; nothing for one."""
        number = len(self.pairs)
        if number == 1:
            return ""
        return (
            f"corrected, figure by figure, for {number} comparisons: intervals have {100 * self.pairs[0].level:.4g} % "
            f"each and hold together at {100 * LEVEL:g} % (Bonferroni); p is Holm's"
        )


def against(first: Run, others: Sequence[Run], radii: Sequence[float] | None = None) -> Against:
    """Each of the others held against the first; radii as in `metrics.figures`."""
    runs = [first, *others]
    wanted, averages = default_radii(runs) if radii is None else radii, compare.same_radii(runs)
    if not averages:  # one table: every pair at the same radii
        for other in others:  # what cannot be compared at any radius is refused for that
            compare.on_common_inputs(first, other)
        wanted = compare.tested_radii(runs, wanted)
    pairs = [compare.compare(first, other, wanted, len(others), averages) for other in others]
    if len(pairs) == 1:
        return Against(tuple(pairs))
    found: dict[float, list[float]] = {}
    for pair in pairs:
        for change in pair.changes:
            found.setdefault(change.radius, []).append(change.p_value)
    adjusted = {radius: iter(paired.holm(values)) for radius, values in found.items()}
    return Against(
        tuple(
            replace(pair, changes=tuple(replace(one, adjusted=next(adjusted[one.radius])) for one in pair.changes))
            for pair in pairs
        )
    )


def table(found: Against) -> Table:
    """One table; of several comparisons, each has its columns below its own title."""
    if len(found.pairs) == 1:
        return compare.table(found.pairs[0])
    first, *others = compare.shown_names(found.runs)
    made = [compare.table(pair, (first, other)) for pair, other in zip(found.pairs, others, strict=True)]
    columns = [
        replace(column, over=f"{other} − {first}")
        for one, other in zip(made, others, strict=True)
        for column in one.columns
    ]
    notes = dict.fromkeys(line for one in made for line in one.notes)
    return replace(made[0], columns=tuple(columns), notes=(*notes, found.corrected, *choices.notes(found.runs)))


def as_json(found: Against) -> dict[str, Any]:
    """One object; of several comparisons a list of them, and what they were corrected for."""
    if len(found.pairs) == 1:
        return compare.as_json(found.pairs[0])
    return {
        "first": found.runs[0].name,
        "comparisons": [compare.as_json(pair) for pair in found.pairs],
        "corrected": {"comparisons": len(found.pairs), "intervals": "Bonferroni", "p_adjusted": "Holm"},
        "notes": [found.corrected, *choices.notes(found.runs)],
    }


def too_low(found: Against, limits: Mapping[str, float]) -> list[tuple[str, list[str]]]:
    """Runs with figures that are further below the first's than allowed, and which these are."""
    low = [(pair.after.name, compare.too_low(pair, limits)) for pair in found.pairs]
    return [(name, lines) for name, lines in low if lines]
