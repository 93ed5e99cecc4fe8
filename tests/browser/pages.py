"""Pages for the browser's tests: reports of made-up runs of every kind, with pictures, votes and many rows.

python tests/browser/pages.py FOLDER
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.contracts import Answer
from smoothcert.data import load
from smoothcert.report._family import Family
from smoothcert.report.ensemble import compare
from smoothcert.report.html import page, save
from smoothcert.runs.run import Record, Row

MANY = 10_000
DRAWS = 1000


def pictures(folder: Path, number: int) -> Path:
    """Grey 8×8 pictures in ten classes, as an .npz file."""
    random = np.random.default_rng(0)
    path = folder / f"pictures-{number}.npz"
    x = random.integers(0, 256, (number, 1, 8, 8)) / np.float32(255)
    np.savez(path, x=x.astype(np.float32), y=np.arange(number) % 10)
    return path


def record(name: str, data: Path, seed: int, **changes: Any) -> Record:
    """A run on these pictures whose answers are drawn, not computed: one in ten wrong, one in ten abstained."""
    inputs, random = load(str(data)), np.random.default_rng(seed)
    rows = []
    for index, label in zip(inputs.indices.tolist(), inputs.labels.tolist(), strict=True):
        fate, hits = random.random(), int(random.integers(510, DRAWS))
        predicted = -1 if fate < 0.1 else (label + 1) % 10 if fate < 0.2 else label
        radius = 0.0 if predicted == -1 else float(random.beta(2, 3))
        votes = [0] * 10
        votes[label if predicted == -1 else predicted], votes[(label + 2) % 10] = hits, DRAWS - hits
        answers = (Answer("guess", 10, ((10, *[0] * 9),)), Answer("test", DRAWS, (tuple(votes),)))
        rows.append(Row(index, label, predicted, radius, DRAWS + 10, 0.01, label, hits / DRAWS - 0.03, answers))
    question = {
        "model": "made-up", "model_digest": "ab" * 32, "data": str(data), "split": "test", "skip": 1, "max": -1,
        "data_digest": inputs.digest, "inputs": len(rows), "seed": seed,
        "noise": {"name": "gaussian", "sigma": 0.25}, "procedure": {"name": "certify", "n0": 10, "against": "guess"},
        "sampling": {"name": "fixed", "n": DRAWS, "alpha": 0.001}, **changes,
    }  # fmt: skip
    means = {"command": f"smoothcert certify made-up --data {data.name} --sigma 0.25 --out {name}", "batch": 64}
    return Record(name, "certify", tuple(rows), {"question": question, "means": means}, len(rows))


def whole(run: Record) -> Record:
    """Its radii as numbers of coordinates."""
    return replace(run, rows=tuple(replace(row, radius=float(int(9 * row.radius))) for row in run.rows), norm="l0")


def pages(folder: Path) -> dict[str, str]:
    """Name → page: every kind of run that the report has words or parts for."""
    few, many = pictures(folder, 120), pictures(folder, MANY)
    runs = [record(name, few, seed) for seed, name in enumerate(("first", "second", "third"))]
    counted = {"noise": {"name": "splitting", "lam": 0.4, "grid": 255}, "sampling": {"name": "exhaustive"}}
    kept = {"noise": {"name": "discrete", "keep": 0.8, "values": 2}}
    log = Record("a log", "certify", tuple(replace(row, answers=(), low=None) for row in runs[0].rows))
    family = Family(runs[0], tuple(runs[1:]), 2, "soft vote")
    return {
        "many": page([record("many", many, 7)]),
        "several": page(runs, ensembles=compare([family], [0.0, 0.25, 0.5])),
        "norms": page([
            replace(record("counted", few, 3, **counted), norm="l1"),
            whole(record("coordinates", few, 4, **kept)),
            record("whole numbers", few, 5, noise={"name": "gaussian_grid", "sigma": 0.5}),
        ]),
        "log": page([log]),
        "predictions": page([replace(runs[0], name="predictions", kind="predict")]),
    }  # fmt: skip


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for name, text in pages(target).items():
        save(text, target / f"{name}.html")
