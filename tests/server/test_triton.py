"""A stranger's client: NVIDIA's, as it comes from PyPI, reads metadata and infers in JSON and in binary."""

from __future__ import annotations

import numpy as np
import pytest
from fake_core import DIGEST, SHAPE, FakeCore

http = pytest.importorskip("tritonclient.http")
LEVELS = (0.35, 0.0, 1.0)


@pytest.fixture(scope="module")
def triton(port: int):
    with http.InferenceServerClient(f"127.0.0.1:{port}") as client:
        yield client


def inputs(binary: bool, datatype: str = "FP32"):
    values = np.stack([np.full(SHAPE, level, np.float32) for level in LEVELS])
    if datatype == "UINT8":
        values = (values * 255).round().astype(np.uint8)
    made = http.InferInput("x", list(values.shape), datatype)
    made.set_data_from_numpy(values, binary_data=binary)
    return [made]


def test_it_reads_metadata(triton, core: FakeCore) -> None:
    assert triton.is_server_live() and triton.is_server_ready()
    assert triton.is_model_ready("tiny") and triton.is_model_ready("tiny", DIGEST)
    assert not triton.is_model_ready("other")
    assert triton.get_server_metadata()["name"] == "smoothcert"
    found = triton.get_model_metadata("tiny", DIGEST)
    assert found["inputs"][0]["shape"] == [-1, *SHAPE] and found["parameters"]["sigma"] == 0.25


@pytest.mark.parametrize("datatype", ["FP32", "UINT8"])
@pytest.mark.parametrize("binary_in", [False, True])
@pytest.mark.parametrize("binary_out", [False, True, None])
def test_it_infers(triton, datatype: str, binary_in: bool, binary_out: bool | None) -> None:
    names = ("label", "radius", "abstained", "draws", "guarantee", "certificate", "reason")
    wanted = None if binary_out is None else [http.InferRequestedOutput(n, binary_data=binary_out) for n in names]
    found = triton.infer(
        "tiny", inputs(binary_in, datatype), outputs=wanted, request_id="mine", parameters={"alpha": 0.01, "n": 500}
    )
    assert found.as_numpy("label").tolist() == [3, -1, 9] and found.as_numpy("label").dtype == np.int64
    assert found.as_numpy("radius").tolist() == [0.5, 0.0, 0.5] and found.as_numpy("radius").dtype == np.float64
    assert found.as_numpy("abstained").tolist() == [False, True, False]
    assert found.as_numpy("draws").tolist() == [500, 100, 0]
    texts = [text.decode() if isinstance(text, bytes) else text for text in found.as_numpy("guarantee")]
    assert texts == ["smoothing", "none", "memory"]
    answer = found.get_response()
    assert (answer["id"], answer["model_version"], answer["parameters"]["alpha"]) == ("mine", DIGEST, 0.01)
    assert ("data" in answer["outputs"][0]) == (binary_out is False)


def test_it_is_told_what_is_wrong(triton) -> None:
    from tritonclient.utils import InferenceServerException

    with pytest.raises(
        InferenceServerException, match=r"alpha of the request must be a number of at most 0\.05; got 1"
    ):
        triton.infer("tiny", inputs(True), parameters={"alpha": 1})
    with pytest.raises(InferenceServerException, match="priority of the request is a parameter of Triton's"):
        triton.infer("tiny", inputs(True), priority=3)
    assert triton.infer("tiny", inputs(True)).as_numpy("label").tolist() == [3, -1, 9]
