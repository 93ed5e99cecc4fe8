"""What each address answers."""

from __future__ import annotations

import json
import re
from typing import Any

from fastapi import Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from smoothcert import __version__
from smoothcert.foreign import shown
from smoothcert.server import bodies, pages
from smoothcert.server.gate import Gate
from smoothcert.server.keys import ClientKey, Scope
from smoothcert.server.metrics import ServiceMetrics
from smoothcert.server.outputs import HEADER_LENGTH, OUTPUTS, render
from smoothcert.server.protocol import INPUT, largest_body, parse
from smoothcert.server.values import CertifiedAnswer, InferRequest, RequestError, ServiceCore

EXTENSIONS = ("binary_tensor_data", "parameters")
CERTIFICATE = re.compile(r"[A-Za-z0-9_.:-]{1,200}")


def as_json(value: Any, status: int = 200) -> Response:
    """One JSON line."""
    return Response(json.dumps(value, allow_nan=False) + "\n", status, media_type="application/json")


def as_html(text: str | bytes, policy: str) -> Response:
    """A page, with what it may load."""
    return Response(text, headers={"content-security-policy": policy}, media_type="text/html; charset=utf-8")


class ServiceRoutes:
    """The service's operations; `app.py` says under which addresses.

    What a path holds is read from the request: FastAPI would take an argument that a path lacks for a query's.
    """

    def __init__(self, core: ServiceCore, gate: Gate, metrics: ServiceMetrics, open_metrics: bool) -> None:
        self._core, self._gate, self._metrics, self._open_metrics = core, gate, metrics, open_metrics

    async def server(self) -> Response:
        served = {"model": self._core.model.name}
        return as_json({"name": "smoothcert", "version": __version__, "extensions": EXTENSIONS, "parameters": served})

    async def live(self) -> Response:
        return as_json({"live": True})

    async def ready(self, request: Request) -> Response:
        found = self._is_ready(request)
        return as_json({"ready": found}, 200 if found else 503)

    async def model(self, request: Request) -> Response:
        self._admit(request)
        self._known(request)
        model, limits = self._core.model, self._core.limits
        outputs = [
            {"name": name, "datatype": kind.datatype, "shape": [-1, model.classes] if name == "votes" else [-1]}
            for name, kind in OUTPUTS.items()
        ]
        found: dict[str, Any] = {
            "name": model.name,
            "versions": [model.version],
            "platform": "smoothcert",
            "inputs": [{"name": INPUT, "datatype": "FP32", "shape": [-1, *model.shape]}],
            "outputs": outputs,
            "parameters": {**model.parameters(), "input_datatypes": "FP32 in [0,1], UINT8", "classes": model.classes,
                           "most_inputs": limits.inputs, "most_n": limits.draws, "least_alpha": limits.least_alpha,
                           "most_alpha": limits.most_alpha, "longest_deadline_ms": 1000 * limits.longest},
        }  # fmt: skip
        if model.class_names is not None:
            found["class_names"] = model.class_names
        return as_json(found)

    async def model_ready(self, request: Request) -> Response:
        self._admit(request)
        self._known(request)
        found = self._is_ready(request)
        return as_json({"name": self._core.model.name, "ready": found}, 200 if found else 503)

    async def infer(self, request: Request) -> Response:
        key = self._admit(request, "predict", "certify")
        self._known(request)
        core, notes, headers = self._core, request.state.notes, request.state.headers
        body = await bodies.read(request.receive, headers, largest_body(core.model, core.limits))
        whose = key.name if key else ""
        parsed = parse(body, headers.get(HEADER_LENGTH), core.model, core.limits, notes.id, whose)
        notes.asked, notes.mode, notes.inputs = parsed.request.id, parsed.request.mode, len(parsed.request.inputs)
        answers = await self._answer(key, parsed.request)
        notes.draws, notes.abstained = (
            sum(each) for each in zip(*((a.draws, a.abstained) for a in answers), strict=True)
        )
        self._metrics.answered(parsed.request.mode, answers)
        text, described = render(parsed.request, parsed.wanted, answers, core.model)
        return Response(text, headers=described)

    async def _answer(self, key: ClientKey | None, asked: InferRequest) -> list[CertifiedAnswer]:
        """Draws are set aside at their most; what was not drawn is given back, all of it where nothing was taken on."""
        reserved = self._core.cost(asked)
        self._gate.reserve(key, asked.mode, reserved)
        try:
            answers = await self._core.answer(asked)
        except RequestError:
            self._gate.give_back(key, reserved)
            raise
        self._gate.give_back(key, reserved - sum(answer.draws for answer in answers))
        return answers

    async def certificate(self, request: Request) -> Response:
        key = self._admit(request, "evidence")
        certificate = request.path_params["certificate"]
        whose, html = key.name if key else "", pages.prefers_html(request.state.headers.get("accept", ""))
        find: Any = self._core.page if html else self._core.document
        found = await run_in_threadpool(find, certificate, whose) if CERTIFICATE.fullmatch(certificate) else None
        if found is None:
            raise RequestError(404, "certificate must be one that was made for this key; got another id")
        answer = as_html(found, pages.DOCUMENT_POLICY) if html else as_json(found)
        answer.headers["vary"] = "accept, authorization"
        return answer

    async def examples(self, request: Request) -> Response:
        self._admit(request)
        return as_json([name for name, _ in self._core.examples])

    async def example(self, request: Request) -> Response:
        self._admit(request)
        number, examples = request.path_params["number"], self._core.examples
        if not (number.isascii() and number.isdigit() and len(number) < 10 and int(number) < len(examples)):
            raise RequestError(404, f"number of an example must be below {len(examples)}; got {shown(number)}")
        made = await run_in_threadpool(pages.picture, examples[int(number)][1])
        return Response(made, media_type="image/png")

    async def metrics(self, request: Request) -> Response:
        if not self._open_metrics:
            self._admit(request, "evidence")
        return Response(self._metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def page(self) -> Response:
        return as_html(pages.static("index.html")[0], pages.PAGE_POLICY)

    async def static(self, request: Request) -> Response:
        content, media = pages.static(request.path_params["file"])
        return Response(content, headers={"content-type": media, "cache-control": "no-cache"})

    async def docs(self, request: Request) -> Response:
        return as_html(pages.described(request.app.openapi()), pages.DOCUMENT_POLICY)

    def _admit(self, request: Request, *scopes: Scope) -> ClientKey | None:
        return self._gate.admit(request.state.headers, request.state.notes, *scopes)

    def _known(self, request: Request) -> None:
        model, path = self._core.model, request.path_params
        name, version = path["name"], path.get("version")
        if name != model.name:
            raise RequestError(404, f"model of the request must be '{model.name}'; got {shown(name)}")
        if version not in (None, model.version):
            raise RequestError(404, f"version of model '{name}' must be {model.version}; got {shown(version)}")

    def _is_ready(self, request: Request) -> bool:
        return self._core.ready and not request.app.state.stopping
