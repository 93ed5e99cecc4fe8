"""Names of a model's classes: in the metadata of an ONNX file, in a converted estimator, in a Hugging Face config.

A stranger wrote them: they are read without being executed, bounded in number and length, and harmless to show.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smoothcert import foreign

if TYPE_CHECKING:
    from onnx import ModelProto

KEYS = ("names", "class_names", "classes", "labels", "id2label")  # entries of the metadata that hold them
LONGEST, MOST, LONG = 2**20, 2**16, 100  # characters of an entry, names in it, characters of a name
NAME = re.compile(r"""\s*(?:["']?(\d{1,6})["']?\s*:)?\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*(?:,|$)""", re.DOTALL)


def class_names(metadata: Mapping[str, str], model: ModelProto | None, columns: int | None) -> tuple[str, ...]:
    """Names of the classes in the order of the columns; none where they do not fit or are but 0, 1, 2, …."""
    for found in (*(parse_names(metadata[key]) for key in KEYS if key in metadata), _labels(model)):
        if len(found) > 1 and len(found) == (columns or len(found)) and found != tuple(map(str, range(len(found)))):
            return found
    return ()


def _labels(model: ModelProto | None) -> tuple[str, ...]:
    """What the nodes of a converted estimator call their classes, where they all say the same."""
    found = {
        tuple(_name(value.decode("utf-8", "replace")) for value in attribute.strings) or tuple(map(str, attribute.ints))
        for node in (model.graph.node if model is not None else ())
        for attribute in node.attribute
        if attribute.name.startswith("classlabels") and len(attribute.strings) + len(attribute.ints) <= MOST
    }
    return found.pop() if len(found) == 1 else ()


def parse_names(text: str) -> tuple[str, ...]:
    """Names as people write them into metadata: a JSON or Python list or table by number, or text between commas."""
    text = text[: LONGEST + 1].strip()
    if len(text) > LONGEST:
        return ()
    if not text or (text[0], text[-1]) not in (("[", "]"), ("{", "}"), ("(", ")")):
        parts = re.split(r"\r?\n" if "\n" in text else ",", text)
        return tuple(_name(part) for part in parts) if len(parts) <= MOST else ()
    inside, at = text[1:-1].strip(), 0
    found: list[tuple[str | None, str]] = []
    while at < len(inside) and len(found) <= MOST:
        match = NAME.match(inside, at)
        if match is None:
            return ()
        found.append((match[1], _unquoted(match[2])))
        at = match.end()
    numbers = [int(number) for number, _ in found if number is not None]
    if len(found) > MOST or (numbers and sorted(numbers) != list(range(len(found)))):
        return ()
    ordered = [name for _, name in sorted(zip(numbers, (name for _, name in found), strict=True))] if numbers else None
    return tuple(ordered or [name for _, name in found])


def _unquoted(text: str) -> str:
    try:
        return _name(str(json.loads(text)))
    except ValueError:  # Python's quotes
        return _name(re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL))


def _name(text: str) -> str:
    return foreign.one_line(text)[:LONG]


def by_number(table: Any) -> tuple[str, ...]:
    """Names from a table by number, as `id2label` of a Hugging Face config, unless they are LABEL_0 and so on."""
    if not isinstance(table, dict) or sorted(map(str, table)) != sorted(map(str, range(len(table)))):
        return ()
    named = {str(number): str(name) for number, name in table.items()}
    names = tuple(named[str(number)] for number in range(len(table)))
    return () if names == tuple(f"LABEL_{number}" for number in range(len(names))) else names
