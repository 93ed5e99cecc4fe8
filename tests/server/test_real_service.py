"""`smoothcert serve` from the command line, with nothing made up: what strangers' clients, keys and signals meet."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pictured
import pytest
import torch
from fake_core import DIGEST, SHAPE
from malformed import GOOD, ROWS
from processes import ServeProcess, refuses, until
from scipy.stats import norm
from test_app import BROWSER, bearer, outputs
from test_malformed import TELLING, sent
from test_openapi import call_every_operation

from smoothcert.cli.main import run
from smoothcert.server.keys import add_key

http, schemathesis = pytest.importorskip("tritonclient.http"), pytest.importorskip("schemathesis")
pytestmark = pytest.mark.xdist_group("real service")

SIGMA, SURE = 0.25, 1e-9  # an α at which no test is unlucky
CLASSIFIER = ("pictured:score", "--sigma", str(SIGMA), "--name", "tiny", "--n", "1000", "--shape", "3,4,4",
              "--most-inputs", "8", "--most-draws", "100000")  # fmt: skip
GROWN = 64 * 2**20  # bytes beyond which a process is said to have kept what it was sent


def pictures(number: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    """On either side of the boundary, whole multiples of 1/255."""
    random = np.random.default_rng(seed)
    side = np.sign(random.standard_normal((number, 1, 1, 1))) * pictured.WEIGHT.numpy().reshape(1, *SHAPE)
    return (np.round(255 * (random.random((number, *SHAPE)) * 0.3 + 0.35 + 0.12 * side)) / 255).astype(np.float32)


def asked(x: np.ndarray[Any, Any], **more: Any) -> dict[str, Any]:
    tensor = {"name": "x", "shape": list(x.shape), "datatype": "FP32", "data": x.flatten().tolist()}
    return {"inputs": [tensor], **more}


def ask(service: ServeProcess, x: np.ndarray[Any, Any], key: str = "", id: str = "", **parameters: Any) -> Any:
    headers = bearer(key) if key else {}
    return httpx.post(
        f"{service.model}/infer", json=asked(x, parameters=parameters, **({"id": id} if id else {})), headers=headers,
        timeout=60,
    )  # fmt: skip


def fetched(service: ServeProcess, certificate: str, folder: Path, key: str = "") -> Path:
    """A certificate as a client keeps it."""
    found = httpx.get(f"{service.address}/v2/certificates/{certificate}", headers=bearer(key) if key else {})
    assert found.status_code == 200, found.text
    path = folder / f"{certificate}.json"
    path.write_bytes(found.content)
    return path


def figure(service: ServeProcess, name: str, key: str = "") -> float:
    """The sum of a figure over its labels."""
    text = httpx.get(f"{service.address}/metrics", headers=bearer(key) if key else {}).text
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE))


class Gate:
    """While it is closed the network does not answer."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        self.path.touch()

    def __exit__(self, *_: object) -> None:
        self.path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("real")


@pytest.fixture(scope="module")
def gate(folder: Path) -> Gate:
    return Gate(folder / "gate")


@pytest.fixture(scope="module")
def plain(folder: Path, gate: Gate) -> Iterator[ServeProcess]:
    """A service without keys, with a data set of two pictures."""
    (own := folder / "plain").mkdir()
    np.savez(own / "data.npz", x=pictures(2), y=np.array([0, 1]))
    service = ServeProcess(
        own, *CLASSIFIER, "--data", str(own / "data.npz"), "--state", str(own / "state"), PICTURED_GATE=str(gate.path)
    )
    yield service
    service.end()


@pytest.fixture(scope="module")
def keys(folder: Path) -> dict[str, str]:
    (own := folder / "keyed").mkdir()
    file, every = own / "keys.toml", ("predict", "certify", "evidence")
    return {
        "GOOD": add_key(file, "good", every),
        "REVOKED": add_key(file, "revoked", every),
        "EVIDENCE": add_key(file, "reader", ["evidence"]),
        "PREDICT": add_key(file, "guesser", ["predict"]),
        "FEW": add_key(file, "few", every, 3, 0),
        "BRIEF": add_key(file, "brief", every, 0, 5000),
    }


@pytest.fixture(scope="module")
def keyed(folder: Path, keys: dict[str, str], gate: Gate) -> Iterator[ServeProcess]:
    """A service with keys and a memory; the key `revoked` was good when it began."""
    own = folder / "keyed"
    service = ServeProcess(
        own, *CLASSIFIER, "--keys", str(own / "keys.toml"), "--state", str(own / "state"), "--memory",
        str(own / "m.sqlite"), PICTURED_GATE=str(gate.path),
    )  # fmt: skip
    assert ask(service, pictures(1), keys["REVOKED"], mode="predict").status_code == 200
    assert run(["keys", "revoke", "revoked", "--file", str(own / "keys.toml")]) == 0
    until(lambda: ask(service, pictures(1), keys["REVOKED"], mode="predict").status_code == 401)
    yield service
    service.end()


@pytest.mark.parametrize("datatype", ["FP32", "UINT8"])
@pytest.mark.parametrize("binary", [False, True])
def test_a_strangers_client_reads_metadata_and_infers(plain: ServeProcess, datatype: str, binary: bool) -> None:
    values = pictures(8, seed=1)
    with http.InferenceServerClient(plain.address.removeprefix("http://")) as client:
        described = client.get_model_metadata("tiny")
        assert client.is_server_ready() and client.is_model_ready("tiny", described["versions"][0])
        assert described["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, *SHAPE]}]
        x = http.InferInput("x", list(values.shape), datatype)
        sent = values if datatype == "FP32" else np.round(255 * values).astype(np.uint8)
        x.set_data_from_numpy(sent, binary_data=binary)
        names = ("label", "radius", "abstained", "draws", "guarantee", "certificate", "votes")
        wanted = [http.InferRequestedOutput(name, binary_data=binary) for name in names]
        found = client.infer("tiny", [x], outputs=wanted, parameters={"n": 20_000, "alpha": SURE})
    margins = pictured.margin(torch.from_numpy(values)).numpy()
    radii, votes = found.as_numpy("radius"), found.as_numpy("votes")
    assert found.as_numpy("label").tolist() == (margins > 0).astype(int).tolist() and 0 < (margins > 0).sum() < 8
    assert (radii < np.abs(margins)).all() and (radii > np.abs(margins) - 0.15).all()
    assert votes.sum(axis=1).tolist() == [20_000] * 8 and found.as_numpy("draws").tolist() == [20_100] * 8
    share = norm.cdf(margins / SIGMA)
    assert (np.abs(votes[:, 1] / 20_000 - share) < 7 * np.sqrt(share * (1 - share) / 20_000) + 1e-3).all()
    assert len(set(found.as_numpy("certificate").tolist())) == 8


def test_a_certificate_passes_verify_and_once_the_secret_is_told_it_is_drawn_again(
    plain: ServeProcess, folder: Path, gate: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    x, state = pictures(1, seed=2), folder / "plain" / "state"
    certificate = outputs(ask(plain, x, id="of-mine"))["certificate"][0]
    path = fetched(plain, certificate, folder)
    assert run(["verify", str(path)]) == 0
    assert "has not told yet" in capsys.readouterr().out
    assert str(folder) not in path.read_text()
    page = httpx.get(f"{plain.address}/v2/certificates/{certificate}", headers={"accept": BROWSER})
    assert page.headers["content-type"].startswith("text/html") and "ertified" in page.text
    assert run(["serve", "reveal", str(state)]) == 2  # it is in use
    code, answer = stopped_under_way(plain, gate, pictures(1, seed=3))
    assert (code, answer.status_code) == (0, 200) and outputs(answer)["guarantee"] == ["smoothing"]
    assert run(["serve", "reveal", str(state)]) == 0
    capsys.readouterr()
    (told,) = (state / "told").iterdir()
    drawing = ["verify", str(path), "--secret", str(told), "--model", "pictured:score"]
    assert run(drawing) == 0 and "1,100 draws drawn again" in " ".join(capsys.readouterr().out.split())
    plain.again()
    until(lambda: httpx.get(f"{plain.address}/v2/health/ready").status_code == 200)
    described = httpx.get(plain.model).json()["parameters"]
    assert described["commitment"] != told.stem  # the next start made another
    path = fetched(plain, certificate, folder)  # which now tells its seed
    assert run(["verify", str(path), "--model", "pictured:score"]) == 0


def stopped_under_way(service: ServeProcess, gate: Gate, x: np.ndarray[Any, Any]) -> tuple[int, httpx.Response]:
    """The exit code of a service that is told to end while it answers, and that answer."""
    answers: list[httpx.Response] = []
    under_way = threading.Thread(target=lambda: answers.append(ask(service, x)))
    with gate:
        under_way.start()
        until(lambda: figure(service, "smoothcert_waiting") == 1)
        service.signal(signal.SIGTERM)
        until(lambda: refuses(service.address))
        assert not answers and service.process is not None and service.process.poll() is None
    code = service.ended()
    under_way.join()
    return code, answers[0]


def test_malformed_requests_are_refused_in_one_line_and_leave_nothing_behind(
    plain: ServeProcess, keyed: ServeProcess, keys: dict[str, str]
) -> None:
    version = httpx.get(plain.model).json()["versions"][0]
    goods = {
        plain: GOOD, keyed: GOOD.replace(b"\r\n\r\n", f"\r\nAuthorization: Bearer {keys['GOOD']}\r\n\r\n".encode(), 1),
    }  # fmt: skip
    for service, good in goods.items():
        assert sent(service.port, good)[0] == 200
    before = {service: service.memory for service in goods}
    for row in ROWS:
        service, raw = keyed if row.keyed else plain, row.raw
        for name, key in keys.items():
            raw = raw.replace(name.encode(), key.encode()) if row.keyed else raw
        status, headers, body = sent(service.port, raw)
        (line,) = body.decode().splitlines()
        said = json.loads(line)["error"]
        assert (status, 400 <= status < 500) == (row.status, True), (row.name, status, said)
        assert row.said.replace(DIGEST, version) in said and not TELLING.search(said), (row.name, said)
        assert headers["content-type"] == "application/json" and sent(service.port, goods[service])[0] == 200, row.name
    for service in goods:
        assert service.memory - before[service] < GROWN
        assert figure(service, "smoothcert_waiting", keys["GOOD"]) == 0
        log = service.log.read_text()
        assert "Traceback" not in log and "unforeseen" not in log
        assert not any(key in log for key in keys.values())


@pytest.mark.parametrize("mode", schemathesis.GenerationMode)
def test_every_operation_answers_as_openapi_says(plain: ServeProcess, mode: Any) -> None:
    call_every_operation(mode, plain.port, httpx.get(plain.model).json()["versions"][0])


def test_a_deadline_abstains_and_says_so(plain: ServeProcess, gate: Gate) -> None:
    before = figure(plain, "smoothcert_abstentions_total")
    for n, closed in ((100_000, False), (100, True)):
        if closed:  # also where the network itself is what holds it up
            with gate:
                found = outputs(ask(plain, pictures(8), n=n, deadline_ms=1))
        else:
            found = outputs(ask(plain, pictures(8), n=n, deadline_ms=1))
        assert found["abstained"] == [True] * 8 and found["label"] == [-1] * 8 and found["certificate"] == [""] * 8
        assert set(found["reason"]) == {"its deadline came before its draws could tell"}
        assert set(found["guarantee"]) == {"none"} and all(draws <= n for draws in found["draws"])
    assert figure(plain, "smoothcert_abstentions_total") == before + 16
    assert outputs(ask(plain, pictures(1)))["abstained"] == [False]


def test_the_same_question_under_the_same_id_is_the_same_answer(plain: ServeProcess) -> None:
    x, wanted = pictures(1, seed=4), [{"name": "votes"}]

    def votes(id: str, **parameters: Any) -> list[int]:
        body = asked(x, id=id, parameters={"n": 10_000, **parameters}, outputs=wanted)
        return list(outputs(httpx.post(f"{plain.model}/infer", json=body))["votes"])

    assert votes("a") == votes("a")
    assert len({tuple(votes(*one)) for one in (("a",), ("b",), ("c",), ("d",))}) > 1
    assert len({tuple(votes("a", alpha=alpha)) for alpha in (0.001, 0.002, 0.003, 0.004)}) > 1


def test_figures_count(plain: ServeProcess) -> None:
    names = ("requests_total", "answers_total", "draws_total", "request_seconds_count")
    before = [figure(plain, f"smoothcert_{name}") for name in names]
    outputs(ask(plain, pictures(3)))
    after = [figure(plain, f"smoothcert_{name}") for name in names]
    requests, answers, draws, timed = (late - early for early, late in zip(before, after, strict=True))
    assert (answers, draws) == (3, 3 * (1100 + 1)) and requests == timed >= 1


def test_keys_keep_clients_apart(keyed: ServeProcess, keys: dict[str, str]) -> None:
    found = outputs(ask(keyed, pictures(1, seed=5), keys["GOOD"]))
    place = f"{keyed.address}/v2/certificates/{found['certificate'][0]}"
    assert httpx.get(place, headers=bearer(keys["GOOD"])).status_code == 200
    for name, status in {"EVIDENCE": 404, "BRIEF": 404, "PREDICT": 403, "REVOKED": 401}.items():
        for accept in ("application/json", BROWSER):
            assert httpx.get(place, headers={**bearer(keys[name]), "accept": accept}).status_code == status, name
    few = [ask(keyed, pictures(1), keys["FEW"], mode="predict") for _ in range(4)]
    assert [one.status_code for one in few] == [200, 200, 200, 429]
    assert 1 <= int(few[-1].headers["retry-after"]) <= 20
    brief = [ask(keyed, pictures(2, seed=seed), keys["BRIEF"], n=2000) for seed in (6, 7)]
    assert [one.status_code for one in brief] == [200, 429] and "draws of key brief" in brief[1].json()["error"]
    assert ask(keyed, pictures(8), keys["BRIEF"], n=2000).status_code == 400
    assert ask(keyed, pictures(1), keys["GOOD"]).status_code == 200


def test_killed_and_started_again_it_has_what_it_gave(
    keyed: ServeProcess, keys: dict[str, str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    xs, key, memory = pictures(8, seed=8), keys["GOOD"], str(folder / "keyed" / "m.sqlite")
    first = outputs(ask(keyed, xs, key, n=5000))
    assert set(first["guarantee"]) == {"memory"} and min(first["radius"]) > 0
    keyed.kill()
    keyed.again()
    again = outputs(ask(keyed, xs, key))
    assert (
        again["draws"] == [0] * 8 and again["label"] == first["label"] and again["certificate"] == first["certificate"]
    )
    assert all(late >= early for early, late in zip(first["radius"], again["radius"], strict=True))
    toward = torch.nn.functional.normalize(pictured.WEIGHT, dim=0).numpy().reshape(1, *SHAPE)
    steps = 0.9 * np.array(first["radius"], dtype=np.float32).reshape(-1, 1, 1, 1)
    near = outputs(ask(keyed, np.clip(xs + steps * toward, 0, 1).astype(np.float32), key))
    assert near["draws"] == [0] * 8 and near["label"] == first["label"]
    assert figure(keyed, "smoothcert_regions", key) >= 8 and figure(keyed, "smoothcert_memory_hits_total", key) == 16
    path = fetched(keyed, first["certificate"][0], folder, key)
    assert run(["verify", str(path)]) == 1  # a memory answered
    assert run(["verify", str(path), "--memory", memory]) == 0
    assert run(["memory", "check", memory]) == 0
    capsys.readouterr()


def test_a_folder_has_one_service(plain: ServeProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", *plain.words, "--port", "0", "--check"]) != 0
    assert "must be of one service at a time; another one is running there" in capsys.readouterr().err
