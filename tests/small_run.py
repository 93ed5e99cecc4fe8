"""A small run on a linear classifier, for tests of storage, resume and verification."""

from __future__ import annotations

from pathlib import Path

import linear
import numpy as np

from smoothcert.classifiers import digest, load
from smoothcert.classifiers.module import resolve
from smoothcert.data import Inputs, Subset
from smoothcert.data import load as load_data
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.progress import Watcher
from smoothcert.runs.certify import carry_out
from smoothcert.sampling.fixed import Fixed
from smoothcert.spec import Means, Recipe, Spec


def write_data(path: Path, number: int = 12, seed: int = 0) -> Path:
    x = np.random.default_rng(seed).random((number, 4), dtype=np.float32)
    import torch

    y = (linear.margin(torch.from_numpy(x)).numpy() > 0).astype(np.int64)
    np.savez(path, x=x, y=y)
    return path


def recipe_for(data: Path, n: int = 500, alpha: float = 0.05, seed: int = 0, batch: int = 64) -> tuple[Recipe, Inputs]:
    inputs = load_data(str(data))
    resolve("linear:score")
    procedure = Certify(50, Fixed(n, alpha))
    spec = Spec(
        "linear:score", digest("linear:score").hex, Subset(str(data)), inputs.digest, len(inputs), inputs.shape,
        Gaussian(0.25), procedure, seed,
    )  # fmt: skip
    return Recipe(spec, Means(batch, "callable", "test")), inputs


def make(folder: Path, data: Path, watcher: Watcher | None = None, **options) -> None:
    recipe, inputs = recipe_for(data, **options)
    carry_out(recipe, folder, inputs, load("linear:score"), watcher)
