"""An ensemble on disk: a folder with `ensemble.json`, which loads like a model anywhere.

    members   where each is (a path from the folder, or a name), and the hash of what it was
    vote      the part of `ensembles/` that combines them, with its options
    asking    k_consensus or early_exit around it, where not all members are always asked
    order     how the members came into their order
    facts     shape, classes and range of values of the inputs, as far as members' own files say them
    holdout   the inputs that weights or order were fitted on, which must not be certified afterwards

A member that has changed is refused. The ensemble's own hash is of vote, asking and the members' hashes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from smoothcert import catalog, zoo
from smoothcert.classifiers.digests import Covers, ModelDigest
from smoothcert.contracts import Classifier
from smoothcert.errors import ModelError, OutputError, SmoothcertError
from smoothcert.files import write_whole, writing

FILE = "ensemble.json"
FORMAT = 1

Part = Mapping[str, Any]  # {"name": …, option: value, …}


class Member(NamedTuple):
    """Where a member is, as the folder says it, and its hash."""

    place: str
    digest: str
    path: bool  # whether the place is a path from the folder, or else a name
    covers: Covers = "weights"  # what the hash covers


@dataclass(frozen=True)
class Description:
    """Everything that ensemble.json says."""

    members: tuple[Member, ...]
    vote: Part
    asking: Part | None = None
    order: str = "as given"
    facts: Mapping[str, Any] = field(default_factory=dict)
    holdout: Mapping[str, Any] | None = None

    @property
    def digest(self) -> ModelDigest:
        """A hash of the function it is; where its members lie and how they were chosen is no part of that."""
        what = {"members": [member.digest for member in self.members], "vote": self.vote, "asking": self.asking}
        return combined(what, self.members)


def is_ensemble(path: Path) -> bool:
    """Whether this is the folder of one."""
    return (path / FILE).is_file()


def compose(members: Sequence[Classifier], vote: Part, asking: Part | None) -> Classifier:
    """The classifier that these parts make."""
    options = {key: value for key, value in vote.items() if key != "name"}
    inner: Classifier = catalog.build("ensembles", vote["name"], {**options, "members": tuple(members)})
    if asking is None:
        return inner
    options = {key: value for key, value in asking.items() if key != "name"}
    outer: Classifier = catalog.build("ensembles", asking["name"], {**options, "vote": inner})
    return outer


def read(folder: Path) -> Description:
    """What the folder says; ModelError when it is damaged."""
    path = folder / FILE
    try:
        table = json.loads(path.read_bytes())
        if table["format"] != FORMAT:
            raise ModelError(f"format of '{path}' must be {FORMAT}; got {table['format']}")
        members = tuple(member_of(m) for m in table["members"])
        rest = {key: table.get(key) for key in ("asking", "holdout")}
        if (used := rest["holdout"]) and len(used["indices"].split()) != len(used["marks"].split()):
            raise ValueError("indices and marks of holdout differ in number")
        return Description(members, table["vote"], order=table["order"], facts=table["facts"], **rest)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"'{path}' must be the description of an ensemble; it cannot be read ({error})") from error


def member_of(table: Mapping[str, Any]) -> Member:
    """A member as a file says it."""
    covers: Covers = "source" if table.get("covers") == "source" else "weights"
    return Member(str(table["place"]), str(table["digest"]), bool(table["path"]), covers)


def combined(what: Any, members: Sequence[Member]) -> ModelDigest:
    """The digest of a model of several, from all that decides what it is."""
    covers: Covers = "source" if any(member.covers == "source" for member in members) else "weights"
    return ModelDigest(hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest(), covers)


def load(folder: Path) -> Classifier:
    """The ensemble, if its members are still what they were."""
    description = read(folder)
    members = [load_member(folder, member) for member in description.members]
    try:
        return compose(members, description.vote, description.asking)
    except SmoothcertError as error:
        raise ModelError(f"'{folder / FILE}' must describe an ensemble: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"'{folder / FILE}' must describe an ensemble; it cannot be read ({error})") from error


def load_member(folder: Path, member: Member) -> Classifier:
    """A member of what is in a folder, if it is still what it was."""
    from smoothcert.classifiers import digest
    from smoothcert.classifiers import load as load_model

    spec = located(folder, member)
    if member.path and not Path(spec).exists():
        raise ModelError(f"member {spec} of '{folder}' must exist; got no such file or folder")
    if member.path:  # before it is loaded: a folder that contains itself would never end
        _refuse_changed(folder, member, digest(spec).hex)
    loaded = load_model(spec)
    if not member.path:
        _refuse_changed(folder, member, digest(spec).hex)
    return loaded


def located(folder: Path, member: Member) -> str:
    """The member's name, or its path from here."""
    return os.path.normpath(folder.resolve() / member.place) if member.path else member.place


def described(folder: Path, spec: str) -> Member:
    """A loaded model as a member of the ensemble in a folder."""
    from smoothcert.classifiers import digest

    if not Path(spec).exists():
        return Member(spec, digest(spec).hex, False, digest(spec).covers)
    return Member(os.path.relpath(Path(spec).resolve(), folder.resolve()), digest(spec).hex, True, digest(spec).covers)


def write(folder: Path, description: Description) -> None:
    """Write ensemble.json, whole or not at all, into a new folder or over an earlier ensemble."""
    refuse_strangers(folder)
    table = {**asdict(description), "members": [member._asdict() for member in description.members]}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / FILE, json.dumps({"format": FORMAT, **table}, indent=2, allow_nan=False).encode() + b"\n")


def refuse_strangers(folder: Path) -> None:
    """A folder that holds something else is not written into."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"out of an ensemble must be a folder; got the file '{folder}'")
    others = [path.name for path in folder.iterdir() if path.name != FILE] if folder.is_dir() else []
    if others:
        raise OutputError(f"out of an ensemble must be a new folder or an ensemble; got '{folder}' with {others[0]}")


def facts(specs: Sequence[str]) -> dict[str, Any]:
    """Shape, classes and range that members' own files say; ModelError where two of them differ."""
    found: dict[str, tuple[Any, str]] = {}
    for spec in specs:
        for name, value in _facts(zoo.located(spec)).items():
            known, whose = found.setdefault(name, (value, spec))
            if value != known:
                raise ModelError(
                    f"{name} of members must be the same; got {_words(known)} in {whose} and {_words(value)} in {spec}"
                )
    return {name: value for name, (value, _) in found.items()}


def _facts(path: Path) -> dict[str, Any]:
    from smoothcert.training.checkpoints import CONFIG, read_config

    if is_ensemble(path):
        return dict(read(path).facts)
    if not (path / CONFIG).is_file():
        return {}
    config = read_config(path)
    value_range = config.get("settings", {}).get("value_range")
    return {"shape": list(config["shape"]), "classes": config["classes"], "range": value_range}


def _words(value: Any) -> str:
    return "0 to 1" if value is None else str(value)


def _refuse_changed(folder: Path, member: Member, found: str) -> None:
    if found != member.digest:
        raise ModelError(
            f"member {located(folder, member)} of '{folder}' must be what it was when that folder was made; "
            "its hash differs"
        )
