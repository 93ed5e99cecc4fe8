"""What a browser is given: the page at `/` with its files, examples as pictures, and what OpenAPI says, to read."""

from __future__ import annotations

import functools
import io
import json
import mimetypes
from pathlib import Path
from typing import Any

from smoothcert.contracts import Tensor
from smoothcert.server.values import RequestError

FOLDER = Path(__file__).parent / "static"
# Scripts and styles are the page's own files; pictures may also be those that a visitor dropped.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Documents without scripts, which bring their style along.
DOCUMENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def static(name: str) -> tuple[bytes, str]:
    """A file of the page and its media type; only names that the folder lists, so that no name leads out of it."""
    for path in FOLDER.iterdir() if FOLDER.is_dir() else ():
        if path.name == name and path.is_file():
            return path.read_bytes(), mimetypes.guess_type(name)[0] or "application/octet-stream"
    raise RequestError(404, "file of the page must be one that it has; got another")


def picture(values: Tensor) -> bytes:
    """An input of one or three channels as PNG."""
    import numpy as np
    from PIL import Image

    if values.ndim != 3 or values.shape[0] not in (1, 3):
        raise RequestError(404, f"picture of an example must have 1 or 3 channels; got inputs {list(values.shape)}")
    pixels = (values.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).cpu().numpy()
    made = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels[..., 0] if values.shape[0] == 1 else pixels)).save(made, "PNG")
    return made.getvalue()


def prefers_html(accept: str) -> bool:
    """Whether a client would rather read a page than JSON; a tie is a program's."""
    return _weight(accept, "text/html") > _weight(accept, "application/json")


def _weight(accept: str, media: str) -> float:
    """The quality that an Accept header gives a media type: what names it most exactly decides."""
    found = {"*/*": 0.0}
    for part in accept.split(","):
        name, *options = (word.strip().lower() for word in part.split(";"))
        quality = next((word[2:] for word in options if word.startswith("q=")), "1")
        try:
            found[name] = float(quality)
        except ValueError:
            found[name] = 0.0
    return next(found[name] for name in (media, f"{media.partition('/')[0]}/*", "*/*") if name in found)


def described(document: dict[str, Any]) -> str:
    """What OpenAPI says, to read; without a script and without anything from elsewhere."""
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = {name: json.dumps(schema, indent=2) for name, schema in document["components"]["schemas"].items()}
    return str(_template().render(info=document["info"], operations=operations, schemas=schemas))


@functools.cache
def _template() -> Any:
    import jinja2

    folder = jinja2.FileSystemLoader(Path(__file__).parent)
    return jinja2.Environment(loader=folder, autoescape=True, trim_blocks=True).get_template("docs.html.jinja")
