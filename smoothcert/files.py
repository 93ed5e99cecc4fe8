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


def write_whole(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write beside the target, flush to the disk, then rename over it; `mode` is for whom it is to be readable."""
    if not path.name or (path.exists() and not path.is_file()):
        # A rename would put a file in the place of a device.
        raise OutputError(f"output {path} must be a file; got a {'folder' if path.is_dir() else 'device'}")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with writing(path):
        try:
            with open(part, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
