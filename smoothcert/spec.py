"""What a run asks, as one typed value, and how it was carried out: RUN/recipe.toml ↔ Recipe.

The *spec* (model, data, noise, procedure with its sampling, seed) decides what the rows of a run mean: it is hashed,
and a run is never continued under another one. The *means* (batch, engine, threads, versions, command) decide how fast
the rows come: they are recorded and free to change. On disk the spec is the table `question`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from smoothcert import catalog, foreign
from smoothcert.contracts import Noise, Norm, Procedure, Sampling
from smoothcert.data import Subset
from smoothcert.errors import RunError, SmoothcertError

if TYPE_CHECKING:
    from smoothcert.preparation.per_input_sigma import PerInputSigma

FORMAT = 3
MOST_VALUES = 2**40  # of one input: far beyond what anybody certifies, and their number is still exact
LARGEST = 2**20  # bytes of a recipe
HIDDEN = -1  # in the place of a seed that is committed to, and told when the run is complete
# A model or data set may move to another place; its digest says that it is the same.
PLACES = ("model", "data")
SUBSET = tuple(item.name for item in dataclasses.fields(Subset) if item.name != "spec")
PLAIN = ("model", "model_digest", "model_covers", "data_digest", "inputs", "shape")
PARTS = ("noise", "procedure", "sampling", "preparation")


@dataclass(frozen=True)
class Commitment:
    """To a seed that was drawn in secret: its hash is on record before the first draw, so that no seed was chosen."""

    digest: str  # sha256 of question, attempt, seed and nonce
    attempt: int  # at this question, as far as that machine knows; 1: the first
    nonce: str = ""  # told with the seed, when the run is complete

    def opens(self, seed: int, question: str) -> bool:
        """Whether this is what was committed to."""
        return bool(self.nonce) and self.digest == committed(question, self.attempt, seed, self.nonce)


def committed(question: str, attempt: int, seed: int, nonce: str) -> str:
    """The hash that a commitment publishes."""
    return hashlib.sha256(json.dumps([question, attempt, seed, nonce]).encode()).hexdigest()


@dataclass(frozen=True)
class ServedSeed:
    """Of an answer of a service: its seed follows from a secret, which the service committed to when it started.

    Nobody can foresee noise without the secret. Once that is retired and told, anybody can draw again.
    """

    commitment: str  # hash of the secret
    request: str  # its name, which the client may have chosen, and the place of the input in it
    secret: str = ""  # in hexadecimal; told when the service no longer uses it

    def opens(self, seed: int, question: str) -> bool:
        """Whether the secret that is told is the one committed to, and gives this seed."""
        try:
            secret = bytes.fromhex(self.secret)
        except ValueError:
            return False
        return hash_of_secret(secret) == self.commitment and seed == served_seed(secret, self.request, question)


def hash_of_secret(secret: bytes) -> str:
    """What a service publishes of its secret when it starts."""
    return hashlib.sha256(b"smoothcert service\n" + secret).hexdigest()


def served_seed(secret: bytes, request: str, question: str) -> int:
    """The seed of one answer: HMAC-SHA256 over the request's name and all that was asked, 64 bits of it.

    The input is part of the question, and so are n, α and the radius: whoever asks for another number of draws under
    the same name gets other noise, and has learned nothing about it from a cheaper try.
    """
    return int.from_bytes(hmac.digest(secret, f"{request}\n{question}".encode(), "sha256")[:8], "little")


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
    commitment: Commitment | None = None  # where the seed was drawn in secret
    served: ServedSeed | None = None  # where a service answered, and its secret gave the seed

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
    def revealed(self) -> bool:
        """Whether the seed is told, so that draws can be repeated."""
        return self.seed != HIDDEN

    @property
    def hidden(self) -> Spec:
        """As it may be shown before the run is complete: without a seed that is committed to."""
        if self.served is not None:
            return dataclasses.replace(self, seed=HIDDEN, served=dataclasses.replace(self.served, secret=""))
        if self.commitment is None:
            return self
        return dataclasses.replace(self, seed=HIDDEN, commitment=dataclasses.replace(self.commitment, nonce=""))

    def told(self, secret: str) -> Spec:
        """With the seed of a served answer, by the secret that gave it; RunError where it is not that one."""
        if self.served is None:
            raise RunError("a secret must belong to the answer of a service; got one for another certificate")
        served = dataclasses.replace(self.served, secret=secret.strip().lower())
        found = served_seed(_from_hex(served.secret), served.request, self.question)
        if not served.opens(found, self.question):
            raise RunError("the secret must be the one that was committed to; its hash is another")
        return dataclasses.replace(self, seed=found, served=served)

    @property
    def question(self) -> str:
        """A hash of all of it but places and seed."""
        apart = ("seed", "commitment", "served")
        return _hash({key: value for key, value in self._settings().items() if key not in apart})

    @property
    def fingerprint(self) -> str:
        """A hash of all of it but places; a commitment stands for its seed."""
        return _hash(self.hidden._settings())

    def _settings(self) -> dict[str, Any]:
        return {key: value for key, value in self.tables().items() if key not in PLACES}

    def differences(self, other: Spec) -> list[str]:
        """The settings in which two specs differ, in words."""
        mine, theirs = self.tables(), other.tables()
        keys = [key for key in dict.fromkeys([*mine, *theirs]) if key not in PLACES]
        return [f"{key} {mine.get(key)} ≠ {theirs.get(key)}" for key in keys if mine.get(key) != theirs.get(key)]

    def tables(self) -> dict[str, Any]:
        """As plain values for TOML and JSON; what is None is left out."""
        subset = {key: value for key, value in dataclasses.asdict(self.data).items() if key != "spec"}
        parts = {name: part and catalog.describe(part) for name in PARTS if (part := getattr(self, name)) is not None}
        secret, served = (None if one is None else dataclasses.asdict(one) for one in (self.commitment, self.served))
        return _plain({**{key: getattr(self, key) for key in PLAIN}, "seed": self.seed, "data": self.data.spec,
                       **subset, **parts, "commitment": secret, "served": served})  # fmt: skip

    @classmethod
    def parse(cls, tables: Any) -> Spec:
        """From such values; RunError in one line where they are not those of a spec."""
        try:
            table = foreign.typed(dict[str, Any], tables, "question")
            if extra := set(table) - {*PLAIN, *SUBSET, *PARTS, "seed", "data", "commitment", "served"}:
                raise ValueError(f"no setting is called {min(extra)!r}")
            parts = {name: foreign.typed(dict[str, Any], table[name], name) for name in PARTS if name in table}
            if "sampling" in parts:
                parts["procedure"]["sampling"] = catalog.rebuild("sampling", parts["sampling"])
            subset = {"spec": table["data"], **{key: table[key] for key in SUBSET if key in table}}
            found = cls(
                data=foreign.typed(Subset, subset),
                noise=catalog.rebuild("noise", parts["noise"]),
                procedure=catalog.rebuild("procedures", parts["procedure"]),
                preparation=catalog.rebuild("preparation", parts["preparation"]) if "preparation" in parts else None,
                **{key: foreign.typed(kind, table[key], key) for key, kind in _kinds().items() if key in table},
            )
            _check(found)
            return found
        except (SmoothcertError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
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

    batch: int  # 0: on a device, as many rows as measuring finds best
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
    def parse(cls, tables: Any) -> Means:
        """From such values; ValueError or TypeError where they are not those of means."""
        found: Means = foreign.typed(cls, tables, "means")
        return found


@dataclass(frozen=True)
class Recipe:
    """A spec and the means that answered it."""

    spec: Spec
    means: Means

    def tables(self) -> dict[str, Any]:
        return {"format": FORMAT, "question": self.spec.tables(), "means": self.means.tables()}

    def write(self, path: Path) -> None:
        """As TOML, whole or not at all."""
        import tomli_w

        from smoothcert.files import write_whole

        write_whole(path, tomli_w.dumps(self.tables()).encode())

    @classmethod
    def read(cls, path: Path) -> Recipe:
        """From TOML; RunError when it is not one of ours."""
        if not foreign.is_regular(path):
            raise RunError(f"{path.parent} must be the folder of a run; it holds no recipe.toml")
        return cls.parse(
            foreign.parse_toml(foreign.content(path, "recipe", largest=LARGEST), f"recipe '{path}'"), str(path)
        )

    @classmethod
    def parse(cls, tables: Mapping[str, Any], where: str) -> Recipe:
        """From plain values; RunError when they are not ours."""
        if (held := tables.get("format")) != FORMAT:
            raise RunError(f"format of {where} must be {FORMAT}; got {foreign.shown(held)}")
        try:
            if extra := set(tables) - {"format", "question", "means"}:
                raise ValueError(f"no table is called {min(extra)!r}")
            return cls(Spec.parse(tables["question"]), Means.parse(tables["means"]))
        except (RunError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{where} must be the recipe of a run; it cannot be read ({_short(error)})") from error


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


def _kinds() -> dict[str, Any]:
    """The types of the settings that are values and no parts."""
    return {
        "model": str, "model_digest": str, "data_digest": str, "inputs": int, "shape": tuple[int, ...], "seed": int,
        "model_covers": Literal["weights", "source"], "commitment": Commitment, "served": ServedSeed,
    }  # fmt: skip


def _check(spec: Spec) -> None:
    """What types do not say."""
    if not spec.shape or min(spec.shape) < 1 or spec.dim > MOST_VALUES:
        raise ValueError(f"shape {list(spec.shape)}")
    if spec.inputs < 1:
        raise ValueError(f"inputs {spec.inputs}")
    secret = spec.commitment is not None or spec.served is not None
    if not (0 <= spec.seed < 2**64 or (spec.seed == HIDDEN and secret)):
        raise ValueError(f"seed {spec.seed}")
    if spec.commitment is not None and spec.commitment.attempt < 1:
        raise ValueError(f"attempt {spec.commitment.attempt}")
    if spec.noise.fitted(spec.shape) != spec.noise:
        raise ValueError(f"a noise for inputs of shape {list(spec.shape)}")
    for key in ("model_digest", "data_digest"):
        if not re.fullmatch("[0-9a-f]{64}", getattr(spec, key)):
            raise ValueError(f"{key} {foreign.shown(getattr(spec, key))}")


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise RunError("the secret of a service must be in hexadecimal; got something else") from None


def _hash(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as TOML can hold them: there is no null, and a tuple is an array."""
    return {key: list(item) if isinstance(item, tuple) else item for key, item in value.items() if item is not None}


def _short(error: Exception) -> str:
    return " ".join(f"{type(error).__name__ if isinstance(error, KeyError) else ''} {error}".split())[:200]
