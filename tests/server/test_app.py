"""The service as its clients see it: addresses, keys and scopes, limits, evidence, figures, headers, logs."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_core import DIGEST, SHAPE, FakeCore, busy
from PIL import Image
from starlette.testclient import TestClient

from smoothcert.server import pages
from smoothcert.server.app import application
from smoothcert.server.keys import KeyRing, add_key
from smoothcert.server.logs import LineFormatter

INFER = "/v2/models/tiny/infer"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def client(core: FakeCore, keys: KeyRing | None = None, **options: Any) -> TestClient:
    return TestClient(application(core, keys, **options), base_url="http://127.0.0.1")


def asked(level: float = 0.55, inputs: int = 1, **more: Any) -> dict[str, Any]:
    data = np.full((inputs, *SHAPE), level).tolist()
    return {"inputs": [{"name": "x", "shape": [inputs, *SHAPE], "datatype": "FP32", "data": data}], **more}


def outputs(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return {output["name"]: output["data"] for output in answer.json()["outputs"]}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_the_addresses_of_the_protocol() -> None:
    with client(core := FakeCore()) as service:
        about = service.get("/v2").json()
        assert about["extensions"] == ["binary_tensor_data", "parameters"] and about["parameters"] == {"model": "tiny"}
        assert service.get("/v2/health/live").json() == {"live": True}
        assert service.get("/v2/health/ready").json() == {"ready": True}
        found = service.get("/v2/models/tiny").json()
        assert found == service.get(f"/v2/models/tiny/versions/{DIGEST}").json()
        assert found["versions"] == [DIGEST] and found["class_names"][9] == "class 9"
        assert found["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, *SHAPE]}]
        assert {output["name"]: output["datatype"] for output in found["outputs"]}["certificate"] == "BYTES"
        assert service.get("/v2/models/tiny/ready").json() == {"name": "tiny", "ready": True}
        core.warm = False
        assert service.get("/v2/health/live").status_code == 200
        assert {service.get(f"/v2/{path}ready").status_code for path in ("health/", "models/tiny/")} == {503}
    assert core.closed


def test_a_batch_is_answered_in_order() -> None:
    request = asked(inputs=3)
    request["inputs"][0]["data"] = [np.full(SHAPE, level).tolist() for level in (0.35, 0.0, 1.0)]
    found = outputs(client(FakeCore()).post(f"/v2/models/tiny/versions/{DIGEST}/infer", json=request))
    assert found["label"] == [3, -1, 9] and found["abstained"] == [False, True, False]
    assert found["draws"] == [1000, 100, 0] and found["guarantee"] == ["smoothing", "none", "memory"]
    assert found["reason"] == ["", "the votes do not decide", ""]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


def test_each_scope_opens_its_own(file: Path) -> None:
    keys = {scope: add_key(file, scope, [scope]) for scope in ("predict", "certify", "evidence")}
    service = client(FakeCore(), KeyRing(file))
    for scope, key in keys.items():
        for mode in ("predict", "certify"):
            status = service.post(INFER, json=asked(parameters={"mode": mode}), headers=bearer(key)).status_code
            assert status == (200 if scope == mode else 403)
        assert service.get("/metrics", headers=bearer(key)).status_code == (200 if scope == "evidence" else 403)
        assert service.get("/v2/models/tiny", headers=bearer(key)).status_code == 200
    for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/openapi.json", "/docs"):
        assert service.get(path).status_code == 200
    for path in ("/v2/models/tiny", "/v2/examples", "/v2/examples/0", "/v2/certificates/a", "/metrics"):
        assert service.get(path).status_code == 401
    assert client(FakeCore(), KeyRing(file), open_metrics=True).get("/metrics").status_code == 200


def test_a_certificate_is_read_by_its_own_key_alone_as_a_document_or_as_a_page(file: Path) -> None:
    first, second = (add_key(file, name, ["certify", "evidence"]) for name in ("first", "second"))
    service = client(core := FakeCore(), KeyRing(file))
    (name,) = outputs(service.post(INFER, json=asked(), headers=bearer(first)))["certificate"]
    assert core.asked[0].key == "first"
    path = f"/v2/certificates/{name}"
    for accept in ("*/*", "application/json", "text/html;q=0.1,application/json", ""):
        assert service.get(path, headers={**bearer(first), "Accept": accept}).json() == {"certificate": name}
    page = service.get(path, headers={**bearer(first), "Accept": BROWSER})
    assert page.headers["content-type"] == "text/html; charset=utf-8" and name in page.text
    for accept in ("*/*", BROWSER):
        assert service.get(path, headers={**bearer(second), "Accept": accept}).status_code == 404


def test_draws_are_set_aside_and_given_back(file: Path) -> None:
    key = add_key(file, "a", ["certify"], draws=2500)
    service = client(core := FakeCore(), KeyRing(file))

    def status(level: float, n: int = 1000) -> int:
        return service.post(INFER, json=asked(level, parameters={"n": n}), headers=bearer(key)).status_code

    assert [status(1.0) for _ in range(20)] == [200] * 20  # the memory draws nothing
    core.refusal = busy(7)
    assert [status(0.5) for _ in range(20)] == [503] * 20  # nor does who is turned away
    core.refusal = None
    assert [status(0.5), status(0.5), status(0.5)] == [200, 200, 429]
    refused = service.post(INFER, json=asked(parameters={"n": 2501}), headers=bearer(key))
    assert refused.status_code == 400 and "retry-after" not in refused.headers


def test_requests_are_counted_also_those_that_are_none(file: Path) -> None:
    key = add_key(file, "a", ["certify"], requests=2)
    service = client(FakeCore(), KeyRing(file))
    found = [service.post(INFER, content=b"nonsense", headers=bearer(key)) for _ in range(3)]
    assert [each.status_code for each in found] == [400, 400, 429] and 0 < int(found[2].headers["retry-after"]) <= 30
    assert service.get("/v2/health/live").status_code == 200


def test_a_full_queue_says_when_to_come_again() -> None:
    core = FakeCore()
    core.refusal = busy(7)
    found = client(core).post(INFER, json=asked())
    assert (found.status_code, found.headers["retry-after"]) == (503, "7")
    assert found.json() == {"error": "inputs that wait must be at most 256; got more"}


def test_a_defect_tells_nothing_but_its_id_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    core = FakeCore()
    core.failure = KeyError("/work/secret")
    with caplog.at_level(logging.INFO, "smoothcert.server"):
        found = client(core).post(INFER, json=asked(), headers={"X-Request-Id": "mine-1"})
    assert found.status_code == 500 and "secret" not in found.text and "KeyError" not in found.text
    assert "under the id mine-1" in found.json()["error"]
    told = next(line for line in lines(caplog) if line["event"] == "unforeseen")
    assert told["request"] == "mine-1" and "KeyError" in told["error"] and told["where"]


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    texts = [LineFormatter().format(record) for record in caplog.records if record.name == "smoothcert.server"]
    assert all("\n" not in text for text in texts)
    return [json.loads(text) for text in texts]


def test_a_request_is_one_line_without_key_or_input(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    key = add_key(file, "alice", ["certify"])
    request = asked(0.123456789, 2, id="body-id")
    with caplog.at_level(logging.INFO, "smoothcert.server"):
        found = client(FakeCore(), KeyRing(file)).post(INFER, json=request, headers=bearer(key))
    (line,) = lines(caplog)
    assert found.json()["id"] == "body-id" and found.headers["x-request-id"] == line["request"]
    told = {
        name: line[name] for name in ("id", "key", "route", "status", "mode", "inputs", "draws", "abstained", "level")
    }
    assert told == {
        "id": "body-id", "key": "alice", "route": "/v2/models/{name}/infer", "status": 200, "mode": "certify",
        "inputs": 2, "draws": 2000, "abstained": 0, "level": "info",
    }  # fmt: skip
    assert line["seconds"] > 0 and key not in str(line) and "0.1234" not in str(line)


@pytest.mark.parametrize(("given", "kept"), [("a-b_1.2:3", True), ("a b", False), ("a" * 200, False), ("é", False)])
def test_ids_are_echoed_where_they_are_harmless(given: str, kept: bool) -> None:
    service = client(core := FakeCore())
    for _ in range(2):  # an id that comes again is nothing special
        found = service.post(INFER, json=asked(), headers={"X-Request-Id": given.encode()})
        assert found.status_code == 200 and (found.headers["x-request-id"] == given) == kept
        assert core.asked[-1].id == found.headers["x-request-id"] == found.json()["id"]


def test_figures_for_prometheus() -> None:
    service = client(FakeCore())
    for level in (0.5, 0.0, 1.0):
        service.post(INFER, json=asked(level))
    service.post(INFER, content=b"nonsense")
    service.get("/made/up/by/a/client")
    found = dict(line.rsplit(" ", 1) for line in service.get("/metrics").text.splitlines() if line[0] != "#")
    route = 'route="/v2/models/{name}/infer"'
    assert found[f'smoothcert_requests_total{{mode="certify",{route},status="200"}}'] == "3.0"
    assert found[f'smoothcert_requests_total{{mode="",{route},status="400"}}'] == "1.0"
    assert found['smoothcert_requests_total{mode="",route="unknown",status="404"}'] == "1.0"
    assert found[f'smoothcert_request_seconds_count{{mode="certify",{route}}}'] == "3.0"
    assert found['smoothcert_abstentions_total{mode="certify"}'] == found["smoothcert_memory_hits_total"] == "1.0"
    assert (found["smoothcert_draws_total"], found["smoothcert_rows_total"]) == ("1000.0", "2000.0")
    assert (found["smoothcert_batch_fill"], found["smoothcert_waiting"]) == ("0.5", "0.0")
    assert found["smoothcert_regions"] == "3.0" and "made" not in str(found)


def test_headers_of_safety_are_on_every_answer() -> None:
    service = client(FakeCore())
    for found in (service.get("/v2"), service.get("/none"), service.post(INFER, content=b""), service.get("/docs")):
        assert "frame-ancestors 'none'" in found.headers["content-security-policy"]
        assert found.headers["x-content-type-options"] == "nosniff" and found.headers["cache-control"] == "no-store"
        assert found.headers["referrer-policy"] == "no-referrer" and "server" not in found.headers
        assert not any(name.startswith("access-control") for name in found.headers)


def test_other_origins_are_let_in_where_the_operator_says_so() -> None:
    there, elsewhere = {"Origin": "https://lab.example"}, {"Origin": "https://evil.example"}
    for cors, status in (((), 403), (("https://lab.example",), 200)):
        service = client(FakeCore(), cors=cors)
        found = service.post(INFER, json=asked(), headers=there)
        assert found.status_code == status
        assert found.headers.get("access-control-allow-origin") == (there["Origin"] if cors else None)
        assert service.post(INFER, json=asked(), headers=elsewhere).status_code == 403
    ask = {**there, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    assert service.options(INFER, headers=ask).status_code == 200
    assert service.options(INFER, headers={**ask, **elsewhere}).status_code == 400
    same = {"Origin": "http://127.0.0.1"}
    assert client(FakeCore()).post(INFER, json=asked(), headers=same).status_code == 200


def test_without_keys_only_known_names_lead_here() -> None:
    statuses = {
        host: client(FakeCore(), hosts=["cert.lab"]).get("/v2", headers={"Host": host}).status_code
        for host in (
            "localhost:8080",
            "127.0.0.1:1",
            "[::1]:8080",
            "cert.lab",
            "evil.example",
            "127.0.0.1.evil.example",
        )
    }
    assert list(statuses.values()) == [200, 200, 200, 200, 403, 403]


def test_examples_are_names_and_pictures() -> None:
    service = client(core := FakeCore())
    assert service.get("/v2/examples").json() == ["a ramp", "a row"]
    found = service.get("/v2/examples/0")
    picture = np.asarray(Image.open(io.BytesIO(found.content)))
    assert found.headers["content-type"] == "image/png"
    assert np.array_equal(picture, (core.examples[0][1] * 255).round().byte().permute(1, 2, 0).numpy())
    assert service.get("/v2/examples/1").status_code == 404  # no picture


def test_the_page_and_its_files_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "static"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    monkeypatch.setattr(pages, "FOLDER", folder)
    service = client(FakeCore())
    assert service.get("/").status_code == 404
    (folder / "index.html").write_text("<p>hello")
    (folder / "page.js").write_text("1")
    (folder / "inner").mkdir()
    found = service.get("/")
    assert found.text == "<p>hello" and "script-src 'self'" in found.headers["content-security-policy"]
    assert service.get("/static/page.js").headers["content-type"].split(";")[0] == "text/javascript"
    for path in ("none", "inner", "..%2fsecret", "page.js%00", "PAGE.JS"):
        assert service.get(f"/static/{path}").status_code == 404


def test_a_query_changes_nothing() -> None:
    service = client(FakeCore())
    assert service.post(f"{INFER}?version=1&mode=predict", json=asked()).json()["parameters"]["mode"] == "certify"
    assert service.get("/v2/models/tiny?version=1").status_code == 200
