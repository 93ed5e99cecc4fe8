"""Sections of the page that only some runs have, a file each, in the order of the page.

A file's `section(records, radii)` is its HTML (a whole <section>, its template beside it), or None where the runs have
nothing of the kind.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence

from smoothcert.runs.run import Run

ORDER: tuple[str, ...] = ("norms", "memory", "aces", "route")


def sections(records: Sequence[Run], radii: Sequence[float]) -> Iterator[str]:
    """What these runs have to show beyond what every run has."""
    for name in ORDER:
        found = importlib.import_module(f"smoothcert.report.sections.{name}").section(records, radii)
        if found is not None:
            yield found
