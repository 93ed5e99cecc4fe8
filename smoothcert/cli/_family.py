"""Which of the runs of a report are of an ensemble and which of its members: by hash, or as the user says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from smoothcert.errors import ModelError, OptionError, RunError
from smoothcert.report._family import Family, difference

if TYPE_CHECKING:
    from smoothcert.classifiers.composite import Composite, Member
    from smoothcert.runs.run import Run


class Found(NamedTuple):
    """Ensembles that can be held against their members, and a line for each that cannot."""

    families: list[Family]
    notes: list[str]


def find(records: Sequence[Run], paths: Sequence[Path], ensemble: str | None, members: str | None) -> Found:
    """As the options say; without them, whatever the ensembles' folders tell."""
    if ensemble is not None or members is not None:
        return Found([_named(records, paths, ensemble, members)], [])
    found = Found([], [])
    for record in records:
        counted = record.settings.get("means", {}).get("member_calls")
        if record.kind == "certify" and (counted or _is_ensemble(record)):
            _add(record, records, found)
    return found


def _add(record: Run, records: Sequence[Run], found: Found) -> None:
    """The family of one ensemble, if two of its members are here; why not, if they are but do not compare."""
    description = _description(record)
    others = [other for other in records if other is not record and other.kind == "certify"]
    if description is None:
        if len(others) > 1 and not _is_there(record):
            found.notes.append(
                f"{record.name} is of an ensemble whose folder is not what it was, or not there; --ensemble and "
                "--members say which runs belong together"
            )
        return
    kept: list[Run] = []
    left: list[str] = []
    for member in dict.fromkeys(description.members):
        runs = [other for other in others if _is_of(other, member)]
        reasons = [difference(record, run) for run in runs]
        good = [run for run, reason in zip(runs, reasons, strict=True) if reason is None]
        kept += good[:1]
        left += [f"{run.name} ({reason})" for run, reason in zip(runs, reasons, strict=True) if reason is not None]
        left += [f"{run.name} (the same member again)" for run in good[1:]]
    if len(kept) > 1:
        found.families.append(_family(record, kept, description))
    if left and len(kept) + len(left) > 1:
        found.notes.append(f"not compared with {record.name}: {', '.join(left)}")


def _named(records: Sequence[Run], paths: Sequence[Path], ensemble: str | None, members: str | None) -> Family:
    """The family that the options name; refused where its runs do not compare."""
    listed = None if members is None else [_run(word, records, paths, "--members") for word in members.split(",")]
    if ensemble is not None:
        whole = _run(ensemble, records, paths, "--ensemble")
    else:
        rest = [record for record in records if not any(record is run for run in listed or ())]
        if len(rest) != 1:
            raise OptionError(f"--ensemble must say which run is of the ensemble; got none, and {len(rest)} are left")
        whole = rest[0]
    kept = [record for record in records if record is not whole] if listed is None else listed
    if len({id(run) for run in kept} - {id(whole)}) < max(2, len(kept)):
        raise OptionError(f"--members must be two other runs of {whole.name} or more, each once; got {len(kept)}")
    description = _description(whole)
    for run in kept:
        if (reason := difference(whole, run)) is not None:
            raise RunError(f"run {run.name} must answer what {whole.name} answers, on the same inputs; got {reason}")
        if description is not None and not any(_is_of(run, member) for member in description.members):
            raise RunError(f"run {run.name} must be of a member of {whole.name}; its model is none of them")
    return _family(whole, kept, description)


def _run(word: str, records: Sequence[Run], paths: Sequence[Path], option: str) -> Run:
    """A run of the report by its name or its path."""
    for record, path in zip(records, paths, strict=True):
        if word.strip() == record.name or Path(word.strip()).resolve() == path.resolve():
            return record
    names = ", ".join(record.name for record in records)
    raise OptionError(f"{option} must name runs of this report ({names}); got '{word.strip()}'")


def _family(record: Run, members: Sequence[Run], description: Composite | None) -> Family:
    if description is None:
        counted = record.settings.get("means", {}).get("member_calls") or {}
        return Family(record, tuple(members), max(len(members), counted.get("members", 0)))
    weights = (description.vote or {}).get("weights") or [0.0] * len(description.members)
    shares = sorted(zip((member.digest for member in description.members), weights, strict=True))
    words = " in ".join(_words(part) for part in (description.vote, description.cascade) if part is not None)
    vote = {key: value for key, value in (description.vote or {}).items() if key != "weights"}
    identity = json.dumps([vote, shares])
    whole = description.cascade is None
    return Family(record, tuple(members), len(description.members), words, identity, whole)


def _words(part: Any) -> str:
    """A part's name and options, weights left out."""
    options = [f"{key} {value}" for key, value in part.items() if key not in ("name", "weights")]
    return str(part["name"]).replace("_", " ") + (f" ({', '.join(options)})" if options else "")


def _is_ensemble(record: Run) -> bool:
    from smoothcert.classifiers import composite

    model = record.settings.get("question", {}).get("model")
    return model is not None and composite.kind_of(Path(model)) == "ensemble"


def _description(record: Run) -> Composite | None:
    """What the ensemble's folder says, if it is still the one that was certified."""
    from smoothcert.classifiers import composite

    if not _is_ensemble(record):
        return None
    question = record.settings["question"]
    try:
        description = composite.read(Path(question["model"]))
    except ModelError:
        return None
    return description if description.digest.hex == question["model_digest"] else None


def _is_there(record: Run) -> bool:
    """Whether the model is where it was and what it was, though no folder of an ensemble: several denoisers, say."""
    from smoothcert.classifiers import digest

    question = record.settings["question"]
    try:
        return not _is_ensemble(record) and digest(question["model"]).hex == question["model_digest"]
    except ModelError:
        return False


def _is_of(record: Run, member: Member) -> bool:
    """Whether a run is of this member. The hash of a callable is that of its file, so its name counts too."""
    question = record.settings.get("question", {})
    same_name = member.path or ":" not in member.place or question.get("model") == member.place
    return bool(same_name and question.get("model_digest") == member.digest)
