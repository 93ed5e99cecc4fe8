"""Networks that belong together without being one classifier: those of a composition (ACES, routing).

On disk it is a folder with `composition.json`, which loads like a model where a composition is asked for:

    procedure   what composes them, with its options: aces and its threshold, or route
    members     role, place and hash of each network, and its noise; a core has none

A network that has changed is refused. The hash of a composition is of everything but the places.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from smoothcert import catalog
from smoothcert.classifiers import ensemble
from smoothcert.classifiers.digests import ModelDigest
from smoothcert.contracts import Classifier, Noise
from smoothcert.errors import ModelError, OutputError, SmoothcertError
from smoothcert.files import write_whole, writing

if TYPE_CHECKING:
    from torch import Tensor

FILE = "composition.json"
FORMAT = 1

Part = Mapping[str, Any]  # {"name": …, option: value, …}


@dataclass(frozen=True, eq=False)
class Bundle:
    """The networks of a composition by their roles, the one that answers with classes first."""

    roles: tuple[str, ...]
    members: tuple[Classifier, ...]
    noises: tuple[Noise | None, ...]

    @property
    def base(self) -> Classifier:
        """The network that stands for the composition where one is asked about a clean input."""
        return self.members[0]

    def prepared(self, members: tuple[Classifier, ...], probe: Tensor) -> Bundle:
        return replace(self, members=members)

    def __call__(self, x: Tensor) -> Tensor:
        names = ", ".join(self.roles)
        raise ModelError(
            f"the model must be one network here; got a composition ({names}): see smoothcert aces and route"
        )


class Member(NamedTuple):
    """One network of a composition, as its folder says it."""

    role: str
    place: ensemble.Member
    noise: Part | None


@dataclass(frozen=True)
class Description:
    """Everything that composition.json says."""

    procedure: Part
    members: tuple[Member, ...]

    @property
    def digest(self) -> ModelDigest:
        """A hash of the function it is."""
        members = [[member.role, member.place.digest, member.noise] for member in self.members]
        what = {"procedure": self.procedure, "members": members}
        return ensemble.combined(what, [member.place for member in self.members])


def is_bundle(path: Path) -> bool:
    """Whether this is the folder of a composition."""
    return (path / FILE).is_file()


def described(folder: Path, procedure: Part, members: Sequence[tuple[str, str, Part | None]]) -> Description:
    """A composition of models given by role, name or path, and noise, for the folder it will be written to."""
    found = tuple(Member(role, ensemble.described(folder, spec), noise) for role, spec, noise in members)
    return Description(procedure, found)


def write(folder: Path, description: Description) -> None:
    """Write composition.json, whole or not at all; another composition in the same place is not overwritten."""
    if is_bundle(folder) and read(folder).digest != description.digest:
        raise OutputError(f"{folder} must be a new folder or this composition; got another composition")
    table = {
        "format": FORMAT,
        "procedure": description.procedure,
        "members": [
            {"role": member.role, **member.place._asdict(), "noise": member.noise} for member in description.members
        ],
    }
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / FILE, json.dumps(table, indent=2, allow_nan=False).encode() + b"\n")


def read(folder: Path) -> Description:
    """What the folder says; ModelError when it is damaged."""
    path = folder / FILE
    try:
        table = json.loads(path.read_bytes())
        if table["format"] != FORMAT:
            raise ModelError(f"format of '{path}' must be {FORMAT}; got {table['format']}")
        members = tuple(Member(str(m["role"]), ensemble.member_of(m), m.get("noise")) for m in table["members"])
        return Description({**table["procedure"]}, members)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"'{path}' must be the description of a composition; it cannot be read ({error})") from error


def load(folder: Path) -> Bundle:
    """The networks, if they are still what they were."""
    description = read(folder)
    members = tuple(ensemble.load_member(folder, member.place) for member in description.members)
    return _bundle(folder, description, members)


def load_kind(folder: Path, kind: str) -> tuple[Part, Bundle]:
    """The procedure and the networks of a composition that must be of this kind."""
    if not is_bundle(folder):
        raise ModelError(f"'{folder}' must be the folder of a composition; it holds no {FILE}")
    procedure = read(folder).procedure
    if procedure.get("name") != kind:
        raise ModelError(f"'{folder}' must be a composition of kind {kind}; got {procedure.get('name')}")
    return procedure, load(folder)


def located(folder: Path, member: Member) -> str:
    """A network's name, or its path from here."""
    return ensemble.located(folder, member.place)


def outline(folder: Path) -> Bundle:
    """The composition without its networks, to replay what they once answered."""
    description = read(folder)
    return _bundle(folder, description, tuple(_absent for _ in description.members))


def _bundle(folder: Path, description: Description, members: tuple[Classifier, ...]) -> Bundle:
    try:
        noises = tuple(None if member.noise is None else build_noise(member.noise) for member in description.members)
    except (SmoothcertError, KeyError, TypeError) as error:
        raise ModelError(f"'{folder / FILE}' must describe noises; got {error}") from error
    return Bundle(tuple(member.role for member in description.members), members, noises)


def build_noise(part: Part) -> Noise:
    """A noise from its settings."""
    noise: Noise = catalog.build("noise", str(part["name"]), {key: part[key] for key in part if key != "name"})
    return noise


def _absent(x: Tensor) -> Tensor:
    raise ModelError("a replay must not ask the network")
