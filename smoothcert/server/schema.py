"""What OpenAPI says of the service: the shapes of requests and answers, and every way in which one is refused."""

from __future__ import annotations

import re
from typing import Any

from smoothcert.server.outputs import OUTPUTS
from smoothcert.server.values import ServedModel, ServiceLimits

Json = dict[str, Any]

REFUSALS = {
    400: "Not a request of this protocol, or outside of what the operator allows.",
    401: "No key, or none that is good.",
    403: "The key lacks the scope.",
    404: "There is no such thing, or not for this key.",
    408: "The body took too long.",
    413: "The body is too long.",
    415: "The body is compressed.",
    431: "The headers are too long.",
    429: "The key's requests or draws of this minute are used up; Retry-After says when to come again.",
    500: "A defect; the id of the request finds it in the log.",
    503: "Not ready, or too much waits already; Retry-After says when to come again.",
}
ALWAYS = (400, 403, 431, 500)
KEYED = (401, 429)


def text(description: str) -> Json:
    return {"type": "string", "description": description}


def listed(items: Json, **more: Any) -> Json:
    return {"type": "array", "items": items, **more}


def table(required: str, **properties: Json) -> Json:
    return {"type": "object", "required": required.split(), "properties": properties}


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def answer(description: str, schema: Json, media: str = "application/json") -> Json:
    return {"description": description, "content": {media: {"schema": schema}}}


def refusals(*statuses: int) -> dict[int | str, Json]:
    """How an operation says no; `default` covers what proxies and frameworks add."""
    found: dict[int | str, Json] = {
        status: answer(REFUSALS[status], ref("Refusal")) for status in sorted({*ALWAYS, *statuses})
    }
    return {**found, "default": answer("Any other refusal.", ref("Refusal"))}


def in_path(path: str) -> list[Json]:
    """The parameters between the braces of a path."""
    names = re.findall(r"{(\w+)}", path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


PLAIN: Json = {"type": ["string", "number", "boolean"]}
PARAMETERS: Json = {"type": "object", "additionalProperties": PLAIN}
SHAPE = listed({"type": "integer"})
TENSOR = table("name datatype shape", name=text("Name."), datatype=text("Of its values."), shape=SHAPE)


def components(model: ServedModel, limits: ServiceLimits) -> Json:
    """The schemas that operations refer to, for this model."""
    return {
        "Refusal": table("error", error=text("What of whom must be what, and what it was instead.")),
        "ServerMetadata": table(
            "name version extensions", name=text("smoothcert"), version=text("Of smoothcert."),
            extensions=listed({"type": "string"}), parameters=PARAMETERS,
        ),
        "Live": table("live", live={"type": "boolean"}),
        "Ready": table("ready", ready={"type": "boolean"}),
        "ModelReady": table("name ready", name=text("The model."), ready={"type": "boolean"}),
        "ModelMetadata": table(
            "name versions platform inputs outputs parameters", name=text("The model."),
            versions=listed(text("Its digest, SHA-256.")), platform=text("smoothcert"), inputs=listed(TENSOR),
            outputs=listed(TENSOR), parameters=PARAMETERS, class_names=listed({"type": "string"}),
        ),
        "InferRequest": infer_request(model, limits),
        "InferAnswer": table(
            "model_name model_version id parameters outputs", model_name=text("The model."),
            model_version=text("Its digest."), id=text("Of the request."), parameters=PARAMETERS,
            outputs=listed({**TENSOR, "properties": {**TENSOR["properties"], "data": listed({}),
                                                     "parameters": PARAMETERS}}),
        ),
        "Certificate": {"type": "object", "description": "A document that `smoothcert verify FILE` checks."},
        "Examples": listed({"type": "string"}, description="Names of inputs; the first is number 0."),
    }  # fmt: skip


def infer_request(model: ServedModel, limits: ServiceLimits) -> Json:
    """A request's JSON."""
    positive: Json = {"type": "number", "exclusiveMinimum": 0}
    parameters = table(
        "",
        mode={"enum": ["certify", "predict"], "default": "certify", "description": "predict: a label without radius"},
        radius={"type": "number", "minimum": 0, "description": "To decide; less work than the largest."},
        alpha={"type": "number", "minimum": limits.least_alpha, "maximum": limits.most_alpha},
        n={"type": "integer", "minimum": 1, "maximum": limits.draws, "description": "Draws an input."},
        deadline_ms={**positive, "minimum": 1, "maximum": 1000 * limits.longest},
        binary_data_output={"type": "boolean", "description": "Outputs as raw bytes after the JSON."},
    )
    image = table(
        "name shape datatype",
        name={"const": "x"},
        shape={
            "type": "array",
            "prefixItems": [{"type": "integer", "minimum": 1, "maximum": limits.inputs}, *map(constant, model.shape)],
            "minItems": 1 + len(model.shape),
            "maxItems": 1 + len(model.shape),
        },
        datatype={"enum": ["FP32", "UINT8"], "description": "FP32 in [0,1], or UINT8."},
        data=listed({}, description="Numbers in row-major order, flat or nested."),
        parameters={"type": "object", "properties": {"binary_data_size": {"type": "integer", "minimum": 0}},
                    "additionalProperties": False},
    )  # fmt: skip
    output = table(
        "name",
        name={"enum": list(OUTPUTS)},
        parameters={"type": "object", "properties": {"binary_data": {"type": "boolean"}},
                    "additionalProperties": False},
    )  # fmt: skip
    return {
        **table("inputs", id={**text("Echoed; made if there is none."), "maxLength": 128},
                parameters=closed(parameters), inputs=listed(closed(image), minItems=1, maxItems=1),
                outputs=listed(closed(output), maxItems=len(OUTPUTS), uniqueItems=True)),
        "additionalProperties": False,
        "examples": [example(model)],
    }  # fmt: skip


def constant(value: int) -> Json:
    return {"const": value}


def closed(schema: Json) -> Json:
    return {**schema, "additionalProperties": False}


def example(model: ServedModel) -> Json:
    """The smallest request that is answered."""
    data: Any = 0
    for size in reversed(model.shape):
        data = [data] * size
    return {"inputs": [{"name": "x", "shape": [1, *model.shape], "datatype": "UINT8", "data": [data]}]}
