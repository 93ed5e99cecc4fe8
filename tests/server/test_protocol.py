"""Requests and answers byte by byte: what JSON and binary mean, and that they mean the same."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import numpy as np
import pytest
import torch
from fake_core import DIGEST, SHAPE, FakeCore

from smoothcert.server.outputs import OUTPUTS, USUAL, render
from smoothcert.server.protocol import parse
from smoothcert.server.values import CertifiedAnswer, RequestError

CORE = FakeCore()
GREY = np.full((2, *SHAPE), 0.5, np.float32)
ANSWERS = [
    CertifiedAnswer(3, 0.75, False, 1000, "smoothing", "abcd", votes=tuple(range(10))),
    CertifiedAnswer(-1, 0.0, True, 0, "none", reason="für nichts"),
]


def body(data=None, shape=(2, *SHAPE), datatype="FP32", **more):
    tensor = {"name": "x", "shape": list(shape), "datatype": datatype}
    if data is not None:
        tensor["data"] = data
    return {"inputs": [{**tensor, **more.pop("tensor", {})}], **more}


def parsed(request, raw=None, **options):
    text = json.dumps(request).encode()
    length = None if raw is None else str(len(text))
    return parse(text + (raw or b""), length, CORE.model, CORE.limits, "made", **options)


def test_nested_flat_and_binary_data_are_the_same_inputs():
    values = np.random.default_rng(0).random((2, *SHAPE), np.float32)
    binary = body(tensor={"parameters": {"binary_data_size": values.nbytes}})
    for found in (
        parsed(body(values.tolist())),
        parsed(body(values.ravel().tolist())),
        parsed(binary, values.astype("<f4").tobytes()),
    ):
        assert found.request.inputs.dtype == torch.float32
        assert np.array_equal(found.request.inputs.numpy(), values)


def test_eight_bit_inputs_are_multiples_of_a_255th():
    values = np.arange(2 * 48, dtype=np.uint8).reshape(2, *SHAPE) + 100
    binary = body(datatype="UINT8", tensor={"parameters": {"binary_data_size": values.size}})
    for found in (parsed(body(values.tolist(), datatype="UINT8")), parsed(binary, values.tobytes())):
        assert np.array_equal(found.request.inputs.numpy(), values.astype(np.float32) / np.float32(255))


def test_what_a_request_says_is_what_it_asks():
    asked = {"mode": "certify", "radius": 0.25, "alpha": 0.01, "n": 500, "deadline_ms": 1500}
    found = parsed(body(GREY.tolist(), id="mine", parameters=asked), key="alice").request
    assert (found.id, found.key, found.mode) == ("mine", "alice", "certify")
    assert (found.radius, found.alpha, found.n, found.deadline) == (0.25, 0.01, 500, 1.5)


def test_what_a_request_does_not_say_is_left_to_the_operator():
    found = parsed(body(GREY.tolist(), id=None, parameters=None, outputs=None))
    assert found.request.id == "made" and found.request.mode == "certify"
    assert {found.request.radius, found.request.alpha, found.request.n, found.request.deadline} == {None}
    assert found.wanted == dict.fromkeys(USUAL, False)


def test_outputs_are_those_asked_for_each_as_asked():
    outputs = [{"name": "votes", "parameters": {"binary_data": False}}, {"name": "label"}]
    found = parsed(body(GREY.tolist(), outputs=outputs, parameters={"binary_data_output": True}))
    assert found.wanted == {"votes": False, "label": True}


def test_an_answer_in_json():
    asked = parsed(body(GREY.tolist(), id="mine", parameters={"alpha": 0.01}, outputs=[{"name": n} for n in OUTPUTS]))
    text, headers = render(asked.request, asked.wanted, ANSWERS, CORE.model)
    found = json.loads(text)
    assert headers == {"content-type": "application/json"}
    assert (found["model_name"], found["model_version"], found["id"]) == ("tiny", DIGEST, "mine")
    told = {**CORE.model.parameters(), "alpha": 0.01, "mode": "certify"}
    assert found["parameters"] == {name: value for name, value in told.items() if name != "n"}
    assert {output["name"]: (output["datatype"], output["shape"], output["data"]) for output in found["outputs"]} == {
        "label": ("INT64", [2], [3, -1]),
        "radius": ("FP64", [2], [0.75, 0.0]),
        "abstained": ("BOOL", [2], [False, True]),
        "draws": ("INT64", [2], [1000, 0]),
        "guarantee": ("BYTES", [2], ["smoothing", "none"]),
        "certificate": ("BYTES", [2], ["abcd", ""]),
        "reason": ("BYTES", [2], ["", "für nichts"]),
        "votes": ("INT64", [2, 10], [*range(10), *[0] * 10]),
    }


def test_an_answer_in_binary_is_exactly_these_bytes():
    outputs = [{"name": name} for name in ("label", "radius", "abstained", "reason")]
    asked = parsed(body(GREY.tolist(), outputs=outputs, parameters={"binary_data_output": True}))
    content, headers = render(asked.request, asked.wanted, ANSWERS, CORE.model)
    length = int(headers["inference-header-content-length"])
    reason = "für nichts".encode()
    assert headers["content-type"] == "application/octet-stream"
    assert content[length:] == (
        struct.pack("<qq", 3, -1) + struct.pack("<dd", 0.75, 0.0) + b"\x00\x01"
        + struct.pack("<I", 0) + struct.pack("<I", len(reason)) + reason
    )  # fmt: skip
    sizes = [output["parameters"]["binary_data_size"] for output in json.loads(content[:length])["outputs"]]
    assert sizes == [16, 16, 2, 8 + len(reason)]


def stood_under(model=CORE.model, **parameters):
    asked = parsed(body(GREY.tolist(), parameters=parameters))
    return json.loads(render(asked.request, asked.wanted, ANSWERS, model)[0])["parameters"]


def test_a_prediction_says_no_radius():
    found = stood_under(mode="predict")
    assert "radius" not in found and found["mode"] == "predict"


def test_n_is_told_where_it_is_the_number_of_draws_or_was_asked_for():
    largest = replace(CORE.model, radius=None)
    assert stood_under(largest)["n"] == CORE.model.n and stood_under(radius=0.2, n=700)["n"] == 700
    for model, parameters in ((CORE.model, {}), (largest, {"radius": 0.2}), (largest, {"mode": "predict"})):
        assert "n" not in stood_under(model, **parameters)


@pytest.mark.parametrize("name", ["priority", "timeout", "headers", "sequence_id", "triton_enable_empty"])
def test_names_that_triton_reserves_are_said_to_be_not_ours(name):
    with pytest.raises(RequestError, match=f"{name} of the request is a parameter of Triton's"):
        parsed(body(GREY.tolist(), parameters={name: 1}))
    assert name not in CORE.model.parameters()
