"""Files that are whole or not there at all, and the plain words for a disk that refuses."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from smoothcert.errors import OutputError


def cache_folder() -> Path:
    """Where what can be computed again is kept; SMOOTHCERT_CACHE moves it."""
    return Path(os.environ.get("SMOOTHCERT_CACHE", Path.home() / ".cache" / "smoothcert"))


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an operating system's refusal to write into one clear line."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path} must be writable; got: {error.strerror or error}") from error


def require_writable(path: Path) -> None:
    """Refuse a place where `write_whole` would fail, before the work whose result it is for."""
    part = _part(path)
    with writing(path):
        part.touch()
        part.unlink()


def _part(path: Path) -> Path:
    """Where a file is written before it is whole."""
    with writing(path):
        if not path.name or (path.exists() and not path.is_file()):
            # A rename would put a file in the place of a device.
            raise OutputError(f"output {path} must be a file; got a {'folder' if path.is_dir() else 'device'}")
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the target, flush to the disk, then rename over it."""
    part = _part(path)
    with writing(path):
        try:
            with part.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
