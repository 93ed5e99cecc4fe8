"""A small stand-in for the service that the page talks to, so that every kind of answer can be had at will.

python tests/browser/service.py    prints its address, and serves until it is stopped

It keeps the routes of the real one (Open Inference Protocol v2, examples, certificates) and its content security
policy, and serves the page's own files. What it answers follows from what is asked: a radius of 9 abstains, one of 8 is
refused, one of 7 takes a while. Under /keyed it wants the key `k-1`, under /table it serves a tabular model, under
/memory, /l1, /linf and /l0 other guarantees and norms, under /colour pictures in colour.
"""

from __future__ import annotations

import contextlib
import io
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from smoothcert.data import load

STATIC = Path(__file__).parents[2] / "smoothcert" / "server" / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript"}
KINDS = ("keyed", "table", "memory", "l1", "linf", "l0", "colour")
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
RADII = {"l2": 0.6125, "l1": 1.5, "linf": 0.031, "l0": 5.0}
DIGITS = load("digits", max=12)
CERTIFICATE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Certificate</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<style>h1 { color: rgb(1, 2, 3) }</style></head>
<body><h1>Certificate of abc</h1><p style="width: 40px">text</p></body></html>"""


def model(kind: str) -> dict[str, Any]:
    """Metadata, as `GET /v2/models/NAME` gives them."""
    shape = {"table": [4], "colour": [3, 16, 16]}.get(kind, [1, 8, 8])
    parameters: dict[str, Any] = {
        "model_digest": "d" * 64,
        "norm": kind if kind in RADII else "l2",
        "noise": "Gaussian noise in steps of 1/255, σ = 0.25",
        "sigma": 0.25,
        "alpha": 0.001,
        "n": 100_000,
        "commitment": "c" * 64,
        "most_n": 1_000_000,
        "longest_deadline_ms": 600_000.0,
    }
    if kind == "memory":
        parameters["memory"] = "m-1"
    inputs = [{"name": "x", "datatype": "FP32", "shape": [-1, *shape]}]
    found = {"name": "toy", "versions": ["d" * 64], "platform": "smoothcert", "class_names": NAMES}
    return {**found, "inputs": inputs, "parameters": parameters}


def answer(kind: str, asked: dict[str, Any]) -> dict[str, list[Any]]:
    """Outputs of one input."""
    radius, predict = asked.get("radius"), asked["mode"] == "predict"
    abstained = radius == 9
    votes = [0, 12, 0, 71, 3, 0, 0, 914, 0, 0]
    found = radius if radius is not None else RADII[model(kind)["parameters"]["norm"]]
    guarantee = "none" if predict or abstained else "memory" if kind == "memory" else "smoothing"
    return {
        "label": [-1 if abstained else 7],
        "radius": [0.0 if abstained or predict else found],
        "abstained": [abstained],
        "draws": [0 if guarantee == "memory" else 100_100 if radius is None and not predict else 1000],
        "guarantee": [guarantee],
        "certificate": ["" if predict or abstained else "abc"],
        "reason": ["the deadline came before the draws decided" if abstained else ""],
        "votes": [0] * 10 if guarantee == "memory" else votes,
    }


class Stand(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def reply(self, status: int, body: bytes, kind: str = "application/json", **more: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **more}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):  # who asked may have stopped waiting
            self.wfile.write(body)

    def json(self, status: int, value: Any, **more: str) -> None:
        self.reply(status, json.dumps(value).encode(), **more)

    def place(self) -> tuple[str, str]:
        """The kind of service that is asked, and the path within it."""
        first, _, rest = self.path.lstrip("/").partition("/")
        return (first, rest) if first in KINDS else ("", self.path.lstrip("/"))

    def refused(self, kind: str) -> bool:
        if kind != "keyed" or self.headers.get("Authorization") == "Bearer k-1":
            return False
        self.json(401, {"error": "a key is needed"}, WWW_Authenticate="Bearer")
        return True

    def do_GET(self) -> None:
        kind, path = self.place()
        file = STATIC / ("index.html" if path == "" else path.removeprefix("static/"))
        if not path.startswith("v2"):
            known = file.is_file() and file.parent == STATIC
            if known:
                self.reply(200, file.read_bytes(), TYPES[file.suffix])
            else:
                self.json(404, {"error": "no such page"})
        elif not self.refused(kind):
            self.ask(kind, path)

    def ask(self, kind: str, path: str) -> None:
        html = "text/html" in self.headers.get("Accept", "")
        if path == "v2":
            self.json(200, {"name": "smoothcert", "version": "0", "extensions": [], "parameters": {"model": "toy"}})
        elif path == "v2/models/toy":
            self.json(200, model(kind))
        elif path == "v2/examples":
            self.json(200, [f"digit {number}" for number in range(12)])
        elif path.startswith("v2/examples/"):
            self.reply(200, picture(int(path.rpartition("/")[2]), kind == "colour"), "image/png")
        elif path == "v2/certificates/abc":
            self.reply(200, CERTIFICATE.encode(), TYPES[".html"]) if html else self.json(200, {"schema": "certificate"})
        else:
            self.json(404, {"error": "there is nothing here"})

    def do_POST(self) -> None:
        kind, path = self.place()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        head = int(self.headers.get("Inference-Header-Content-Length", len(body)))
        asked = json.loads(body[:head])
        (tensor,) = asked["inputs"]
        size = int(np.prod(tensor["shape"]))
        got = len(body) - head if "data" not in tensor else len(tensor["data"])
        if self.refused(kind):
            return
        if path != "v2/models/toy/infer" or got != size or tensor["shape"][1:] != model(kind)["inputs"][0]["shape"][1:]:
            self.json(400, {"error": f"inputs must fit the model; got {tensor['shape']} with {got} values"})
        elif asked["parameters"].get("radius") == 8:
            self.json(503, {"error": "256 inputs are waiting already"}, Retry_After="3")
        else:
            time.sleep(1.5 if asked["parameters"].get("radius") == 7 else 0)
            found = answer(kind, asked["parameters"])
            outputs = [{"name": one["name"], "data": found[one["name"]]} for one in asked["outputs"]]
            self.json(200, {"model_name": "toy", "outputs": outputs, "parameters": {"alpha": 0.001}})


def picture(number: int, colour: bool) -> bytes:
    """An example as a PNG."""
    grey = (255 * DIGITS.tensor(number)[0].numpy()).round().astype(np.uint8)
    made = Image.fromarray(grey)
    if colour:
        steps = np.linspace(0, 255, 16).astype(np.uint8)
        large = np.asarray(made.resize((16, 16)))
        made = Image.fromarray(np.stack([large, np.tile(steps, (16, 1)), np.tile(steps[:, None], (1, 16))], axis=2))
    made.save(file := io.BytesIO(), "PNG")
    return file.getvalue()


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stand)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
