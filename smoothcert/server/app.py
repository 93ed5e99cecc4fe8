"""The service as an ASGI application: which address is answered by what, and under which rules.

Open to everybody: health, `/v2`, the page and its files, OpenAPI. Everything else asks for a key, where there are keys:
any good one for the model's description and the examples, one of scope `predict` or `certify` to infer, of scope
`evidence` for certificates and for `/metrics` (unless these were left open).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from smoothcert import __version__
from smoothcert.foreign import shown
from smoothcert.server import schema as s
from smoothcert.server.envelope import RequestEnvelope, refusal
from smoothcert.server.gate import Gate
from smoothcert.server.keys import KeyRing
from smoothcert.server.metrics import ServiceMetrics
from smoothcert.server.routes import ServiceRoutes
from smoothcert.server.values import RequestError, ServiceCore

MODEL, VERSION = "/v2/models/{name}", "/v2/models/{name}/versions/{version}"
CALLER = ["authorization", "content-type", "inference-header-content-length", "x-request-id"]  # headers under CORS
TOLD = ["inference-header-content-length", "x-request-id", "retry-after"]
ABOUT = (
    "Certified predictions by the Open Inference Protocol v2: every label comes with a radius within which no change "
    "of the input changes it, and with the evidence."
)


class Operation(NamedTuple):
    """An address, and what it answers."""

    paths: tuple[str, ...]
    handler: str  # of ServiceRoutes
    summary: str
    good: s.Json
    refused: tuple[int, ...] = ()
    keyed: bool = False
    method: str = "GET"
    unready: s.Json | None = None  # what is answered with 503, where that is no refusal


OPERATIONS = (
    Operation(("/v2",), "server", "Who is serving", s.answer("The server.", s.ref("ServerMetadata"))),
    Operation(("/v2/health/live",), "live", "Whether the process lives", s.answer("It lives.", s.ref("Live"))),
    Operation(("/v2/health/ready",), "ready", "Whether requests are taken",
              s.answer("They are.", s.ref("Ready")), unready=s.answer("They are not.", s.ref("Ready"))),
    Operation((MODEL, VERSION), "model", "The model, and all that an answer stands under",
              s.answer("The model.", s.ref("ModelMetadata")), (404,), True),
    Operation((f"{MODEL}/ready", f"{VERSION}/ready"), "model_ready", "Whether the model takes requests",
              s.answer("It does.", s.ref("ModelReady")), (404,), True,
              unready=s.answer("It does not.", s.ref("ModelReady"))),
    Operation((f"{MODEL}/infer", f"{VERSION}/infer"), "infer", "Predict or certify a batch of inputs",
              s.answer("One answer an input.", s.ref("InferAnswer")), (404, 408, 413, 415, 503), True, "POST"),
    Operation(("/v2/certificates/{certificate}",), "certificate", "The evidence behind an answer",
              s.answer("The document; a page for a browser.", s.ref("Certificate")), (404, 503), True),
    Operation(("/v2/examples",), "examples", "Names of inputs to try", s.answer("Names.", s.ref("Examples")), (), True),
    Operation(("/v2/examples/{number}",), "example", "An input to try, as a picture",
              s.answer("A picture.", {"type": "string", "format": "binary"}, "image/png"), (404,), True),
    Operation(("/metrics",), "metrics", "Figures for Prometheus",
              s.answer("Figures.", {"type": "string"}, "text/plain"), (), True),
    Operation(("/",), "page", "A page for people", s.answer("The page.", {"type": "string"}, "text/html"), (404,)),
    Operation(("/static/{file}",), "static", "Files of the page",
              s.answer("A file.", {"type": "string"}, "*/*"), (404,)),
    Operation(("/docs",), "docs", "This description, to read", s.answer("The page.", {"type": "string"}, "text/html")),
)  # fmt: skip


def application(core: ServiceCore, keys: KeyRing | None, *, cors: Sequence[str] = (), hosts: Sequence[str] = (),
                open_metrics: bool = False) -> FastAPI:  # fmt: skip
    """The service around what draws.

    `cors`: origins whose pages may use it. `hosts`: without keys, names under which it is reached beside localhost and
    addresses. `open_metrics`: figures without a key.
    """
    metrics = ServiceMetrics(core.state)
    routes = ServiceRoutes(core, Gate(keys), metrics, open_metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        app.state.stopping = True
        await core.close()

    app = FastAPI(
        title=f"smoothcert: {core.model.name}", version=__version__, description=ABOUT, lifespan=lifespan,
        docs_url=None, redoc_url=None, redirect_slashes=False, exception_handlers={HTTPException: _http_refusal},
    )  # fmt: skip
    app.state.stopping = False
    app.state.limits = core.limits
    for operation in OPERATIONS:
        _add(app, routes, operation)
    app.openapi = _Described(app, core)  # type: ignore[method-assign]
    app.add_middleware(RequestEnvelope, metrics=metrics, open_to=hosts if keys is None else None, cors=cors)
    if cors:
        app.add_middleware(CORSMiddleware, allow_origins=list(cors), allow_methods=["GET", "POST"],
                           allow_headers=CALLER, expose_headers=TOLD)  # fmt: skip
    return app


def _add(app: FastAPI, routes: ServiceRoutes, operation: Operation) -> None:
    """Register an operation under each of its addresses."""
    refused = s.refusals(*operation.refused, *(s.KEYED if operation.keyed else ()))
    extra: dict[str, Any] = {"security": [{"key": []}]} if operation.keyed else {}
    if operation.method == "POST":
        extra["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": s.ref("InferRequest")}},
        }
    for path in operation.paths:
        app.add_api_route(
            path,
            getattr(routes, operation.handler),
            methods=[operation.method],
            summary=operation.summary,
            operation_id=operation.handler + ("_of_version" if path.startswith(VERSION) else ""),
            responses={200: operation.good, **({503: operation.unready} if operation.unready else {}), **refused},
            response_class=Response,
            openapi_extra={**extra, "parameters": s.in_path(path)},
        )


class _Described:
    """What OpenAPI says of the service, made once."""

    def __init__(self, app: FastAPI, core: ServiceCore) -> None:
        self._app, self._core = app, core
        self._made: dict[str, Any] = {}

    def __call__(self) -> dict[str, Any]:
        if not self._made:
            app = self._app
            self._made = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            self._made["components"] = {
                "schemas": s.components(self._core.model, self._core.limits),
                "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            }
        return self._made


async def _http_refusal(request: Request, error: Exception) -> Response:
    """What the framework refuses by itself, in our words: addresses and methods that there are not."""
    status = error.status_code if isinstance(error, HTTPException) else 400
    allowed = dict(getattr(error, "headers", None) or {})
    if status == 405:
        text = f"method of this address must be {allowed.get('Allow', 'another')}; got {shown(request.method)}"
    elif status == 404:
        text = f"address of the request must be one that /openapi.json lists; got {shown(request.url.path)}"
    else:
        text = "request must be one that /openapi.json describes; got another"
    return refusal(RequestError(status, text), allowed)
