"""Runs and records whose radii are given, for tests of what is computed from them; no network is asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smoothcert.contracts import Answer
from smoothcert.runs.run import Claim, MemoryRef, Row, Run, claim_of
from smoothcert.runs.store import RunStore, read
from smoothcert.spec import Means, Recipe, Spec

WRONG, ABSTAINED = -1.0, -2.0  # in the place of a radius


def rows(reached: Sequence[float]) -> tuple[Row, ...]:
    """Inputs 0, 10, 20, … with these radii; WRONG is another label certified with radius 1."""
    kinds = {WRONG: (1, 1.0), ABSTAINED: (-1, 0.0)}
    answers = (Answer("guess", 10, ((9, 1),)), Answer("test", 90, ((88, 2),)))
    return tuple(Row(10 * i, 0, *kinds.get(r, (0, r)), 100, 0.5, 0, 0.9, answers) for i, r in enumerate(reached))


def spec(**changes: Any) -> Spec:
    """A spec, by the settings of its tables."""
    settings: dict[str, Any] = {
        "model": "models/a", "model_digest": "a" * 64, "model_covers": "weights", "data": "digits",
        "split": "test", "skip": 10, "max": -1, "data_digest": "d" * 64, "inputs": 4, "shape": [1, 8, 8], "seed": 0,
        "noise": {"name": "gaussian", "sigma": 0.25},
        "procedure": {"name": "certify", "n0": 10, "against": "guess"},
        "sampling": {"name": "fixed", "n": 90, "alpha": 0.001},
    }  # fmt: skip
    return Spec.parse({key: value for key, value in {**settings, **changes}.items() if value is not None})


def log_of(found: Sequence[Row], name: str = "log", kind: str = "certify", norm: str = "l2", **claim: Any) -> Run:
    """A foreign log as a value, which says no more than is given here."""
    stated = {"guarantee": "unstated", "test_class": "unstated", **claim}
    return Run(name=name, kind=kind, rows=tuple(found), claim=Claim(norm, **stated))


def run_of(
    found: Sequence[Row], name: str = "run", memory: MemoryRef | None = None, means: Any = None, **changes: Any
) -> Run:
    """A run of ours with these rows, by the settings of its spec that differ from the usual ones."""
    made, rows_ = spec(**{"inputs": max(1, len(found)), **changes}), tuple(found)
    carried = Means.parse({"batch": 64, "engine": "torch", "command": "", **(means or {})})
    answered = any(row.settled is not None for row in rows_)
    kind = "predict" if made.kind == "predict" else "certify"
    return Run(
        name=name, kind=kind, rows=rows_, inputs=made.inputs, claim=claim_of(made, memory, answered),
        spec=made, means=carried, memory=memory,
    )  # fmt: skip


def record(name: str, reached: Sequence[float], changes: dict[str, Any] | None = None, **means: Any) -> Run:
    """A run of ours as a value; without `changes` of its question a foreign log."""
    found = rows(reached)
    return log_of(found, name) if changes is None else run_of(found, name, means=means, **changes)


def stored(folder: Path, reached: Sequence[float], when: float | None = None, **changes: Any) -> Run:
    """A run on the disk, begun at a time of our choice."""
    recipe = Recipe(
        spec(**{"inputs": max(1, len(reached)), **changes}), Means(64, "torch", "smoothcert certify models/a")
    )
    with RunStore(folder, recipe) as store:
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
