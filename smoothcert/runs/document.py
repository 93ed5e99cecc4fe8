"""The file of one input's certificate (`runs.certificate`): the input packed, every part read back and checked."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.contracts import Answer
from smoothcert.errors import RunError, SmoothcertError
from smoothcert.recipe import Question, build, build_procedure
from smoothcert.runs.rows import UNCOUNTED, Row

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "smoothcert certificate 1"
LARGEST = 2**26  # values of an input: what a document may ask to be unpacked


@dataclass(frozen=True, eq=False)
class Document:
    """A certificate that was read: everything a check needs."""

    answer: Mapping[str, Any]
    row: Row  # as smoothing alone left it
    stated: Mapping[str, Any]  # norm and alpha of its certificate
    question: Question
    shape: tuple[int, ...]
    x: Tensor | None  # None where its values were left out
    memory: bool  # a memory of regions answered


def read_document(path: Path) -> Document:
    """A document from its file; RunError in one line when it is not one."""
    try:
        table = json.loads(path.read_bytes())
    except OSError as error:
        raise RunError(f"certificate {path} must be a readable file; got {error.strerror or error}") from error
    except ValueError as error:
        raise RunError(f"certificate {path} must be JSON; got something else ({_short(error)})") from error
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        raise RunError(f"certificate {path} must be a document of {FORMAT!r}; got another one")
    try:
        return _document(table)
    except (SmoothcertError, ValueError, KeyError, TypeError, AttributeError, OverflowError, zlib.error) as error:
        raise RunError(f"certificate {path} must be as it was made; it is damaged ({_short(error)})") from error


def packed(row: Row, x: Tensor, values: bool) -> dict[str, Any]:
    """The input by its hash, and with its values if they are wanted."""
    import numpy as np

    raw = np.ascontiguousarray(x.numpy(), dtype="<f4").tobytes()
    packed = {"values": base64.b64encode(zlib.compress(raw, 9)).decode()} if values else {}
    shape = list(x.shape)
    return {"index": row.index, "label": row.label, "shape": shape, "sha256": hashlib.sha256(raw).hexdigest(), **packed}


def _document(table: Mapping[str, Any]) -> Document:
    given, stated = table["input"], table["certificate"]
    shape = tuple(int(size) for size in given["shape"])
    answers = tuple(
        Answer(str(one["purpose"]), int(one["draws"]), tuple(tuple(map(int, column)) for column in one["counts"]))
        for one in table["answers"]
    )
    draws = sum(answer.draws for answer in answers if answer.purpose not in UNCOUNTED)
    row = Row(
        int(given["index"]), int(given["label"]), int(stated["label"]), float(stated["radius"]), draws,
        answers=answers, sigma=table.get("sigma"),
    )  # fmt: skip
    settings = dict(table["question"])
    if settings.get("value_range") is not None:
        settings["value_range"] = tuple(settings["value_range"])
    question = Question(**settings)
    build("noise", question.noise)
    build_procedure(question)
    if not isinstance(question.seed, int):
        raise TypeError(f"seed {question.seed}")
    x = _unpacked(given, shape) if "values" in given else None
    said = {"norm": stated["norm"], "alpha": stated["alpha"]}
    return Document(dict(table["answer"]), row, said, question, shape, x, "memory" in table)


def _unpacked(given: Mapping[str, Any], shape: tuple[int, ...]) -> Tensor:
    """The input, held against its own hash."""
    import numpy as np
    import torch

    size = math.prod(shape)
    if not 0 < size <= LARGEST:
        raise ValueError(f"an input of shape {list(shape)}")
    raw = zlib.decompressobj().decompress(base64.b64decode(given["values"], validate=True), 4 * size + 1)
    if len(raw) != 4 * size or hashlib.sha256(raw).hexdigest() != given["sha256"]:
        raise ValueError("the input does not have its hash")
    return torch.from_numpy(np.frombuffer(raw, dtype="<f4").astype(np.float32).reshape(shape))


def _short(error: Exception) -> str:
    return " ".join(f"{type(error).__name__} {error}".split())[:120]
