"""A run's settings: TOML ↔ dataclasses ↔ built parts.

The *question* (model, data, noise, procedure, sampling, seed) decides what the rows of a run mean: it is hashed, and a
run is never continued under another one. The *means* (batch, engine, threads, versions, command) decide how fast they
come: they are recorded and free to change.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smoothcert import catalog
from smoothcert.errors import RunError, SmoothcertError

FORMAT = 1
# A model or data set may move to another place; its digest says that it is the same.
PLACES = ("model", "data")

Part = Mapping[str, Any]  # {"name": …, option: value, …}


@dataclass(frozen=True)
class Question:
    """Everything that decides what is proven, and of what."""

    model: str
    model_digest: str
    data: str
    split: str
    skip: int
    max: int
    data_digest: str
    inputs: int
    noise: Part
    procedure: Part
    seed: int = 0
    sampling: Part | None = None  # none for a procedure that does its own counting
    value_range: tuple[float, float] | None = None
    image_size: int | None = None
    start: int = 0  # the first index
    preparation: Part | None = None  # what chooses each input's own noise before its draws

    @property
    def fingerprint(self) -> str:
        """A hash of the question; places are left out."""
        settings = {key: value for key, value in dataclasses.asdict(self).items() if key not in PLACES}
        for later, default in (("start", 0), ("preparation", None)):
            if settings[later] == default:
                del settings[later]  # runs from before there was such a setting keep their hash
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    def differences(self, other: Question) -> list[str]:
        """The settings in which two questions differ, in words."""
        mine, theirs = dataclasses.asdict(self), dataclasses.asdict(other)
        return [f"{key} {mine[key]} ≠ {theirs[key]}" for key in mine if key not in PLACES and mine[key] != theirs[key]]


@dataclass(frozen=True)
class Means:
    """How the draws were carried out; free to change when a run is continued."""

    batch: int
    engine: str
    command: str
    threads: int | None = None
    workers: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    # Of an ensemble: its members, rows it was given, members asked about them, rows that did not need all of them.
    asked: Mapping[str, int] | None = None
    started: str | None = None  # when the run was first begun; not told by older ones


@dataclass(frozen=True)
class Recipe:
    """A question and the means that answered it."""

    question: Question
    means: Means

    def write(self, path: Path) -> None:
        """As TOML, whole or not at all."""
        import tomli_w

        from smoothcert.files import write_whole

        tables = {"format": FORMAT, "question": _plain(self.question), "means": _plain(self.means)}
        write_whole(path, tomli_w.dumps(tables).encode())

    @classmethod
    def read(cls, path: Path) -> Recipe:
        """From TOML; RunError when it is not one of ours."""
        if not path.is_file():
            raise RunError(f"{path.parent} must be the folder of a run; it holds no recipe.toml")
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
            if tables.get("format") != FORMAT:
                raise RunError(f"format of {path} must be {FORMAT}; got {tables.get('format')}")
            question, means = tables["question"], tables["means"]
            if "value_range" in question:
                question["value_range"] = tuple(question["value_range"])
            means["notes"] = tuple(means.get("notes", ()))
            return cls(Question(**question), Means(**means))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{path} must be the recipe of a run; it cannot be read ({error})") from error


def describe(part: Any) -> dict[str, Any]:
    """A part as settings: the name of its file, and its fields that are values."""
    options = {
        catalog.stored_name(item): value
        for item in dataclasses.fields(part)
        if not dataclasses.is_dataclass(value := getattr(part, item.name)) and value is not None
    }
    return {"name": type(part).__module__.rsplit(".", 1)[-1], **options}


def build(folder: str, part: Part) -> Any:
    """A part from its settings."""
    options = {key: value for key, value in part.items() if key != "name"}
    return catalog.build(folder, str(part["name"]), options)


def build_procedure(question: Question) -> Any:
    """The question's procedure, with its sampling inside where it has one."""
    try:
        settings = dict(question.procedure)
        if question.sampling is not None:
            settings["sampling"] = build("sampling", question.sampling)
        return build("procedures", settings)
    except KeyError as error:
        raise SmoothcertError(f"a part of a recipe must have a name; got {question.procedure}") from error


def now() -> str:
    """This moment, as a recipe tells it."""
    import datetime

    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Versions of what decides a score's last bits, and of the machine."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    for package in ("smoothcert", "torch", "numpy", "scipy", "onnxruntime"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _plain(value: Any) -> dict[str, Any]:
    """Fields as TOML can hold them: there is no null, and a tuple is an array."""
    return {
        key: list(item) if isinstance(item, tuple) else item
        for key, item in dataclasses.asdict(value).items()
        if item is not None
    }
