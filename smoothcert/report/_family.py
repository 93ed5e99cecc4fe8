"""The run of an ensemble and those of its members, on the same inputs and asked the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smoothcert.runs.run import Run

SAME = ("noise", "procedure", "sampling", "data_digest")  # what a question must share before radii compare


@dataclass(frozen=True)
class Family:
    """Who belongs together. What is None is not known, because the ensemble's folder is not there any more."""

    ensemble: Run
    members: tuple[Run, ...]  # two or more, in the ensemble's order
    size: int  # members that it has, whether their runs are here or not
    vote: str | None = None  # and who is asked, in words
    identity: str | None = None  # equal for ensembles that differ at most in whom they ask, and when
    whole: bool | None = None  # every member is asked about every draw


def difference(first: Run, other: Run) -> str | None:
    """Why the second run cannot be held against the first, input by input; None where it can."""
    if other.kind != first.kind:
        return f"{other.kind} ≠ {first.kind}"
    for name in SAME:
        mine, theirs = _question(first).get(name), _question(other).get(name)
        if mine != theirs:
            return "other inputs" if name == "data_digest" else f"{name}: {_unlike(theirs, mine)}"
    mine, theirs = ({(row.index, row.label) for row in run.rows} for run in (first, other))
    if mine != theirs:
        return f"other inputs, {len(mine & theirs)} of {len(mine)} the same"
    return None


def _question(record: Run) -> Mapping[str, Any]:
    found = record.settings.get("question")
    return found if isinstance(found, Mapping) else {}


def _unlike(theirs: Any, mine: Any) -> str:
    """What differs between two parts of a question."""
    one, two = (part if isinstance(part, Mapping) else {} for part in (theirs, mine))
    names = [name for name in {**one, **two} if one.get(name) != two.get(name)]
    return ", ".join(f"{name} {one.get(name, 'not given')} ≠ {two.get(name, 'not given')}" for name in names)
