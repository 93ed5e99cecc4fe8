"""What is around every request: its id, its line in the log, bounds on what it sends, and refusals in one JSON line."""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smoothcert.progress import in_one_line
from smoothcert.server.bodies import WatchedBody
from smoothcert.server.gate import RequestNotes, check_headers, check_origin
from smoothcert.server.logs import log
from smoothcert.server.metrics import ServiceMetrics
from smoothcert.server.values import RequestError

HARMLESS = re.compile(r"[A-Za-z0-9_.:/+=@-]{1,128}")
NO_CONTENT = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
SECURITY = {
    "content-security-policy": NO_CONTENT,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
PROBES = ("/v2/health/live", "/v2/health/ready", "/metrics")  # asked every few seconds: not worth a line each


def refusal(error: RequestError, headers: Mapping[str, str] | None = None) -> Response:
    """One JSON line."""
    text = json.dumps({"error": in_one_line(error.text)}) + "\n"
    found = dict(headers or {})
    if error.status == 401:
        found["www-authenticate"] = 'Bearer realm="smoothcert"'
    if error.retry_after is not None:
        found["retry-after"] = str(error.retry_after)
    return Response(text, error.status, found, "application/json")


class RequestEnvelope:
    """ASGI middleware. Whatever happens inside, one answer goes out, and it tells nothing of the inside."""

    def __init__(self, app: ASGIApp, *, metrics: ServiceMetrics, open_to: Sequence[str] | None,
                 cors: Sequence[str]) -> None:  # fmt: skip
        # open_to: without keys, the names of hosts under which the service is known; None: it asks for keys
        self._app, self._metrics, self._open_to, self._cors = app, metrics, open_to, cors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        notes = RequestNotes(_request_id(scope))
        body = WatchedBody(
            receive, {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        )
        answer = OutgoingAnswer(send, body, notes.id)
        try:
            headers = check_headers(scope["headers"])
            if self._open_to is not None:
                check_origin(headers, self._cors, self._open_to)
            scope["state"] = {**scope.get("state", {}), "notes": notes, "headers": headers}
            await self._app(scope, body, answer)
        except RequestError as error:
            await refusal(error)(scope, body, answer)
        except Exception as error:
            log.error("unforeseen", exc_info=error, extra={"fields": {"request": notes.id}})
            if not answer.status:
                text = f"the service failed at this request, and has noted why under the id {notes.id}"
                await refusal(RequestError(500, text))(scope, body, answer)
        finally:
            self._note(scope, notes, answer.status, time.perf_counter() - begun)

    def _note(self, scope: Scope, notes: RequestNotes, status: int, seconds: float) -> None:
        """For the log and for the figures. What is unknown has no path in either: it would be the client's text."""
        route = getattr(scope.get("route"), "path", "unknown")
        self._metrics.requested(route, status, notes.mode, seconds)
        asked: dict[str, Any] = {}
        if notes.inputs:
            asked = {
                "id": notes.asked, "mode": notes.mode, "inputs": notes.inputs, "draws": notes.draws,
                "abstained": notes.abstained,
            }  # fmt: skip
        fields = {
            "request": notes.id, "key": notes.key, "method": scope["method"], "route": route, "status": status,
            "seconds": round(seconds, 6), **asked,
        }  # fmt: skip
        quiet = route in PROBES and status == 200
        log.log(logging.DEBUG if quiet else logging.INFO, "request", extra={"fields": fields})


class OutgoingAnswer:
    """What goes out: with its id and headers of safety. A body that nobody will read ends the connection, in order."""

    def __init__(self, send: Send, body: WatchedBody, request_id: str) -> None:
        self._send, self._body, self._id = send, body, request_id
        self.status = 0

    async def __call__(self, message: Message) -> None:
        """Pass on one message."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self._id
            for name, value in SECURITY.items():
                headers.setdefault(name, value)
            if not self._body.whole:
                headers["connection"] = "close"
        elif not message.get("more_body", False) and not self._body.whole:
            await self._send({**message, "more_body": True})
            await self._body.discard()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)


def _request_id(scope: Scope) -> str:
    """The client's, if it is harmless, or a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and HARMLESS.fullmatch(text := str(value, "latin-1")):
            return text
    return secrets.token_hex(8)
