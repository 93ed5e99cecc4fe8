"""Who is let in: headers that must be what they seem, keys, scopes, and what a key may ask for in a minute."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from smoothcert.foreign import shown
from smoothcert.server.keys import ClientKey, KeyRing, Scope
from smoothcert.server.limits import KeyLimits
from smoothcert.server.values import Mode, RequestError

# A header that two parties along the way could read differently is an attack on one of them.
ONCE = (
    b"authorization", b"content-length", b"transfer-encoding", b"content-type", b"content-encoding", b"host", b"origin",
    b"inference-header-content-length", b"x-request-id",
)  # fmt: skip
HEAD_BYTES = 2**14  # of all headers
BEARER = "bearer "


@dataclass
class RequestNotes:
    """What is known of a request, for its line in the log and for the figures; filled in as it goes."""

    id: str
    asked: str = ""  # the id in its body
    key: str = ""
    mode: str = ""
    inputs: int = 0
    draws: int = 0
    abstained: int = 0


def check_headers(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers by name; RequestError(400) where one that counts stands there twice or contradicts another."""
    if (size := sum(len(name) + len(value) for name, value in headers)) > HEAD_BYTES:
        raise RequestError(431, f"headers of the request must have at most {HEAD_BYTES} bytes; got {size}")
    counted = Counter(name for name, _ in headers)
    for name in ONCE:
        if counted[name] > 1:
            raise RequestError(400, f"header {name.decode()} must be given once; got it {counted[name]} times")
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    if "transfer-encoding" in found and "content-length" in found:
        raise RequestError(400, "length of the body must be told in one way; got content-length and transfer-encoding")
    if found.get("content-encoding", "identity") != "identity":
        got = shown(found["content-encoding"])
        raise RequestError(415, f"body of the request must not be compressed; got content-encoding {got}")
    return found


def check_origin(headers: Mapping[str, str], cors: Sequence[str], hosts: Sequence[str]) -> None:
    """Of a service without keys: a page from elsewhere must not use it through the browser of who may.

    Such a page sends its origin along. One whose name was made to point here (DNS rebinding) gives itself away by the
    name, so names must be known; a number cannot be made to point anywhere.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    name = _name(f"//{host}")
    if name != "localhost" and name not in hosts and not _is_address(name):
        raise RequestError(
            403, f"host of a request without a key must be one that this service knows; got {shown(host)}"
        )
    if origin is not None and origin not in cors and origin.partition("://")[2] != host:
        raise RequestError(403, f"origin of a request without a key must be this service; got {shown(origin)}")


def _name(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Gate:
    """Keys and what each may do; without keys everybody may do everything."""

    def __init__(self, keys: KeyRing | None, limits: KeyLimits | None = None) -> None:
        self.keys, self._limits = keys, limits or KeyLimits()

    def admit(self, headers: Mapping[str, str], notes: RequestNotes, *scopes: Scope) -> ClientKey | None:
        """Whose request this is: 401 without a good key, 403 if it has none of the scopes, 429 if it asks too often."""
        if self.keys is None:
            return None
        given = headers.get("authorization", "")
        if given[: len(BEARER)].lower() != BEARER:
            raise RequestError(401, "header authorization must be `Bearer KEY`; got none such")
        key = self.keys.find(given[len(BEARER) :].strip())
        if key is None:
            raise RequestError(401, "key of the request must be one that was given out and not revoked; got another")
        notes.key = key.name
        if scopes and not set(scopes) & set(key.scopes):
            raise _missing(key, *scopes)
        self._limits.take_request(key)
        return key

    def reserve(self, key: ClientKey | None, mode: Mode, draws: int) -> None:
        """Let a request draw at most so often; 403 if its mode is not among its key's scopes."""
        if key is not None:
            if mode not in key.scopes:
                raise _missing(key, mode)
            self._limits.reserve_draws(key, draws)

    def give_back(self, key: ClientKey | None, draws: int) -> None:
        """Draws that were set aside and not made."""
        if key is not None:
            self._limits.give_back_draws(key, draws)


def _missing(key: ClientKey, *scopes: Scope) -> RequestError:
    return RequestError(
        403, f"scope of key {key.name} must include {' or '.join(scopes)} for this; got {', '.join(key.scopes)}"
    )
