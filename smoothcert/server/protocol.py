"""Open Inference Protocol v2 (REST), the way in: bytes → `InferRequest`; outputs.py is the way out.

    {"inputs": [{"name": "x", "shape": [1, 3, 32, 32], "datatype": "FP32", "data": […]}],
     "parameters": {"mode": "certify", "alpha": 0.001}}

A header `Inference-Header-Content-Length: N` says that JSON ends after N bytes and raw tensors follow, each as long as
its `binary_data_size`. The `id` of a request is echoed and logged. It is trusted with nothing, so that one which comes
again does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from smoothcert.errors import OptionError, SmoothcertError, require_count, require_number
from smoothcert.foreign import parse_json, shown, typed
from smoothcert.server import tensors
from smoothcert.server.outputs import OUTPUTS, USUAL
from smoothcert.server.values import InferRequest, RequestError, ServedModel, ServiceLimits

INPUT = "x"
ROOM = 2**16  # characters of a request beside its data
LONGEST_ID = 128
PARAMETERS = ("mode", "radius", "alpha", "n", "deadline_ms")
TRITON = ("priority", "timeout", "headers")  # Triton gives these a meaning of its own, as it does to the next
TRITON_BEGIN = ("sequence_", "triton_")


class InputTensor(NamedTuple):
    """An input as JSON describes it; its data are elsewhere."""

    name: str
    shape: tuple[int, ...]
    datatype: tensors.InputKind
    parameters: dict[str, Any] | None = None


class WantedOutput(NamedTuple):
    """An output that a request asks for."""

    name: str
    parameters: dict[str, Any] | None = None


class InferBody(NamedTuple):
    """The JSON of a request."""

    inputs: tuple[InputTensor]
    id: str | None = None
    parameters: dict[str, Any] | None = None
    outputs: tuple[WantedOutput, ...] | None = None


class ParsedRequest(NamedTuple):
    """A request, and the outputs that it wants; those that are to be binary are true."""

    request: InferRequest
    wanted: Mapping[str, bool]


def largest_body(model: ServedModel, limits: ServiceLimits) -> int:
    """Bytes beyond which no request can be one for this model: 32 a number are more than JSON needs."""
    numbers = limits.inputs
    for size in model.shape:
        numbers *= size
    return min(limits.body, ROOM + 32 * numbers)


def parse(body: bytes, header_length: str | None, model: ServedModel, limits: ServiceLimits, made_id: str,
          key: str = "") -> ParsedRequest:  # fmt: skip
    """A request out of its bytes; RequestError(400) says in what it is none."""
    try:
        text, binary = _parts(body, header_length)
        found = parse_json(text, "body of the request")
        data = _take_data(found)
        described = cast(InferBody, typed(InferBody, found, "request"))
        parameters = _plain(described.parameters or {}, "the request")
        wanted = _wanted(described.outputs or (), bool(_flag(parameters, "binary_data_output", "the request")))
        inputs = _tensor(described.inputs[0], data, binary, model, limits)
        asked = _asked(parameters, limits)
    except (SmoothcertError, TypeError, ValueError) as cause:
        raise RequestError(400, str(cause)) from cause
    return ParsedRequest(InferRequest(_id(described.id) or made_id, inputs, key=key, **asked), wanted)


def _parts(body: bytes, header_length: str | None) -> tuple[bytes, bytes | None]:
    """JSON, and what follows it; None where nothing may."""
    if header_length is None:
        return body, None
    length = (
        int(header_length) if header_length.isascii() and header_length.isdigit() and len(header_length) < 20 else -1
    )
    if not 0 < length <= len(body):
        raise OptionError(
            f"Inference-Header-Content-Length must be a length of JSON between 1 and the {len(body)} bytes of the "
            f"body; got {shown(header_length)}"
        )
    return body[:length], body[length:]


def _take_data(found: Any) -> Any:
    """Take the data, which is long, out of what is looked at value by value; the rest must be short."""
    if not isinstance(found, dict):
        raise OptionError(f"body of the request must be a JSON object; got {_kind(found)}")
    inputs = found.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        got = f"{len(inputs)} items" if isinstance(inputs, list) else _kind(inputs)
        raise OptionError(f"inputs of the request must be a list of one tensor, '{INPUT}'; got {got}")
    data = inputs[0].pop("data", None)
    if len(repr(found)) > ROOM:
        raise OptionError(f"all of the request but its data must be short; got more than {ROOM} characters")
    return data


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "a truth value", type(None): "nothing"}
    return kinds.get(type(value), "a number")


def _tensor(described: InputTensor, data: Any, binary: bytes | None, model: ServedModel, limits: ServiceLimits) -> Any:
    """The inputs themselves, of the model's shape."""
    name, shape, datatype, parameters = described
    if name != INPUT:
        raise OptionError(f"name of the input must be '{INPUT}'; got {shown(name)}")
    if len(shape) != 1 + len(model.shape) or shape[1:] != model.shape or shape[0] < 1:
        raise OptionError(f"shape of the input must be {['batch', *model.shape]}; got {shown(list(shape))}")
    if shape[0] > limits.inputs:
        raise OptionError(f"shape of the input must begin with at most {limits.inputs} inputs; got {shape[0]}")
    if other := set(parameters or {}) - {"binary_data_size"}:
        raise OptionError(f"parameters of the input must be binary_data_size alone; got {shown(min(other))}")
    if parameters is None or "binary_data_size" not in parameters:
        if binary:
            raise OptionError(
                f"bytes after the JSON must be counted by binary_data_size; got {len(binary)} that are not"
            )
        return tensors.from_json(data, shape, datatype)
    size = parameters["binary_data_size"]
    require_count("the input", least=0, binary_data_size=size)
    if data is not None:
        raise OptionError("data of the input must be JSON or binary; got both")
    if binary is None or size != len(binary):
        got = "no Inference-Header-Content-Length" if binary is None else f"{len(binary)} bytes after the JSON"
        raise OptionError(f"binary_data_size of the input must be what follows the JSON; got {size}, and {got}")
    return tensors.from_bytes(binary, shape, datatype)


def _plain(parameters: Mapping[str, Any], whose: str) -> dict[str, str | int | float | bool]:
    """Parameters as the protocol has them."""
    for name, value in parameters.items():
        if not isinstance(value, str | int | float | bool):
            raise OptionError(f"{name} of {whose} must be text, a number or a truth value; got {_kind(value)}")
    return dict(parameters)


def _flag(parameters: dict[str, Any], name: str, whose: str) -> bool | None:
    """Take a truth value out of parameters; None where there is none."""
    value = parameters.pop(name, None)
    if value is not None and not isinstance(value, bool):
        raise OptionError(f"{name} of {whose} must be true or false; got {shown(value)}")
    return value


def _wanted(outputs: Sequence[WantedOutput], binary: bool) -> Mapping[str, bool]:
    """Which outputs, and which of them in binary."""
    found: dict[str, bool] = {}
    for name, given in outputs:
        if name not in OUTPUTS:
            raise OptionError(f"outputs of the request must be among {', '.join(OUTPUTS)}; got {shown(name)}")
        if name in found:
            raise OptionError(f"outputs of the request must each be named once; got '{name}' twice")
        parameters = _plain(given or {}, f"output {name}")
        own = _flag(parameters, "binary_data", f"output {name}")
        if parameters:
            raise OptionError(f"parameters of output {name} must be binary_data alone; got {shown(min(parameters))}")
        found[name] = binary if own is None else own
    return found or dict.fromkeys(USUAL, binary)


def _asked(parameters: Mapping[str, Any], limits: ServiceLimits) -> dict[str, Any]:
    """What a request asks for, within what the operator allows."""
    for name in parameters:
        if name in TRITON or name.startswith(TRITON_BEGIN):
            raise OptionError(f"{name} of the request is a parameter of Triton's, not of this service; ours are "
                              f"{', '.join(PARAMETERS)}")  # fmt: skip
        if name not in PARAMETERS:
            raise OptionError(f"parameters of the request must be among {', '.join(PARAMETERS)}; got {shown(name)}")
    asked = dict(parameters)
    mode = asked.get("mode", "certify")
    if mode not in ("predict", "certify"):
        raise OptionError(f"mode of the request must be predict or certify; got {shown(mode)}")
    if mode == "predict" and "radius" in asked:
        raise OptionError("radius of the request needs mode certify; got mode predict, which proves no radius")
    whom = "the request"
    if "n" in asked:
        require_count(whom, most=limits.draws, n=asked["n"])
    if "alpha" in asked:
        require_number(whom, limits.least_alpha, limits.most_alpha, alpha=asked["alpha"])
    if "radius" in asked:
        require_number(whom, radius=asked["radius"])
    if "deadline_ms" in asked:
        require_number(whom, 1, 1000 * limits.longest, deadline_ms=asked["deadline_ms"])
        asked["deadline"] = asked.pop("deadline_ms") / 1000
    return asked


def _id(given: str | None) -> str | None:
    if given and (len(given) > LONGEST_ID or not given.isprintable()):
        raise RequestError(400, f"id of the request must be at most {LONGEST_ID} printable characters; got other text")
    return given
