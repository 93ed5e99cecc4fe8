"""Which runs are of an ensemble and which of its members: by hash, or as the user says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from smoothcert.catalog import describe
from smoothcert.errors import ModelError, OptionError, RunError
from smoothcert.report.metrics import same_rows
from smoothcert.runs.run import Run

if TYPE_CHECKING:
    from smoothcert.classifiers.composite import Composite, Member


UNNAMEABLE = (OSError, ValueError)  # what a name raises that no file can have: too long, with a zero byte


@dataclass(frozen=True)
class Family:
    """Who belongs together. What is None is not known, because the ensemble's folder is not there any more."""

    ensemble: Run
    members: tuple[Run, ...]  # two or more, in the ensemble's order
    size: int  # members that it has, whether their runs are here or not
    vote: str | None = None  # and who is asked, in words
    identity: str | None = None  # equal for ensembles that differ at most in whom they ask, and when
    whole: bool | None = None  # every member is asked about every draw


class Found(NamedTuple):
    """Ensembles that can be held against their members, and a line for each that cannot."""

    families: list[Family]
    notes: list[str]


def difference(first: Run, other: Run) -> str | None:
    """Why the second run cannot be held against the first, input by input; None where it can."""
    if other.kind != first.kind:
        return f"{other.kind} ≠ {first.kind}"
    if other.claim.ruler != first.claim.ruler:
        return f"norm {other.claim.ruler} ≠ {first.claim.ruler}"
    for name in ("noise", "procedure", "sampling"):
        mine, theirs = (_described(run, name) for run in (first, other))
        if mine != theirs:
            return f"{name}: {_unlike(theirs, mine)}"
    if first.spec is not None and other.spec is not None and first.spec.data_digest != other.spec.data_digest:
        return "other inputs"
    if same_rows(first, other):
        return None
    ours, others = ({(row.index, row.label) for row in run.rows} for run in (first, other))
    return f"other inputs, {len(ours & others)} of {len(ours)} the same"


def find(runs: Sequence[Run]) -> Found:
    """Whatever the folders of ensembles among the runs tell."""
    found = Found([], [])
    for run in runs:
        counted = run.means is not None and run.means.member_calls is not None
        if run.kind == "certify" and (counted or _is_ensemble(run)):
            _add(run, runs, found)
    return found


def named(runs: Sequence[Run], ensemble: Run | None, members: Sequence[Run] | None) -> Found:
    """The family that a user names; refused where its runs do not compare. None: the one left, or all others."""
    if ensemble is None:
        rest = [run for run in runs if not any(run is member for member in members or ())]
        if len(rest) != 1:
            raise OptionError(f"--ensemble must say which run is of the ensemble; got none, and {len(rest)} are left")
        ensemble = rest[0]
    kept = [run for run in runs if run is not ensemble] if members is None else members
    if len({id(run) for run in kept} - {id(ensemble)}) < max(2, len(kept)):
        raise OptionError(f"--members must be two other runs of {ensemble.name} or more, each once; got {len(kept)}")
    description = _description(ensemble)
    for run in kept:
        if (reason := difference(ensemble, run)) is not None:
            raise RunError(f"run {run.name} must answer what {ensemble.name} answers, on the same inputs; got {reason}")
        if description is not None and not any(_is_of(run, member) for member in description.members):
            raise RunError(f"run {run.name} must be of a member of {ensemble.name}; its model is none of them")
    return Found([_family(ensemble, kept, description)], [])


def _described(run: Run, name: str) -> Mapping[str, Any]:
    part = None if run.spec is None else getattr(run.spec, name)
    return {} if part is None else describe(part)


def _unlike(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """What differs between two parts of a question."""
    names = [name for name in {**theirs, **mine} if theirs.get(name) != mine.get(name)]
    return ", ".join(f"{name} {theirs.get(name, 'not given')} ≠ {mine.get(name, 'not given')}" for name in names)


def _add(run: Run, runs: Sequence[Run], found: Found) -> None:
    """The family of one ensemble, if two of its members are here; why not, if they are but do not compare."""
    description = _description(run)
    others = [other for other in runs if other is not run and other.kind == "certify"]
    if description is None:
        if len(others) > 1 and not _is_there(run):
            found.notes.append(
                f"{run.name} is of an ensemble whose folder is not what it was, or not there; --ensemble and "
                "--members say which runs belong together"
            )
        return
    kept: list[Run] = []
    left: list[str] = []
    for member in dict.fromkeys(description.members):
        reasons = [(other, difference(run, other)) for other in others if _is_of(other, member)]
        good = [other for other, reason in reasons if reason is None]
        kept += good[:1]
        left += [f"{other.name} ({reason})" for other, reason in reasons if reason is not None]
        left += [f"{other.name} (the same member again)" for other in good[1:]]
    if len(kept) > 1:
        found.families.append(_family(run, kept, description))
    if left and len(kept) + len(left) > 1:
        found.notes.append(f"not compared with {run.name}: {', '.join(left)}")


def _family(run: Run, members: Sequence[Run], description: Composite | None) -> Family:
    if description is None:
        calls = None if run.means is None else run.means.member_calls
        return Family(run, tuple(members), max(len(members), calls.members if calls else 0))
    vote = description.vote or {}
    weights = vote.get("weights") or [0.0] * len(description.members)
    shares = sorted(zip((member.digest for member in description.members), weights, strict=True))
    words = " in ".join(_words(part) for part in (description.vote, description.cascade) if part is not None)
    identity = json.dumps([{key: value for key, value in vote.items() if key != "weights"}, shares])
    return Family(run, tuple(members), len(description.members), words, identity, description.cascade is None)


def _words(part: Mapping[str, Any]) -> str:
    """A part's name and options, weights left out."""
    options = [f"{key} {value}" for key, value in part.items() if key not in ("name", "weights")]
    return str(part["name"]).replace("_", " ") + (f" ({', '.join(options)})" if options else "")


def _is_ensemble(run: Run) -> bool:
    from smoothcert.classifiers import composite

    try:
        return run.spec is not None and composite.kind_of(Path(run.spec.model)) == "ensemble"
    except UNNAMEABLE:
        return False


def composite_of(run: Run) -> Composite | None:
    """What the folder of a run's model says of its parts, if it is still the one that was certified."""
    from smoothcert.classifiers import composite

    if run.spec is None:
        return None
    try:
        description = composite.read(Path(run.spec.model))
        return description if description.digest.hex == run.spec.model_digest else None
    except (ModelError, *UNNAMEABLE):
        return None


def _description(run: Run) -> Composite | None:
    """The same of an ensemble alone."""
    found = composite_of(run)
    return found if found is not None and found.kind == "ensemble" else None


def _is_there(run: Run) -> bool:
    """Whether the model is where it was and what it was, though no folder of an ensemble: several denoisers, say."""
    from smoothcert.classifiers import digest

    try:
        return not _is_ensemble(run) and digest(run.asked.model).hex == run.asked.model_digest
    except (ModelError, *UNNAMEABLE):
        return False


def _is_of(run: Run, member: Member) -> bool:
    """Whether a run is of this member. The hash of a callable is that of its file, so its name counts too."""
    spec = run.spec
    if spec is None or spec.model_digest != member.digest:
        return False
    return bool(member.path or ":" not in member.place or spec.model == member.place)
