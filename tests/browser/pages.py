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
from smoothcert.report import report
from smoothcert.report.families import Family, Found
from smoothcert.report.html import page, save
from smoothcert.runs.run import Claim, Row, Run, claim_of
from smoothcert.spec import Means, Spec

MANY = 12_000  # more than a page lists
DRAWS = 1000


def pictures(folder: Path, number: int) -> Path:
    """Grey 8×8 pictures in ten classes, as an .npz file."""
    random = np.random.default_rng(0)
    path = folder / f"pictures-{number}.npz"
    x = random.integers(0, 256, (number, 1, 8, 8)) / np.float32(255)
    np.savez(path, x=x.astype(np.float32), y=np.arange(number) % 10)
    return path


def record(name: str, data: Path, seed: int, **changes: Any) -> Run:
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
        "model": "made-up", "model_digest": "ab" * 32, "model_covers": "weights", "shape": [1, 8, 8],
        "data": str(data), "split": "test", "skip": 1, "max": -1,
        "data_digest": inputs.digest, "inputs": len(rows), "seed": seed,
        "noise": {"name": "gaussian", "sigma": 0.25}, "procedure": {"name": "certify", "n0": 10, "against": "guess"},
        "sampling": {"name": "fixed", "n": DRAWS, "alpha": 0.001}, **changes,
    }  # fmt: skip
    spec = Spec.parse(question)
    return Run(
        name=name, kind="certify", rows=tuple(rows), inputs=len(rows), claim=claim_of(spec, None, False), spec=spec,
        means=Means(64, "torch", f"smoothcert certify made-up --data {data.name} --sigma 0.25 --out {name}"),
    )  # fmt: skip


def whole(run: Run) -> Run:
    """Its radii as numbers of coordinates."""
    return replace(run, rows=tuple(replace(row, radius=float(int(9 * row.radius))) for row in run.rows))


def pages(folder: Path) -> dict[str, str]:
    """Name → page: every kind of run that the report has words or parts for."""
    few, many = pictures(folder, 120), pictures(folder, MANY)
    runs = [record(name, few, seed) for seed, name in enumerate(("first", "second", "third"))]
    counted = {"noise": {"name": "splitting", "lam": 0.4, "grid": 255}, "sampling": {"name": "exhaustive"},
               "procedure": {"name": "certify", "n0": 10, "against": "leader"}}  # fmt: skip
    kept = {"noise": {"name": "discrete", "keep": 0.8, "values": 2}}
    rows = tuple(replace(row, answers=(), low=None) for row in runs[0].rows)
    log = Run(name="a log", kind="certify", rows=rows, claim=Claim("l2", "unstated", "unstated"))
    family = Family(runs[0], tuple(runs[1:]), 2, "soft vote")
    return {
        "many": page([record("many", many, 7)]),
        "several": page(runs, sections=report(runs, found=Found([family], []))),
        "norms": page([
            record("counted", few, 3, **counted),
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
