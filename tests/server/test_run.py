"""The service on a socket: it ends in order, and neither slow nor many connections hold it up."""

from __future__ import annotations

import contextlib
import datetime
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from fake_core import FakeCore
from live import running, serving
from test_app import INFER, asked
from test_malformed import sent

from smoothcert.errors import OptionError
from smoothcert.server import bodies, run
from smoothcert.server.app import application

SCRIPT = Path(__file__).parent / "stopping.py"
PATIENCE = 60.0


@contextlib.contextmanager
def process() -> Iterator[tuple[subprocess.Popen[str], str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, str(SCRIPT)], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as made:
        try:
            assert made.stdout is not None
            yield made, f"http://127.0.0.1:{int(made.stdout.readline())}"
        finally:
            made.kill()


def until(condition) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_signal_ends_it_when_what_was_accepted_is_answered() -> None:
    answers: list[httpx.Response] = []
    with process() as (service, address):
        under_way = threading.Thread(
            target=lambda: answers.append(httpx.post(address + INFER, json=asked(), timeout=PATIENCE))
        )
        under_way.start()
        until(lambda: "smoothcert_waiting 1.0" in httpx.get(f"{address}/metrics").text)
        service.send_signal(signal.SIGTERM)
        until(lambda: refuses(address))
        assert not answers and service.poll() is None  # nothing new is taken; what was accepted is under way
        out, err = service.communicate("go on\n", timeout=PATIENCE)
        under_way.join()
    assert answers[0].status_code == 200 and answers[0].json()["outputs"][0]["data"] == [5]
    assert service.returncode == 0 and out == "closed\n"
    events = [json.loads(line)["event"] for line in err.splitlines()]
    assert events[-3:] == ["stopping", "request", "stopped"]


def refuses(address: str) -> bool:
    try:
        httpx.get(f"{address}/v2/health/live")
    except httpx.ConnectError:
        return True
    return False


def test_an_idle_service_ends_at_once_also_with_connections_open() -> None:
    with process() as (service, address), httpx.Client() as client:
        assert client.get(f"{address}/v2/health/live").status_code == 200
        service.send_signal(signal.SIGINT)
        assert service.wait(PATIENCE) == 0


def test_proxies_are_given_notice() -> None:
    with serving(application(FakeCore(), None), notice=PATIENCE) as (port, service):
        address = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{address}/v2/health/ready").status_code == 200
        service.should_exit = True
        until(lambda: httpx.get(f"{address}/v2/health/ready").status_code == 503)
        assert httpx.get(f"{address}/v2/models/tiny/ready").json() == {"name": "tiny", "ready": False}
        assert httpx.post(address + INFER, json=asked()).status_code == 200
        service.force_exit = True


@pytest.mark.parametrize(
    "part", [b"", b"POST /v2 HTTP/1.1\r\nHost:", b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /"]
)
def test_a_head_that_does_not_come_ends_the_connection(part: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "HEAD_SECONDS", 0.1)
    monkeypatch.setattr(run, "KEEP_ALIVE", 0.1)
    with running(application(FakeCore(), None)) as port, socket.create_connection(("127.0.0.1", port)) as slow:
        slow.settimeout(PATIENCE)
        slow.sendall(part)
        while slow.recv(4096):
            pass
        assert sent(port, b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n")[0] == 200


def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PATIENCE", 0.1)
    monkeypatch.setattr(bodies, "LINGER", 0.1)
    with running(application(FakeCore(), None)) as port:
        head = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{{".encode()
        status, headers, body = sent(port, head)
        assert status == 408 and headers["connection"] == "close" and b"must arrive within 0.1 s" in body


def test_too_many_connections_are_turned_away_and_the_others_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "CONNECTIONS", 3)
    line = b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with running(application(FakeCore(), None)) as port, contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(3)]
        for each in held:
            each.sendall(line)
            assert each.recv(12) == b"HTTP/1.1 200"
        status, headers, body = sent(port, b"")
        assert (status, headers["retry-after"]) == (503, "5") and list(json.loads(body)) == ["error"]
        held[0].close()
        until(lambda: sent(port, line)[0] == 200)


def test_a_refusal_reaches_who_is_still_sending() -> None:
    """A connection closed upon unread bytes would be reset, and take the answer along."""
    with running(application(FakeCore(), None)) as port:
        raw = b"POST /none HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000000\r\n\r\n" + b" " * 20_000_000
        for _ in range(3):
            status, headers, _ = sent(port, raw)
            assert (status, headers["connection"]) == (404, "close")


def test_one_connection_serves_many_requests(port: int) -> None:
    with httpx.Client() as client:
        found = [client.post(f"http://127.0.0.1:{port}{INFER}", json=asked()) for _ in range(5)]
    assert [each.status_code for each in found] == [200] * 5
    assert not any("connection" in each.headers for each in found)


def test_answers_do_not_wait_for_acknowledgements() -> None:
    with contextlib.closing(run.listener("127.0.0.1", 0)) as place, socket.create_connection(place.getsockname()):
        accepted, _ = place.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_address_that_is_taken_is_said_in_one_line(port: int) -> None:
    for place in (("127.0.0.1", port), ("no.such.host.invalid", 0), ("127.0.0.1", 70000), ("256.1.1.1", 80)):
        with pytest.raises(OptionError, match="--host and --port must be a free address of this machine; got"):
            run.listener(*place)


def test_tls(tmp_path: Path) -> None:
    certificate, key = signed_for_localhost(tmp_path)
    context = ssl.create_default_context(cafile=certificate)
    with running(application(FakeCore(), None), certificate=certificate, private_key=key) as port:
        assert httpx.get(f"https://localhost:{port}/v2", verify=context).json()["name"] == "smoothcert"


def test_tls_files_that_are_none_are_said_in_one_line(tmp_path: Path) -> None:
    certificate, key = signed_for_localhost(tmp_path)
    locked = tmp_path / "locked"
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    locked.write_bytes(pem(loaded, serialization.BestAvailableEncryption(b"secret")))
    app = application(FakeCore(), None)
    for first, second in ((tmp_path / "no", None), (certificate, tmp_path / "no"), (key, key), (certificate, locked)):
        with pytest.raises(OptionError, match="--ssl-certfile and --ssl-keyfile must be PEM files of one key; got"):
            run.server(app, certificate=first, private_key=second)
    with pytest.raises(OptionError, match="--ssl-keyfile needs --ssl-certfile"):
        run.server(app, private_key=key)


def pem(key: ec.EllipticCurvePrivateKey, lock: serialization.KeySerializationEncryption) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)


def signed_for_localhost(folder: Path) -> tuple[Path, Path]:
    """A certificate of its own making."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    certificate, private = folder / "tls.crt", folder / "tls.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(pem(key, serialization.NoEncryption()))
    return certificate, private
