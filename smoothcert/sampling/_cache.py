"""Tables of boundaries on disk: computed once, found again by their parameters, checked before they are believed."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.boundaries import Boundaries
from smoothcert.errors import OutputError
from smoothcert.files import cache_folder, write_whole

VERSION = 2  # of the way tables are computed: a change makes old files strangers


def folder() -> Path:
    """Where tables lie."""
    return cache_folder() / "tables"


def cached(parameters: Mapping[str, Any], build: Callable[[], Boundaries]) -> Boundaries:
    """The table for these parameters, from the disk or built and kept there."""
    key = json.dumps({"version": VERSION, **parameters}, sort_keys=True)
    path = folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.npz"
    found = _load(path, key)
    if found is None:
        found = build()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, _packed(found, key))
        except (OSError, OutputError):
            return found  # a cache that cannot be written is only slower
    return found


def _packed(table: Boundaries, key: str) -> bytes:
    file = io.BytesIO()
    np.savez(file, size=table.size, accept=table.accept, reject=table.reject, key=key, digest=_digest(table, key))
    return file.getvalue()


def _digest(table: Boundaries, key: str) -> str:
    total = hashlib.sha256(key.encode())
    for column in (table.size, table.accept, table.reject):
        total.update(column.astype("<i8").tobytes())
    return total.hexdigest()


def _load(path: Path, key: str) -> Boundaries | None:
    """A stored table if every one of its numbers is as it was written, else None."""
    try:
        with np.load(path, allow_pickle=False) as file:
            table = Boundaries(file["size"], file["accept"], file["reject"])
            whole = str(file["key"]) == key and str(file["digest"]) == _digest(table, key)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, AttributeError):
        return None
    return table if whole else None
