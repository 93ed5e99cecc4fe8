"""Runs and records whose radii are given, for tests of what is computed from them; no network is asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smoothcert.contracts import Answer
from smoothcert.recipe import Means, Question, Recipe
from smoothcert.runs.rows import Record, Row
from smoothcert.runs.store import Store, read

WRONG, ABSTAINED = -1.0, -2.0  # in the place of a radius


def rows(reached: Sequence[float]) -> tuple[Row, ...]:
    """Inputs 0, 10, 20, … with these radii; WRONG is another label certified with radius 1."""
    kinds = {WRONG: (1, 1.0), ABSTAINED: (-1, 0.0)}
    answers = (Answer("guess", 10, ((9, 1),)), Answer("test", 90, ((88, 2),)))
    return tuple(Row(10 * i, 0, *kinds.get(r, (0, r)), 100, 0.5, 0, 0.9, answers) for i, r in enumerate(reached))


def question(**changes: Any) -> Question:
    settings: dict[str, Any] = {
        "model": "models/a", "model_digest": "a" * 64, "data": "digits", "split": "test", "skip": 10, "max": -1,
        "data_digest": "d" * 64, "inputs": 4, "noise": {"name": "gaussian", "sigma": 0.25},
        "procedure": {"name": "certify", "n0": 10, "against": "guess"},
        "sampling": {"name": "fixed", "n": 90, "alpha": 0.001},
    }  # fmt: skip
    return Question(**{**settings, **changes})


def record(name: str, reached: Sequence[float], changes: dict[str, Any] | None = None, **means: Any) -> Record:
    """A run of ours as a value; without `changes` of its question a foreign log."""
    found = rows(reached)
    if changes is None:
        return Record(name, "certify", found)
    import dataclasses

    settings = {key: item for key, item in dataclasses.asdict(question(**changes)).items() if item is not None}
    return Record(name, "certify", found, {"question": settings, "means": means}, len(found))


def stored(folder: Path, reached: Sequence[float], when: float | None = None, **changes: Any) -> Record:
    """A run on the disk, begun at a time of our choice."""
    recipe = Recipe(question(**{"inputs": len(reached), **changes}), Means(64, "torch", "smoothcert certify models/a"))
    with Store(folder, recipe) as store:
        for row in rows(reached):
            store.add(row)
    if when is not None:
        os.utime(folder / "recipe.toml", (when, when))
    return read(folder)


def log(path: Path, reached: Sequence[float]) -> Path:
    """The same as a Cohen-style log."""
    from smoothcert.runs.exchange import write_cohen

    write_cohen(record(path.name, reached), path)
    return path
