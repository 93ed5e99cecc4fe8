"""Files that are whole or not there at all, and the plain words for a disk that refuses."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

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
    _refuse_special(path)
    with writing(path):
        part, file = _part(path, 0o600)
        file.close()
        part.unlink()


def _refuse_special(path: Path) -> None:
    with writing(path):
        if not path.name or (path.exists() and not path.is_file()):
            # A rename would put a file in the place of a device.
            raise OutputError(f"output {path} must be a file; got a {'folder' if path.is_dir() else 'device'}")


def write_whole(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write beside the target, flush to the disk, then rename over it; what a killed writer left there goes.

    `mode`: who may read it, less what the process's umask takes away.
    """
    _refuse_special(path)
    with writing(path):
        _remove_abandoned(path)
        part, file = _part(path, mode)
        try:
            with file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _part(path: Path, mode: int) -> tuple[Path, BinaryIO]:
    """A new file beside the target, locked for as long as it is open: a lock ends with its process, however that ends.

    A process id would not do: ids come again, and mean nothing to another machine on the same disk.
    """
    while True:
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        file: BinaryIO = os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb")
        if _locked(file) is not False and os.fstat(file.fileno()).st_nlink:
            return part, file
        file.close()  # between the two calls another one has found it without a lock, and removes it


def _locked(file: BinaryIO) -> bool | None:
    """Whether the file is locked for us now; None on a disk without locks, where nothing can be called abandoned."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError:
        return None


def _remove_abandoned(path: Path) -> None:
    """Files of writers of this target that were killed: those whose lock is free."""
    if not path.parent.is_dir():
        return
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]+\.part")
    for part in [Path(entry) for entry in os.scandir(path.parent) if name.fullmatch(entry.name)]:
        with contextlib.suppress(OSError):  # not ours to open, or gone already
            found = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(found, "rb") as file:
                if _locked(file):
                    part.unlink()
