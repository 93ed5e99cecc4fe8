"""Who may ask: keys with scopes and limits, kept hashed in a TOML file that is watched for changes.

A key is `smc_` and 256 random bits. Nobody can go through so many, so a plain SHA-256 of it keeps it safe: slow hashes
with salt protect what people choose, which this is not. A name stands for a client. A client whose key was revoked can
be given a new one, and still reads the certificates made under its name.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

import tomli_w

from smoothcert.errors import OptionError, RunError, SmoothcertError, require_count
from smoothcert.files import write_whole, writing
from smoothcert.foreign import content, is_there, parse_toml, shown, typed

Scope: TypeAlias = Literal["predict", "certify", "evidence"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
DIGEST = re.compile(r"[0-9a-f]{64}")
PREFIX = "smc_"
LARGEST = 2**22  # bytes of the file: some ten thousand keys
OFTEN = 1.0  # seconds between looks at the file

log = logging.getLogger("smoothcert.server")


@dataclass(frozen=True)
class ClientKey:
    """One key, without the key."""

    name: str
    sha256: str
    scopes: tuple[Scope, ...]
    requests_per_minute: int = 0  # 0: as many as it likes
    draws_per_minute: int = 0
    created: str = ""
    revoked: str = ""  # when; empty: it is good

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise OptionError(
                f"NAME of a key must be 1 to 64 letters, digits and . _ @ -, of which the first is a letter or digit; "
                f"got {shown(self.name)}"
            )
        if not DIGEST.fullmatch(self.sha256):
            raise OptionError(f"sha256 of key {self.name} must be 64 hexadecimal digits; got {shown(self.sha256)}")
        if not self.scopes or not set(self.scopes) <= set(SCOPES):
            raise OptionError(f"scope of key {self.name} must be among {', '.join(SCOPES)}; got {list(self.scopes)}")
        for limit in ("requests_per_minute", "draws_per_minute"):
            require_count(f"key {self.name}", least=0, **{limit: getattr(self, limit)})


def hashed(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def read_keys(path: Path) -> tuple[ClientKey, ...]:
    """The keys of a file, revoked ones too."""
    table = parse_toml(content(path, "keys file", largest=LARGEST), f"keys file '{path}'")
    try:
        (found,) = typed(tuple[tuple[ClientKey, ...]], [table.pop("key", [])], "key")
        if not found:
            raise ValueError("it holds no key")
        if table:
            raise ValueError(f"no table is called {shown(min(table))}")
        for field in ("name", "sha256"):
            if len({getattr(key, field) for key in found}) < len(found):
                raise ValueError(f"a {field} stands there twice")
    except (TypeError, ValueError, SmoothcertError) as cause:
        raise RunError(f"keys file '{path}' must be as `smoothcert keys` writes it; got: {cause}") from cause
    return cast("tuple[ClientKey, ...]", found)


def add_key(path: Path, name: str, scopes: Sequence[Scope], requests: int = 0, draws: int = 0) -> str:
    """A new key for a client, which is returned once and kept nowhere; the file is made if there is none."""
    secret = PREFIX + secrets.token_urlsafe(32)
    made = ClientKey(name, hashed(secret), tuple(dict.fromkeys(scopes)), requests, draws, created=_now())
    with _alone(path):
        known = read_keys(path) if is_there(path) else ()
        if any(key.name == name and not key.revoked for key in known):
            raise OptionError(f"NAME of a new key must be new; '{name}' already has a valid key: revoke it first")
        _write(path, [*(key for key in known if key.name != name), made])
    return secret


def revoke_key(path: Path, name: str) -> None:
    """From now on this client's key opens nothing."""
    content(path, "keys file", largest=LARGEST)  # a folder that is not there is said to be no file, not no place
    with _alone(path):
        known = read_keys(path)
        if not any(key.name == name and not key.revoked for key in known):
            raise OptionError(f"NAME of the key to revoke must be that of a good one in '{path}'; got {shown(name)}")
        _write(path, [replace(key, revoked=_now()) if key.name == name else key for key in known])


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Nobody else changes the file meanwhile: a change that is lost could be a revocation."""
    with writing(path):
        folder = os.open(path.parent, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a disk without locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _write(path: Path, keys: Sequence[ClientKey]) -> None:
    tables = [{name: value for name, value in asdict(key).items() if value not in ("", 0)} for key in keys]
    write_whole(path, tomli_w.dumps({"key": tables}).encode(), mode=0o600)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class KeyRing:
    """The good keys of a file, as it is now. A file that cannot be read leaves the keys as they were, and is logged."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._state = self._stat()
        self._keys = read_keys(path)
        self._looked = clock()

    def find(self, key: str) -> ClientKey | None:
        """Whose key this is; every key is compared, each in constant time."""
        self._refresh()
        given, found = hashed(key), None
        for known in self._keys:
            if hmac.compare_digest(known.sha256, given):
                found = known
        return None if found is None or found.revoked else found

    def _refresh(self) -> None:
        if self._clock() - self._looked < OFTEN:
            return
        self._looked = self._clock()
        if (state := self._stat()) == self._state:
            return
        self._state = state
        try:
            self._keys = read_keys(self._path)
            log.info("keys were read again", extra={"fields": {"keys": len(self._keys)}})
        except SmoothcertError as error:
            log.error("keys could not be read again; those read before stay", extra={"fields": {"cause": str(error)}})

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
