"""Requests that are none, as bytes: what each gets, and what it is told. A new trick is a new row."""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

from fake_core import DIGEST, SHAPE

INFER = "/v2/models/tiny/infer"
GREY = [[[[0.5] * 4] * 4] * 3]
SIZE = 48


class Malformed(NamedTuple):
    """One request, its status, and words of its refusal. Half a request is sent, then nothing."""

    name: str
    raw: bytes
    status: int
    said: str
    keyed: bool = False  # sent to the service that asks for keys


def http(body: bytes = b"", *headers: str, path: str = INFER, method: str = "POST", length: int | None = -1,
         host: str = "127.0.0.1") -> bytes:  # fmt: skip
    """A request; its length is told truly, or as given, or not at all."""
    told = [] if length is None else [f"Content-Length: {len(body) if length < 0 else length}"]
    head = [f"{method} {path} HTTP/1.1", f"Host: {host}", *told, *headers]
    return "".join(f"{line}\r\n" for line in head).encode("utf-8", "surrogateescape") + b"\r\n" + body


def tensor(**changes: Any) -> dict[str, Any]:
    found = {"name": "x", "shape": [1, *SHAPE], "datatype": "FP32", "data": GREY, **changes}
    return {name: value for name, value in found.items() if value is not ...}


def request(*headers: str, tensor_: Any = None, **more: Any) -> bytes:
    return http(json.dumps({"inputs": [tensor_ or tensor()], **more}).encode(), *headers)


def given(**parameters: Any) -> bytes:
    return request(parameters=parameters)


def with_data(text: str, datatype: str = "FP32", shape: str = "[1,3,4,4]") -> bytes:
    body = f'{{"inputs":[{{"name":"x","shape":{shape},"datatype":"{datatype}","data":{text}}}]}}'
    return http(body.encode())


def flat(value: str) -> str:
    return "[" + ",".join(["0.5"] * (SIZE - 1) + [value]) + "]"


def binary(raw: bytes, size: Any, length: str | None = None, **changes: Any) -> bytes:
    text = json.dumps({"inputs": [tensor(data=..., parameters={"binary_data_size": size}, **changes)]}).encode()
    told = str(len(text)) if length is None else length
    return http(text + raw, *([f"Inference-Header-Content-Length: {told}"] if told else []))


RAW = struct.pack("<48f", *[0.5] * 48)
NAN = struct.pack("<48f", *[0.5] * 47, float("nan"))
INF = struct.pack("<48f", *[0.5] * 47, float("inf"))
BIG = struct.pack(">48f", *[0.5] * 47, 0.6)  # the wrong end first
GOOD = request()
BODY = json.dumps({"inputs": [tensor()]}).encode()

ROWS = (
    # what is no JSON, or too much of it
    Malformed("empty body", http(), 400, "must be JSON"),
    Malformed("not JSON", http(b"hello"), 400, "must be JSON"),
    Malformed("half of JSON", http(BODY[:-5]), 400, "must be JSON"),
    Malformed("bytes that are no UTF-8", http(b'{"id": "\xff\xfe"}'), 400, "must be JSON"),
    Malformed("UTF-16 that ends within a character", http("{}".encode("utf-16")[:-1]), 400, "must be JSON"),
    Malformed("a list", http(b"[]"), 400, "must be a JSON object; got a list"),
    Malformed("a number", http(b"7"), 400, "must be a JSON object; got a number"),
    Malformed("null", http(b"null"), 400, "must be a JSON object; got nothing"),
    Malformed("lists without end", http(b"[" * 60_000), 400, "nested too deeply"),
    Malformed("objects without end", http(b'{"a":' * 12_000), 400, "nested too deeply"),
    Malformed("nested 100 deep", with_data("[" * 100 + "]" * 100), 400, "nested more than 64 deep"),
    Malformed("a name twice", http(BODY[:-1] + b',"id":"a","id":"b"}'), 400, "a key stands there twice"),
    Malformed("a number of 5000 digits", with_data(flat("9" * 5000)), 400, "must be JSON"),
    Malformed("a number of 30 digits", with_data(flat("9" * 30)), 400, "more than 64 bits"),
    Malformed("a number beyond floats", with_data(flat("1e999")), 400, "inf is no number"),
    Malformed("NaN in JSON", with_data(flat("NaN")), 400, "NaN is no number"),
    Malformed("Infinity in JSON", with_data(flat("Infinity")), 400, "Infinity is no number"),
    Malformed("-Infinity in JSON", with_data(flat("-Infinity")), 400, "-Infinity is no number"),
    Malformed("a long id list", request(outputs=[{"name": "label"}] * 9000), 413, "must have at most"),
    Malformed("much beside the data", http(BODY[:-1] + b',"id":"' + b"x" * 66_000 + b'"}'), 400, "must be short"),
    # tensors
    Malformed("no inputs", http(b"{}"), 400, "inputs of the request must be a list of one tensor, 'x'; got nothing"),
    Malformed("two inputs", http(json.dumps({"inputs": [tensor(), tensor()]}).encode()), 400, "got 2 items"),
    Malformed("an input that is a number", http(b'{"inputs": [1]}'), 400, "list of one tensor"),
    Malformed("inputs by name", http(b'{"inputs": {"x": 1}}'), 400, "list of one tensor, 'x'; got an object"),
    Malformed("another name", request(tensor_=tensor(name="y")), 400, "name of the input must be 'x'; got 'y'"),
    Malformed("a name that is a number", request(tensor_=tensor(name=7)), 400, "name must be text; got 7"),
    Malformed("no name", request(tensor_=tensor(name=...)), 400, "name of request inputs[0] is missing"),
    Malformed("no shape", request(tensor_=tensor(shape=...)), 400, "shape of request inputs[0] is missing"),
    Malformed("no data", request(tensor_=tensor(data=...)), 400, "data of the input must be a list of numbers"),
    Malformed("a field too many", request(tensor_=tensor(colour=1)), 400, "is called 'colour'"),
    Malformed("another datatype", request(tensor_=tensor(datatype="FP16")), 400, "one of FP32, UINT8; got 'FP16'"),
    Malformed("a datatype in small letters", request(tensor_=tensor(datatype="fp32")), 400, "got 'fp32'"),
    Malformed("another shape", request(tensor_=tensor(shape=[1, 3, 4, 5])), 400, "must be ['batch', 3, 4, 4]"),
    Malformed("no batch", request(tensor_=tensor(shape=[3, 4, 4])), 400, "must be ['batch', 3, 4, 4]"),
    Malformed("an empty batch", request(tensor_=tensor(shape=[0, 3, 4, 4], data=[])), 400, "must be ['batch'"),
    Malformed("a negative batch", request(tensor_=tensor(shape=[-1, 3, 4, 4])), 400, "must be ['batch', 3, 4, 4]"),
    Malformed("a batch too large", request(tensor_=tensor(shape=[9, 3, 4, 4])), 400, "at most 8 inputs; got 9"),
    Malformed("a huge batch", request(tensor_=tensor(shape=[2**62, 3, 4, 4])), 400, "at most 8 inputs"),
    Malformed("a batch of 1.5", request(tensor_=tensor(shape=[1.5, 3, 4, 4])), 400, "must be a whole number; got 1.5"),
    Malformed("a batch of true", request(tensor_=tensor(shape=[True, 3, 4, 4])), 400, "a whole number; got True"),
    Malformed("a shape without end", request(tensor_=tensor(shape=[1] * 5000)), 400, "must be ['batch', 3, 4, 4]"),
    Malformed("too few values", with_data("[0.5]"), 400, "must hold 48 values for shape [1, 3, 4, 4]; got 1"),
    Malformed("no values", with_data("[]"), 400, "must hold 48 values"),
    Malformed("too many values", with_data(flat("0.5,0.5")), 400, "got 49"),
    Malformed("a ragged list", with_data("[[[[0,0,0,0],[0,0,0]]]]"), 400, "must be nested as its shape"),
    Malformed("nested too far", with_data(json.dumps([GREY])), 400, "must be nested as its shape"),
    Malformed("lists among numbers", with_data(flat("[0.5]")), 400, "must be numbers for FP32; got [0.5]"),
    Malformed("text as data", with_data('"0.5"'), 400, "must be a list of numbers; got '0.5'"),
    Malformed("text among numbers", with_data(flat('"0.5"')), 400, "must be numbers for FP32; got '0.5'"),
    Malformed("true among numbers", with_data(flat("true")), 400, "must be numbers for FP32; got True"),
    Malformed("null among numbers", with_data(flat("null")), 400, "must be numbers for FP32; got None"),
    Malformed("above 1", with_data(flat("1.0001")), 400, "must be in [0, 1] for FP32; got 1.0001"),
    Malformed("below 0", with_data(flat("-0.1")), 400, "must be in [0, 1] for FP32; got -0.1"),
    Malformed("a large number", with_data(flat("1e300")), 400, "must be in [0, 1] for FP32; got 1e+300"),
    Malformed("8 bits of 0.5", with_data(flat("0.5"), "UINT8"), 400, "must be whole numbers for UINT8; got 0.5"),
    Malformed("8 bits of 256", with_data(f"[{','.join(['256'] * SIZE)}]", "UINT8"), 400, "must be in [0, 255]"),
    Malformed("8 bits of -1", with_data(f"[{','.join(['-1'] * SIZE)}]", "UINT8"), 400, "must be in [0, 255]"),
    # binary tensors
    Malformed("NaN in binary", binary(NAN, 192), 400, "must be in [0, 1] for FP32; got nan"),
    Malformed("infinity in binary", binary(INF, 192), 400, "must be in [0, 1] for FP32; got inf"),
    Malformed("the wrong end first", binary(BIG, 192), 400, "must be in [0, 1]"),
    Malformed("a size that lies", binary(RAW, 191), 400, "must be what follows the JSON; got 191, and 192 bytes"),
    Malformed("a size beyond the body", binary(RAW, 10**9), 400, "must be what follows the JSON"),
    Malformed("a negative size", binary(RAW, -1), 400, "binary_data_size of the input must be a whole number"),
    Malformed("a size of text", binary(RAW, "192"), 400, "binary_data_size of the input must be a whole number"),
    Malformed("a size of null", binary(RAW, None), 400, "binary_data_size of the input must be a whole number"),
    Malformed("too few bytes", binary(RAW[:-4], 188), 400, "must be 192 for FP32 [1, 3, 4, 4]; got 188"),
    Malformed("bytes for another datatype", binary(RAW, 192, datatype="UINT8"), 400, "must be 48 for UINT8"),
    Malformed("no length of JSON", binary(RAW, 192, ""), 400, "must be JSON"),
    Malformed("a length of 0", binary(RAW, 192, "0"), 400, "between 1 and the"),
    Malformed("a negative length", binary(RAW, 192, "-5"), 400, "between 1 and the"),
    Malformed("a length beyond the body", binary(RAW, 192, "100000"), 400, "between 1 and the"),
    Malformed("a length of words", binary(RAW, 192, "much"), 400, "between 1 and the"),
    Malformed("a length of other digits", binary(RAW, 192, "١٢"), 400, "between 1 and the"),
    Malformed("a length within the JSON", binary(RAW, 192, "20"), 400, "must be JSON"),
    Malformed("bytes that nobody counts", http(BODY + RAW, f"Inference-Header-Content-Length: {len(BODY)}"), 400,
              "must be counted by binary_data_size; got 192 that are not"),
    Malformed("data twice", http(
        (text := json.dumps({"inputs": [tensor(parameters={"binary_data_size": 192})]}).encode()) + RAW,
        f"Inference-Header-Content-Length: {len(text)}"), 400, "must be JSON or binary; got both"),
    Malformed("shared memory", request(tensor_=tensor(parameters={"shared_memory_region": "a"})), 400,
              "must be binary_data_size alone; got 'shared_memory_region'"),
    # parameters and outputs
    Malformed("an unknown parameter", given(epsilon=1), 400,
              "must be among mode, radius, alpha, n, deadline_ms; got 'epsilon'"),
    Malformed("a parameter of Triton's", given(priority=1), 400, "is a parameter of Triton's"),
    Malformed("a sequence", given(sequence_id=1, sequence_start=True), 400, "is a parameter of Triton's"),
    Malformed("parameters in a list", request(parameters=[1]), 400, "parameters must be a table"),
    Malformed("a parameter that is a list", given(alpha=[0.1]), 400, "must be text, a number or a truth value"),
    Malformed("a parameter that is null", given(alpha=None), 400, "must be text, a number or a truth value"),
    Malformed("another mode", given(mode="guess"), 400, "must be predict or certify; got 'guess'"),
    Malformed("a mode of 1", given(mode=1), 400, "must be predict or certify; got 1"),
    Malformed("alpha of 0.5", given(alpha=0.5), 400, "alpha of the request must be a number of at most 0.05; got 0.5"),
    Malformed("alpha of 0", given(alpha=0), 400, "alpha of the request must be a finite number of at least 1e-09"),
    Malformed("alpha as text", given(alpha="0.01"), 400, "alpha of the request must be a finite number"),
    Malformed("n of 0", given(n=0), 400, "n of the request must be a whole number of at least 1; got 0"),
    Malformed("n beyond the limit", given(n=100_001), 400, "n of the request must be a whole number of at most 100000"),
    Malformed("n of true", given(n=True), 400, "n of the request must be a whole number"),
    Malformed("n of 10.5", given(n=10.5), 400, "n of the request must be a whole number"),
    Malformed("a negative radius", given(radius=-0.1), 400, "radius of the request must be a finite number"),
    Malformed("a radius to predict", given(mode="predict", radius=0.5), 400, "needs mode certify"),
    Malformed("no time", given(deadline_ms=0), 400, "deadline_ms of the request must be a finite number of at least 1"),
    Malformed("too much time", given(deadline_ms=600_001), 400, "must be a number of at most 600000"),
    Malformed("binary as text", given(binary_data_output="yes"), 400, "must be true or false; got 'yes'"),
    Malformed("an unknown output", request(outputs=[{"name": "logits"}]), 400, "must be among label, radius"),
    Malformed("an output twice", request(outputs=[{"name": "label"}] * 2), 400, "got 'label' twice"),
    Malformed("an output without a name", request(outputs=[{}]), 400, "name of request outputs[0] is missing"),
    Malformed("outputs by name", request(outputs={"label": 1}), 400, "outputs must be a list"),
    Malformed("classes of an output", request(outputs=[{"name": "label", "parameters": {"classification": 3}}]), 400,
              "must be binary_data alone; got 'classification'"),
    Malformed("a field of its own", request(tensors=[]), 400, "no field of request is called 'tensors'"),
    Malformed("an id of 1", request(id=1), 400, "id must be text; got 1"),
    Malformed("a long id", request(id="a" * 129), 400, "id of the request must be at most 128 printable"),
    Malformed("an id of control characters", request(id="a\nb\x1b[31m"), 400, "printable characters"),
    Malformed("an id of half a character", request(id="\ud800"), 400, "printable characters"),
    # addresses
    Malformed("another model", http(BODY, path="/v2/models/other/infer"), 404, "must be 'tiny'; got 'other'"),
    Malformed("a model that turns lines", http(BODY, path="/v2/models/a%0d%0ab/infer"), 404, "must be 'tiny'"),
    Malformed("another version", http(BODY, path="/v2/models/tiny/versions/1/infer"), 404, f"must be {DIGEST}"),
    Malformed("another address", http(path="/v1/models", method="GET"), 404, "one that /openapi.json lists"),
    Malformed("up and out", http(path="/static/../../etc/passwd", method="GET"), 404, "/openapi.json lists"),
    Malformed("up and out, spelled", http(path="/static/..%2f..%2fvalues", method="GET"), 404, "/openapi.json"),
    Malformed("a file that is elsewhere", http(path="/static/..", method="GET"), 404, "file of the page must be"),
    Malformed("another method", http(path=INFER, method="GET"), 405, "must be POST; got 'GET'"),
    Malformed("a method of no one", http(method="BREW"), 405, "must be POST; got 'BREW'"),
    Malformed("a slash too many", http(BODY, path=f"{INFER}/"), 404, "/openapi.json lists"),
    Malformed("no such certificate", http(path="/v2/certificates/none", method="GET"), 404, "one that was made"),
    Malformed("a certificate of strange name", http(path="/v2/certificates/%00", method="GET"), 404, "certificate"),
    Malformed("an example of -1", http(path="/v2/examples/-1", method="GET"), 404, "must be below 2; got '-1'"),
    Malformed("an example of 10^30", http(path=f"/v2/examples/{10**30}", method="GET"), 404, "must be below 2"),
    # headers, lengths, connections
    Malformed("two lengths", http(BODY, "Content-Length: 3"), 400, "must be HTTP/1.1"),
    Malformed("a length and chunks", http(b"0\r\n\r\n", "Transfer-Encoding: chunked"), 400, "in one way"),
    Malformed("two lengths of JSON", http(BODY, *["Inference-Header-Content-Length: 5"] * 2), 400, "given once"),
    Malformed("two authorizations", http(BODY, *["Authorization: Bearer a"] * 2), 400, "must be given once"),
    Malformed("two hosts", http(BODY, "Host: b"), 400, ""),
    Malformed("a negative length of all", http(BODY, length=None).replace(b"Host", b"Content-Length: -1\r\nHost"), 400,
              "must be HTTP/1.1"),
    Malformed("a length told too long", http(length=10**12), 413, "must have at most"),
    Malformed("a length of many digits", http(length=10**19), 413, "must have at most"),
    Malformed("a chunk that lies", http(b"zz\r\n", "Transfer-Encoding: chunked", length=None), 400, "must be HTTP/1.1"),
    Malformed("endless chunks", http(b"10000\r\n" + b" " * 65536 + b"\r\n", "Transfer-Encoding: chunked", length=None)
              + (b"10000\r\n" + b" " * 65536 + b"\r\n") * 8, 413, "must have at most"),
    Malformed("a compressed body", http(BODY, "Content-Encoding: gzip"), 415, "must not be compressed"),
    Malformed("a head too long", http(BODY, "X: " + "a" * 40_000), 431, "headers of the request must have at most"),
    Malformed("no HTTP", b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", 400, "must be HTTP/1.1"),
    Malformed("a header that turns lines", http(BODY, "X-A: b\x00c"), 400, "must be HTTP/1.1"),
    Malformed("no host", GOOD.replace(b"Host: 127.0.0.1\r\n", b""), 400, "must be HTTP/1.1"),
    Malformed("a host made to point here", http(BODY, host="evil.example"), 403, "one that this service knows"),
    Malformed("a page from elsewhere", http(BODY, "Origin: http://evil.example"), 403, "origin of a request without"),
    # keys
    Malformed("no key", GOOD, 401, "must be `Bearer KEY`", True),
    Malformed("another way in", http(BODY, "Authorization: Basic YTpi"), 401, "must be `Bearer KEY`", True),
    Malformed("an empty key", http(BODY, "Authorization: Bearer "), 401, "", True),
    Malformed("a wrong key", http(BODY, "Authorization: Bearer smc_wrong"), 401, "and not revoked; got another", True),
    Malformed("a key that is no text", http(BODY, "Authorization: Bearer \udcff\udcfe"), 401, "got another", True),
    Malformed("a revoked key", http(BODY, "Authorization: Bearer REVOKED"), 401, "and not revoked", True),
    Malformed("a key without the scope", http(BODY, "Authorization: Bearer EVIDENCE"), 403, "predict or certify", True),
    Malformed("a key of the other scope", http(BODY, "Authorization: Bearer PREDICT"), 403, "include certify", True),
    Malformed("a key for its query", http(BODY, path=f"{INFER}?key=smc_wrong"), 401, "must be `Bearer KEY`", True),
    Malformed("another's certificate", http(b"", "Authorization: Bearer EVIDENCE",
              path="/v2/certificates/0123456789abcdef", method="GET"), 404, "made for this key", True),
    Malformed("figures without a key", http(path="/metrics", method="GET"), 401, "must be `Bearer KEY`", True),
    Malformed("a description without a key", http(path="/v2/models/tiny", method="GET"), 401, "`Bearer KEY`", True),
)  # fmt: skip
