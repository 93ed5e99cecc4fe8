"""Sections that only some runs have, a file each: `section(runs, radii)` is a Section, or None where the runs have
nothing of the kind. A new section is one new file; `PLACE` says where it stands among the others, the smallest first.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence

from smoothcert.report.section import Section
from smoothcert.runs.run import Run

LAST = 100  # the place of a section that does not say


def sections(runs: Sequence[Run], radii: Sequence[float]) -> Iterator[Section | str]:
    """What these runs have to show beyond what every run has."""
    runs = [run for run in runs if isinstance(run, Run)]  # TRANSITION: a Record makes no claim
    names = sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    for module in sorted(modules, key=lambda one: getattr(one, "PLACE", LAST)):
        section = getattr(module, "section", None)  # until all of them return a Section, some return HTML
        if section is not None and (found := section(runs, radii)) is not None:
            yield found
