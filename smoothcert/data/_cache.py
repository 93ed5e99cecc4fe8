"""The verified cache of downloaded data sets: a folder for each, put in place whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from smoothcert.errors import DataError
from smoothcert.files import write_whole, writing


def root() -> Path:
    """Where data sets are kept: SMOOTHCERT_DATA, else ~/.cache/smoothcert/data."""
    moved = os.environ.get("SMOOTHCERT_DATA")
    return Path(moved).expanduser() if moved else Path.home() / ".cache" / "smoothcert" / "data"


def sound(folder: Path, checksums: Mapping[str, str]) -> bool:
    """Whether every file is there with the bytes it must have."""
    try:
        return all(_hash((folder / name).read_bytes()) == checksum for name, checksum in checksums.items())
    except OSError:
        return False


def content(folder: Path, name: str) -> bytes:
    """A cached file's bytes as they are."""
    data_set = folder.name
    try:
        return (folder / name).read_bytes()
    except FileNotFoundError as error:
        raise DataError(f"{data_set} is not cached in '{folder}'; run: smoothcert data get {data_set}") from error
    except OSError as error:
        raise DataError(f"'{folder / name}' of {data_set} must be readable; got: {error.strerror or error}") from error


def read(folder: Path, name: str, checksum: str) -> bytes:
    """A cached file's bytes, verified again: a disk can rot, and a figure must not rest on it."""
    held = content(folder, name)
    if _hash(held) != checksum:
        raise DataError(
            f"'{folder / name}' of {folder.name} must have sha256 {checksum[:12]}…; got {_hash(held)[:12]}…, "
            f"so the cache is damaged; run: smoothcert data get {folder.name}"
        )
    return held


def mismatch(files: Mapping[str, bytes], checksums: Mapping[str, str]) -> str | None:
    """Why fetched files are not the data set, or None."""
    for name, checksum in checksums.items():
        if name not in files:
            return f"{name} is missing"
        if _hash(files[name]) != checksum:
            return f"{name} has sha256 {_hash(files[name])[:12]}… instead of {checksum[:12]}…"
    return None


def install(folder: Path, files: Mapping[str, bytes], is_sound: Callable[[Path], bool]) -> None:
    """Put verified files in place as a whole: written and synced beside, then renamed."""
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
            if not is_sound(folder):  # else another process was faster
                raise
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
