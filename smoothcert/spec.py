"""What a run asks, as one typed value, and how it was carried out: RUN/recipe.toml ↔ Recipe.

The *spec* (model, data, noise, procedure with its sampling, seed) decides what the rows of a run mean: it is hashed,
and a run is never continued under another one. The *means* (batch, engine, threads, versions, command) decide how fast
the rows come: they are recorded and free to change. On disk the spec is the table `question`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from smoothcert import catalog
from smoothcert.contracts import Noise, Norm, Procedure, Sampling
from smoothcert.data import Subset
from smoothcert.errors import RunError, SmoothcertError

if TYPE_CHECKING:
    from smoothcert.preparation.per_input_sigma import PerInputSigma

FORMAT = 2
# A model or data set may move to another place; its digest says that it is the same.
PLACES = ("model", "data")
SUBSET = tuple(item.name for item in dataclasses.fields(Subset) if item.name != "spec")
PLAIN: dict[str, type] = {
    "model": str, "model_digest": str, "model_covers": str, "data": str, "data_digest": str, "inputs": int, "seed": int,
}  # fmt: skip
PARTS = ("noise", "procedure", "sampling", "preparation")


@dataclass(frozen=True)
class Spec:
    """Everything that decides what is proven, and of what."""

    model: str
    model_digest: str
    data: Subset
    data_digest: str
    inputs: int
    shape: tuple[int, ...]  # of one input
    noise: Noise
    procedure: Procedure  # with its sampling inside, where it has one
    seed: int = 0
    preparation: PerInputSigma | None = None  # what chooses each input's own noise before its draws
    model_covers: Literal["weights", "source"] = "weights"  # what the model's digest was taken of

    @property
    def sampling(self) -> Sampling | None:
        """How many draws, and what they prove; None for a procedure that does its own counting."""
        return self.procedure.sampling

    @property
    def alpha(self) -> float:
        """The probability that one answer is wrong; 0 where every case of the noise is counted."""
        return self.procedure.alpha

    @property
    def norm(self) -> Norm:
        return self.noise.norm

    @property
    def sigma(self) -> float | None:
        """The noise level; None for a noise that has none."""
        return getattr(self.noise, "sigma", None)

    @property
    def dim(self) -> int:
        """Coordinates of an input."""
        return math.prod(self.shape)

    @property
    def radii(self) -> tuple[float, ...] | None:
        """The radii asked about, rising; None where the largest one was looked for."""
        return None if self.sampling is None else self.sampling.radii

    @property
    def kind(self) -> Literal["certify", "predict", "select"]:
        return self.procedure.kind

    @property
    def uncovered(self) -> str:
        """What the model's hash does not cover, in a sentence; empty where it covers all that decides the scores."""
        if self.model_covers == "weights":
            return ""
        return f"only the source of {self.model} could be hashed: weights it loads from elsewhere are not covered"

    @property
    def fingerprint(self) -> str:
        """A hash of all of it but places."""
        settings = {key: value for key, value in self.tables().items() if key not in PLACES}
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    def differences(self, other: Spec) -> list[str]:
        """The settings in which two specs differ, in words."""
        mine, theirs = self.tables(), other.tables()
        keys = [key for key in dict.fromkeys([*mine, *theirs]) if key not in PLACES]
        return [f"{key} {mine.get(key)} ≠ {theirs.get(key)}" for key in keys if mine.get(key) != theirs.get(key)]

    def tables(self) -> dict[str, Any]:
        """As plain values for TOML and JSON; what is None is left out."""
        subset = {key: value for key, value in dataclasses.asdict(self.data).items() if key != "spec"}
        parts = {name: part and catalog.describe(part) for name in PARTS if (part := getattr(self, name)) is not None}
        return _plain({**{key: getattr(self, key) for key in PLAIN}, "data": self.data.spec, **subset,
                       "shape": self.shape, **parts})  # fmt: skip

    @classmethod
    def parse(cls, tables: Mapping[str, Any]) -> Spec:
        """From such values; RunError in one line where they are not those of a spec."""
        try:
            _check(tables)
            parts = {name: dict(tables[name]) for name in PARTS if name in tables}
            if "sampling" in parts:
                parts["procedure"]["sampling"] = catalog.rebuild("sampling", parts["sampling"])
            return cls(
                **{key: tables[key] for key in PLAIN if key != "data"},
                data=Subset(tables["data"], **{key: tables[key] for key in SUBSET if key in tables}),
                shape=tuple(tables["shape"]),
                noise=catalog.rebuild("noise", parts["noise"]),
                procedure=catalog.rebuild("procedures", parts["procedure"]),
                preparation=catalog.rebuild("preparation", parts["preparation"]) if "preparation" in parts else None,
            )
        except (SmoothcertError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise RunError(f"the question of a run must be whole; got one that is not ({_short(error)})") from error


@dataclass(frozen=True)
class MemberCalls:
    """Of an ensemble: its members, rows it was given, members asked about them, rows that did not need all of them."""

    members: int
    rows: int
    asked: int
    early: int


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
    member_calls: MemberCalls | None = None
    started: str | None = None  # when the run was first begun

    def tables(self) -> dict[str, Any]:
        return _plain(dataclasses.asdict(self))

    @classmethod
    def parse(cls, tables: Mapping[str, Any]) -> Means:
        calls = tables.get("member_calls")
        more = {
            "notes": tuple(tables.get("notes", ())),
            "member_calls": None if calls is None else MemberCalls(**calls),
        }
        return cls(**{**tables, **more})


@dataclass(frozen=True)
class Recipe:
    """A spec and the means that answered it."""

    spec: Spec
    means: Means

    def write(self, path: Path) -> None:
        """As TOML, whole or not at all."""
        import tomli_w

        from smoothcert.files import write_whole

        tables = {"format": FORMAT, "question": self.spec.tables(), "means": self.means.tables()}
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
            return cls(Spec.parse(tables["question"]), Means.parse(tables["means"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{path} must be the recipe of a run; it cannot be read ({error})") from error


def procedure_name(procedure: Any) -> str:
    """The name of a procedure's file, as recipes have it."""
    return catalog.name_of(procedure)


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


def _check(tables: Mapping[str, Any]) -> None:
    """Every value is of its kind, and there is nothing else."""
    for key, kind in PLAIN.items():
        if type(tables[key]) is not kind:
            raise TypeError(f"{key} {tables[key]!r}")
    if tables["model_covers"] not in ("weights", "source"):
        raise ValueError(f"model_covers {tables['model_covers']!r}")
    if not all(type(size) is int and size > 0 for size in tables["shape"]):
        raise ValueError(f"shape {tables['shape']!r}")
    if extra := set(tables) - {*PLAIN, *SUBSET, *PARTS, "shape"}:
        raise ValueError(f"no setting is called {min(extra)!r}")


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as TOML can hold them: there is no null, and a tuple is an array."""
    return {key: list(item) if isinstance(item, tuple) else item for key, item in value.items() if item is not None}


def _short(error: Exception) -> str:
    return " ".join(f"{type(error).__name__ if isinstance(error, KeyError) else ''} {error}".split())[:200]
