"""A model of several networks on disk: a folder with `composite.json`, which loads like a model wherever it lies.

    kind      ensemble; denoised (a classifier behind denoisers); aces, route (networks that procedures compose);
              adapted (one model, and how it is called)
    members   of each its role, where it is (a path from the folder, or a name), its hash and what that covers; in aces
              and route also its noise, which a core has none of
    vote      the part of `ensembles/` that combines members, or several denoisers
    cascade   k_consensus or early_exit around it, where not every member is always asked
    options   theta of aces; output, layout and scale of an adapted model
    order     how the members came into their order
    facts     shape, classes and range of values of the inputs, as far as members' own files say them
    holdout   the inputs that weights or order were fitted on, which must not be certified afterwards

A member that has changed is refused. The hash of the whole is of the function it is: kind, vote, cascade, options, and
the members' roles, hashes and noises, not their places.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from smoothcert import catalog, foreign, zoo
from smoothcert.classifiers.adapted import Adaptation, adapted
from smoothcert.classifiers.composed import Bundle, DenoisedClassifier
from smoothcert.classifiers.digests import Covers, ModelDigest
from smoothcert.contracts import Classifier
from smoothcert.errors import ModelError, OutputError, reason
from smoothcert.files import write_whole, writing

if TYPE_CHECKING:
    from torch import Tensor

FILE = "composite.json"
FORMAT = 1
OLDER = ("ensemble.json", "composition.json", "denoised.json")
CLASSIFIER = "classifier"  # the role behind the denoisers
DEEPEST, MOST = 8, 1000  # composites inside each other, and networks in all: a few files can name 2^1000 of them

Kind = Literal["ensemble", "denoised", "aces", "route", "adapted"]
NETWORK = "network.onnx"  # a network that is kept in the folder itself
Part = Mapping[str, Any]  # {"name": …, option: value, …}

WORDS: dict[Kind, str] = {
    "ensemble": "an ensemble",
    "denoised": "a denoised classifier",
    "aces": "a composition",
    "route": "a composition",
    "adapted": "an adapted model",
}


class Member(NamedTuple):
    """Where a network is, as the folder says it, its hash, and what it is there for."""

    place: str
    digest: str
    path: bool  # whether the place is a path from the folder, or else a name
    covers: Covers = "weights"
    role: str = "member"
    noise: Part | None = None


class MemberFacts(NamedTuple):
    """What `facts` may say."""

    shape: tuple[int, ...] | None = None
    classes: int | None = None
    range: tuple[float, float] | None = None


class FittedOn(NamedTuple):
    """What `holdout` may say; indices and marks are lists in one text each."""

    indices: str
    marks: str
    data: str = ""
    split: str = ""
    digest: str = ""
    noise: Part | None = None
    seed: int = 0
    accuracy: tuple[float, ...] = ()
    ensemble_accuracy: float | None = None
    report: Part | None = None


@dataclass(frozen=True)
class Composite:
    """Everything that composite.json says."""

    kind: Kind
    members: tuple[Member, ...]
    vote: Part | None = None
    cascade: Part | None = None
    options: Part = field(default_factory=dict)
    order: str = "as given"
    facts: Mapping[str, Any] = field(default_factory=dict)
    holdout: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """TypeError or ValueError where something is not of its type, or members cannot be those of this kind."""
        foreign.typed(Kind, self.kind, "kind")
        foreign.typed(MemberFacts, dict(self.facts), "facts")
        last = [member.role == CLASSIFIER for member in self.members]
        if self.kind == "denoised" and not (last == [False] * (len(last) - 1) + [True] and len(last) > 1):
            raise ValueError("denoisers must come first, and one classifier last")
        if self.kind == "denoised" and (self.vote is None) != (len(last) == 2):
            raise ValueError(f"{len(last) - 1} denoisers and vote {self.vote}")
        if self.kind == "adapted":
            foreign.typed(Adaptation, dict(self.options), "options")
            if len(self.members) != 1:
                raise ValueError(f"one model must be adapted; got {len(self.members)}")
        if self.holdout is not None:
            fitted = foreign.typed(FittedOn, dict(self.holdout), "holdout")
            if len([int(index) for index in fitted.indices.split()]) != len(fitted.marks.split()):
                raise ValueError("indices and marks of holdout differ in number")

    @property
    def digest(self) -> ModelDigest:
        """A hash of the function it is; where its members lie and how they were chosen is no part of that."""
        members = [[member.role, member.digest, member.noise] for member in self.members]
        what = [self.kind, members, self.vote, self.cascade, self.options]
        covers: Covers = "source" if any(member.covers == "source" for member in self.members) else "weights"
        return ModelDigest(hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest(), covers)


def is_composite(path: Path) -> bool:
    """Whether this is the folder of one."""
    return foreign.is_regular(path / FILE)


def kind_of(path: Path) -> Kind | None:
    """Of which kind the composite in this folder is; None where there is none that can be read."""
    try:
        return read(path).kind
    except ModelError:
        return None


def read(folder: Path, *kinds: Kind) -> Composite:
    """What the folder says; ModelError when it is damaged, or of none of these kinds."""
    path = folder / FILE
    if not foreign.is_regular(path):
        older = (name for name in OLDER if foreign.is_there(folder / name))
        held = next((f"; it holds {name}, of an older version" for name in older), "")
        raise ModelError(f"'{folder}' must be the folder of a composition, with {FILE}{held or '; it holds none'}")
    table = foreign.parse_json(foreign.content(path, "description", ModelError), f"'{path}'", ModelError)
    try:
        if not isinstance(table, dict) or table.pop("format", None) != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        found: Composite = foreign.typed(Composite, table)
    except (ValueError, TypeError) as error:
        raise ModelError(f"'{path}' must describe a model of several networks; it cannot be read ({error})") from error
    if kinds and found.kind not in kinds:
        raise ModelError(f"'{folder}' must be a composition of kind {' or '.join(kinds)}; got {found.kind}")
    return found


def write(folder: Path, composite: Composite) -> None:
    """Write composite.json, whole or not at all, into a new folder or over an earlier one of its kind."""
    refuse_strangers(folder, composite.kind)
    replaced = read(folder).digest if is_composite(folder) else composite.digest
    if composite.kind in ("aces", "route", "adapted") and replaced != composite.digest:
        raise OutputError(f"{folder} must be a new folder or this composition; got another composition")
    table = {"format": FORMAT, **asdict(composite), "members": [member._asdict() for member in composite.members]}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / FILE, json.dumps(table, indent=2, allow_nan=False).encode() + b"\n")


def refuse_strangers(folder: Path, kind: Kind) -> None:
    """A folder that holds something else is not written into."""
    own = (FILE, NETWORK) if kind == "adapted" else (FILE,)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"out of {WORDS[kind]} must be a folder; got the file '{folder}'")
    others = [path.name for path in folder.iterdir() if path.name not in own] if folder.is_dir() else []
    if not others and is_composite(folder) and (found := read(folder).kind) != kind:
        others = [WORDS[found]]
    if others:
        raise OutputError(
            f"out of {WORDS[kind]} must be a new folder or {WORDS[kind]}; got '{folder}' with {others[0]}"
        )


def described(folder: Path, spec: str, role: str = "member", noise: Part | None = None) -> Member:
    """A loaded model as a member of the composite in a folder."""
    from smoothcert.classifiers import digest

    found = digest(spec)
    path = Path(spec).exists()
    place = os.path.relpath(Path(spec).resolve(), folder.resolve()) if path else spec
    return Member(place, found.hex, path, found.covers, role, noise)


def located(folder: Path, member: Member) -> str:
    """The member's name, or its path from here."""
    return os.path.normpath(folder.resolve() / member.place) if member.path else member.place


def load(folder: Path) -> Classifier:
    """The classifier, or the networks of a composition, if its members are still what they were."""
    _refuse_endless(folder)
    composite = read(folder)
    return _built(folder, composite, [_loaded(folder, member) for member in composite.members])


def _refuse_endless(folder: Path) -> None:
    """Refuse what would take too long to load: composites that name each other, in a circle or ever more often."""
    waiting, networks = [(folder, 1)], 0
    while waiting:
        place, depth = waiting.pop()
        for member in read(place).members:
            networks += 1
            inner = Path(located(place, member))
            if member.path and is_composite(inner):
                waiting.append((inner, depth + 1))
        if depth > DEEPEST or networks > MOST:
            raise ModelError(
                f"'{folder}' must hold at most {MOST} networks, {DEEPEST} composites deep; got more, or it holds itself"
            )


def outline(folder: Path) -> Bundle:
    """A composition without its networks, to replay what they once answered."""
    composite = read(folder, "aces", "route")
    built = _built(folder, composite, [_absent] * len(composite.members))
    if not isinstance(built, Bundle):
        raise ModelError(f"'{folder}' must be a composition of kind aces or route; got one classifier")
    return built


def bundle(folder: Path, kind: Kind) -> tuple[Composite, Bundle]:
    """A composition that must be of this kind: what its folder says, and its networks."""
    composite, networks = read(folder, kind), load(folder)
    if not isinstance(networks, Bundle):
        raise ModelError(f"'{folder}' must be a composition of kind {kind}; got one classifier")
    return composite, networks


def compose(members: Sequence[Classifier], vote: Part, cascade: Part | None) -> Classifier:
    """The ensemble that these parts make."""
    inner: Classifier = _part("ensembles", vote, members=tuple(members))
    return inner if cascade is None else _part("ensembles", cascade, vote=inner)


def called(model: Classifier, composite: Composite) -> Classifier:
    """A model, called as the description of an adapted one says."""
    return adapted(model, foreign.typed(Adaptation, dict(composite.options), "options"))


def facts(specs: Sequence[str]) -> dict[str, Any]:
    """Shape, classes and range that members' own files say; ModelError where two of them differ."""
    found: dict[str, tuple[Any, str]] = {}
    for spec in specs:
        for name, value in _facts(zoo.located(spec)).items():
            known, whose = found.setdefault(name, (value, spec))
            if value != known:
                one, other = ("0 to 1" if said is None else str(said) for said in (known, value))
                raise ModelError(f"{name} of members must be the same; got {one} in {whose} and {other} in {spec}")
    return {name: value for name, (value, _) in found.items()}


def _facts(path: Path) -> dict[str, Any]:
    from smoothcert.training.checkpoints import CONFIG, read_config

    if is_composite(path):
        return dict(read(path).facts)
    if not foreign.is_regular(path / CONFIG):
        return {}
    config = read_config(path)
    return {
        "shape": list(config["shape"]),
        "classes": config["classes"],
        "range": config["settings"].get("value_range"),
    }


def _loaded(folder: Path, member: Member) -> Classifier:
    """A member, if it is still what it was."""
    from smoothcert.classifiers import digest
    from smoothcert.classifiers import load as load_model

    spec = located(folder, member)
    if member.path and not foreign.is_there(Path(spec)):
        raise ModelError(f"member {spec} of '{folder}' must exist; got no such file or folder")
    # A path's hash comes first: a folder that contains itself would never end. That of a callable needs it imported.
    loaded = None if member.path else load_model(spec, f"'{folder}'")
    if digest(spec) != ModelDigest(member.digest, member.covers):
        raise ModelError(f"member {spec} of '{folder}' must be what it was when that folder was made; its hash differs")
    return load_model(spec, f"'{folder}'") if loaded is None else loaded


def _built(folder: Path, composite: Composite, members: Sequence[Classifier]) -> Classifier:
    """What composite.json makes of its members."""
    try:
        if composite.kind in ("aces", "route"):
            return _bundle(composite, members)
        if composite.kind == "adapted":
            return called(members[0], composite)
        if composite.kind == "denoised":
            *denoisers, classifier = members
            members = [DenoisedClassifier(denoiser, classifier) for denoiser in denoisers]
            if composite.vote is None:
                return members[0]
        return compose(members, composite.vote or {}, composite.cascade)
    except Exception as error:  # parts say in many ways that settings are not theirs
        raise ModelError(f"'{folder / FILE}' must describe {WORDS[composite.kind]}: {reason(error)}") from error


def _bundle(composite: Composite, members: Sequence[Classifier]) -> Bundle:
    noises = tuple(None if member.noise is None else _part("noise", member.noise) for member in composite.members)
    return Bundle(tuple(member.role for member in composite.members), tuple(members), noises)


def _part(folder: str, part: Part, **more: Any) -> Any:
    """A part from its settings."""
    if "name" not in part:
        raise ModelError(f"a {'vote' if folder == 'ensembles' else folder} must have a name; got none")
    options = {key: value for key, value in part.items() if key != "name"}
    return catalog.build(folder, str(part["name"]), {**options, **more})


def _absent(x: Tensor) -> Tensor:
    raise ModelError("a replay must not ask the network")
