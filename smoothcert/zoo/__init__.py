"""Small networks that we trained: a name of the zoo is a model wherever a command takes one.

A network is a checkpoint folder beside this file, without what training would need to go on. `zoo.toml` says of each
how it is made again, what it reaches, by which command that was measured, and the checksums of its files. Nobody
types that: `zoo/add.py` of the repository writes it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert import foreign
from smoothcert.errors import ModelError

FOLDER = Path(__file__).parent
TABLE = "zoo.toml"


@dataclass(frozen=True)
class CertifiedFigures:
    """What a certification found; the figures speak about these inputs, this n and this alpha."""

    command: str
    data: str
    split: str
    skip: int
    inputs: int
    n0: int
    n: int
    alpha: float
    seed: int
    acr: float
    acr_interval: tuple[float, float]  # at 95 %, for inputs drawn like these
    certified_accuracy: Mapping[str, float]  # by radius
    norm: str = "l2"  # of these radii


@dataclass(frozen=True)
class Network:
    """One network of the zoo."""

    name: str
    about: str
    command: str  # makes it again
    sha256: Mapping[str, str]  # by file
    measured: CertifiedFigures | None = None  # None between training and certification

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(len(self._content(file)) for file in self.sha256)

    @property
    def config(self) -> dict[str, Any]:
        """What its checkpoint says about itself."""
        whose = f"config of '{self.name}'"
        config: dict[str, Any] = foreign.parse_json(self._content("config.json"), whose, ModelError)
        return config

    def verify(self) -> None:
        """Refuse files that are not those that were measured."""
        for file in self.sha256:
            self._content(file)

    def _content(self, file: str) -> bytes:
        content = foreign.content(self.folder / file, f"{file} of '{self.name}' in the zoo,", ModelError)
        got, expected = hashlib.sha256(content).hexdigest(), self.sha256[file]
        if got != expected:
            raise ModelError(
                f"{file} of '{self.name}' in the zoo must have sha256 {expected[:12]}…; got {got[:12]}… in "
                f"{self.folder} (it was changed: install smoothcert again)"
            )
        return content


def networks() -> dict[str, Network]:
    """Every network of the zoo, by name."""
    path = FOLDER / TABLE
    held = foreign.content(path, "the table of the zoo,", ModelError)
    tables = foreign.parse_toml(held, f"the table of the zoo {path}", ModelError)
    try:
        return {name: foreign.typed(Network, {"name": name, **tables[name]}, name) for name in sorted(tables)}
    except (ValueError, TypeError) as error:
        raise ModelError(f"{path} must be the table of the zoo; it cannot be read ({error})") from error


def located(spec: str | Path) -> Path:
    """The path that a model's name stands for: one that is there as it is, else the verified folder of the zoo."""
    path = Path(spec)
    if foreign.is_there(path) or (network := networks().get(str(spec))) is None:
        return path
    network.verify()
    return network.folder


def hint(spec: str | Path) -> str:
    """For a name that is nowhere: the one of the zoo that may have been meant, or nothing."""
    import difflib

    near = difflib.get_close_matches(str(spec), networks(), n=1)
    return f" (did you mean '{near[0]}' of the zoo?)" if near else ""
