"""Open Inference Protocol v2 (REST), the way out: answers → tensors by name → bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from smoothcert.server.tensors import to_bytes
from smoothcert.server.values import CertifiedAnswer, InferRequest, ServedModel

HEADER_LENGTH = "inference-header-content-length"


class OutputKind(NamedTuple):
    """What an output is made of."""

    datatype: str
    value: Callable[[CertifiedAnswer], Any]


OUTPUTS: Mapping[str, OutputKind] = {
    "label": OutputKind("INT64", lambda answer: answer.label),
    "radius": OutputKind("FP64", lambda answer: answer.radius),
    "abstained": OutputKind("BOOL", lambda answer: answer.abstained),
    "draws": OutputKind("INT64", lambda answer: answer.draws),
    "guarantee": OutputKind("BYTES", lambda answer: answer.guarantee),
    "certificate": OutputKind("BYTES", lambda answer: answer.certificate),
    "reason": OutputKind("BYTES", lambda answer: answer.reason),
    "votes": OutputKind("INT64", lambda answer: answer.votes),  # of every class; only where a request names it
}
USUAL = tuple(name for name in OUTPUTS if name != "votes")


def render(request: InferRequest, wanted: Mapping[str, bool], answers: Sequence[CertifiedAnswer],
           model: ServedModel) -> tuple[bytes, dict[str, str]]:  # fmt: skip
    """The answer's bytes, and the headers that describe them; outputs that are wanted as true are binary."""
    described, raw = [], []
    for name, binary in wanted.items():
        datatype, value = OUTPUTS[name]
        shape, values = [len(answers)], [value(answer) for answer in answers]
        if name == "votes":  # a memory that answered has counted none
            shape, values = [len(answers), model.classes], _votes(values, model.classes)
        output: dict[str, Any] = {"name": name, "datatype": datatype, "shape": shape}
        if binary:
            raw.append(to_bytes(values, datatype))
            output["parameters"] = {"binary_data_size": len(raw[-1])}
        else:
            output["data"] = values
        described.append(output)
    text = json.dumps(
        {
            "model_name": model.name,
            "model_version": model.version,
            "id": request.id,
            "parameters": _stood_under(request, model),
            "outputs": described,
        },
        separators=(",", ":"),
        allow_nan=False,
    ).encode()
    if not raw:
        return text, {"content-type": "application/json"}
    return b"".join([text, *raw]), {"content-type": "application/octet-stream", HEADER_LENGTH: str(len(text))}


def _votes(votes: Sequence[Sequence[int]], classes: int) -> list[int]:
    return [count for each in votes for count in (each or (0,) * classes)]


def _stood_under(request: InferRequest, model: ServedModel) -> dict[str, str | float | bool]:
    """The model's parameters, with the request's own in their place; a prediction has no radius.

    The operator's n is for certificates of the largest radius: for other questions it is not the number of draws.
    """
    own = {"alpha": request.alpha, "radius": request.radius, "n": request.n}
    found = {
        **model.parameters(),
        **{name: value for name, value in own.items() if value is not None},
        "mode": request.mode,
    }
    if request.mode == "predict":
        found.pop("radius", None)
    if request.n is None and (request.mode == "predict" or "radius" in found):
        del found["n"]
    return found
