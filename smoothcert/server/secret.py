"""The secret that keys all noise of a service: made in its folder, committed to at the start, told when it is retired.

Whoever knows the seed of a stream can search for an input whose noise is lucky; at α = 0.001 some thousand tries are
enough. So the seed of every answer is an HMAC, by a secret of 256 bits, of the request's id and all that was asked. The
hash of the secret is published when the service starts and stands in every certificate. One service at a time uses a
secret: its file is locked meanwhile, and a secret that is locked is not told.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from smoothcert import foreign
from smoothcert.errors import OutputError, RunError
from smoothcert.files import write_whole, writing
from smoothcert.spec import HIDDEN, ServedSeed, Spec, hash_of_secret, now, served_seed

FILE, LOCK, TOLD = "secret", "lock", "told"
BYTES = 32


@dataclass(frozen=True)
class ServiceSecret:
    """256 bits that nobody but the service knows."""

    value: bytes

    def __repr__(self) -> str:
        return f"ServiceSecret(commitment={self.commitment})"  # it never shows in a log or a traceback

    @property
    def commitment(self) -> str:
        return hash_of_secret(self.value)

    def seed(self, spec: Spec, request: str) -> tuple[int, Spec]:
        """The seed of one answer, and its question with what may be told of it."""
        hidden = replace(spec, seed=HIDDEN, served=ServedSeed(self.commitment, request))
        return served_seed(self.value, request, hidden.question), hidden


@contextlib.contextmanager
def held(folder: Path) -> Iterator[ServiceSecret]:
    """The secret of a service's folder, made where there is none; for this process alone."""
    with _locked(folder):
        path = folder / FILE
        if not path.exists():
            write_whole(path, secrets.token_hex(BYTES).encode() + b"\n", mode=0o600)
        yield _read(path)


def reveal(folder: Path) -> Path:
    """Retire the secret of a service that is not running: the file that tells it, for anybody to read."""
    require_secret(folder)
    with _locked(folder):
        secret = _read(folder / FILE)
        told = {"commitment": secret.commitment, "secret": secret.value.hex(), "retired": now()}
        path = folder / TOLD / f"{secret.commitment}.json"
        with writing(path):
            path.parent.mkdir(exist_ok=True)
        write_whole(path, json.dumps(told, indent=1).encode() + b"\n")
        (folder / FILE).unlink()  # the next start makes another
    return path


def require_secret(folder: Path) -> None:
    """Refuse what is no service's folder."""
    if not foreign.is_regular(folder / FILE):
        raise RunError(f"{folder} must be the folder of a service with a secret; there is none")


def _read(path: Path) -> ServiceSecret:
    text = foreign.content(path, "the secret of a service", largest=1000).strip()
    try:
        value = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        value = b""
    if len(value) != BYTES:
        raise RunError(f"{path} must hold {BYTES} bytes in hexadecimal; got something else")
    return ServiceSecret(value)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("a")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputError(f"{folder} must be of one service at a time; another one is running there") from None
        yield
