"""Every malformed request gets its status and one sentence, and the service goes on serving."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_core import FakeCore
from live import running
from malformed import GOOD, ROWS, Malformed

from smoothcert.server.app import application
from smoothcert.server.keys import KeyRing, add_key, revoke_key

TELLING = re.compile(r"Traceback|\.py\b|/work|/usr|/home|smoothcert\.server|Error\b|<class")


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, dict[str, str]]]:
    """A service that asks for keys, and these."""
    file = tmp_path_factory.mktemp("keys") / "keys.toml"
    keys = {
        "GOOD": add_key(file, "good", ["predict", "certify", "evidence"]),
        "REVOKED": add_key(file, "revoked", ["predict", "certify"]),
        "EVIDENCE": add_key(file, "reader", ["evidence"]),
        "PREDICT": add_key(file, "guesser", ["predict"]),
    }
    revoke_key(Path(file), "revoked")
    with running(application(FakeCore(), KeyRing(file))) as port:
        yield port, keys


def sent(port: int, raw: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer to these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(raw)
        stream = connection.makefile("rb")
        status = int(stream.readline().split()[1])
        headers = {}
        while line := stream.readline().strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return status, headers, stream.read(int(headers["content-length"]))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_it_is_refused_in_one_line_and_the_service_goes_on(row: Malformed, port: int, keyed) -> None:
    raw, place, good = row.raw, port, GOOD
    if row.keyed:
        place, keys = keyed
        for name, key in keys.items():
            raw = raw.replace(name.encode(), key.encode())
        good = GOOD.replace(b"\r\n\r\n", f"\r\nAuthorization: Bearer {keys['GOOD']}\r\n\r\n".encode(), 1)
    status, headers, body = sent(place, raw)
    (line,) = body.decode().splitlines()
    assert (status, list(json.loads(line))) == (row.status, ["error"]), line
    said = json.loads(line)["error"]
    assert row.said in said and said.isprintable() and 10 < len(said) <= 700 and not TELLING.search(said), said
    assert headers["content-type"] == "application/json"
    assert ("www-authenticate" in headers) == (status == 401)
    assert sent(place, good)[0] == 200


def test_there_are_many_and_each_is_another() -> None:
    assert len(ROWS) >= 60
    assert len({row.name for row in ROWS}) == len({row.raw + bytes(row.keyed) for row in ROWS}) == len(ROWS)
