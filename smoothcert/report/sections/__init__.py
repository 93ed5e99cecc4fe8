"""Sections that only some runs have, a file each: `section(runs, radii)` is a Section, or None where the runs have
nothing of the kind. A new section is one new file; `PLACE` says where it stands among the others, the smallest first.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from smoothcert.report.section import Section
from smoothcert.runs.run import Run

LAST = 100  # the place of a section that does not say


def sections(
    runs: Sequence[Run], radii: Sequence[float], options: Mapping[str, Mapping[str, Any]] | None = None
) -> Iterator[Section]:
    """What these runs have to show beyond what every run has; `options`: more arguments, by a section's name."""
    names = [found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_")]
    modules = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    for name, module in sorted(modules.items(), key=lambda item: (getattr(item[1], "PLACE", LAST), item[0])):
        found = module.section(runs, radii, **(options or {}).get(name, {}))
        if found is not None:
            yield found
