"""Runs of `islands:score` with a memory, made without the command line; what the tests of that share."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import islands

from smoothcert.classifiers import digest, load
from smoothcert.classifiers.module import resolve
from smoothcert.data import Subset
from smoothcert.data import load as load_data
from smoothcert.memory import Memory
from smoothcert.noise.gaussian import Gaussian
from smoothcert.preparation.per_input_sigma import PerInputSigma
from smoothcert.procedures.certify import Certify
from smoothcert.procedures.predict import Predict
from smoothcert.runs.certify import carry_out
from smoothcert.runs.remember import Remember
from smoothcert.runs.store import read
from smoothcert.sampling.fixed import Fixed
from smoothcert.spec import Means, Recipe, Spec

SEARCH = PerInputSigma(search="votes", draws=40, evaluations=400, low=0.01, high=0.2)


def recipe_for(data: Path, predict: bool = False) -> tuple[Recipe, object]:
    inputs, _ = load_data(str(data)), resolve("islands:score")
    procedure = Predict(200, 0.05) if predict else Certify(50, Fixed(300, 0.05))
    spec = Spec(
        "islands:score", digest("islands:score").hex, Subset(str(data)), inputs.digest, len(inputs), inputs.shape,
        Gaussian(0.02), procedure, 0, None if predict else SEARCH,
    )  # fmt: skip
    return Recipe(spec, Means(64, "callable", "test")), inputs


def make(folder: Path, data: Path, file: Path | None, order: str | None = "index", watcher=None, **options) -> None:
    """A run; with a file, beside the memory in it, which is made if there is none. No order: nothing is added."""
    recipe, inputs = recipe_for(data, **options)
    if file is None:
        carry_out(recipe, folder, inputs, load("islands:score"), watcher)
        return
    Memory.make(file, recipe.spec.model_digest, "l2", inputs.shape)
    with Memory.open(file, frozen=order is None) as memory:
        alone = order is None and not options.get("predict")
        remember = Remember(memory, str(file), order, alone)
        carry_out(recipe, folder, inputs, load("islands:score"), watcher, None, remember)


def rows(folder: Path) -> list[object]:
    return [dataclasses.replace(row, seconds=None) for row in read(folder).rows]


def regions(file: Path) -> list[tuple[object, ...]]:
    """Everything that the memory holds, in order."""
    with Memory.open(file, frozen=True) as memory:
        store = memory._store
        parts = store._connection.execute("SELECT id, label, radius, certified FROM regions ORDER BY id").fetchall()
        return [(*part, store.vectors([part[0]]).tobytes()) for part in parts]


write_data = islands.write_data
