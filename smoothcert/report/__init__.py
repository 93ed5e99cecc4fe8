"""⑦ From stored evidence to figures, tables, curves and pages: `report` makes the sections, `render` shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothcert.report.families import Found
    from smoothcert.report.section import Section
    from smoothcert.runs.run import Run


def report(runs: Sequence[Run], radii: Sequence[float] | None = None, found: Found | None = None) -> list[Section]:
    """Everything that is known of these runs: their figures side by side, then what only some of them have.

    `found`: which runs are of an ensemble and which of its members, where the ensembles' folders do not tell.
    """
    from smoothcert.report import metrics, tables
    from smoothcert.report.section import Section
    from smoothcert.report.sections import sections

    at = metrics.default_radii(runs) if radii is None else radii
    figures = [metrics.figures(run, at) for run in runs]
    notes = tables.notes_by_run(runs)
    data = {i: {**metrics.as_json(figure), "notes": notes[i]} for i, figure in enumerate(figures)}
    side_by_side = Section("figures", tables=(tables.table(figures),), data=data)
    return [side_by_side, *sections(runs, at, {"ensembles": {"found": found}})]
