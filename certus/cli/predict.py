"""`certus predict`: the smoothed classifier's label for every input, without a radius."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certus.cli import _options as o


def command(
    model: o.Model,
    data: o.Data,
    sigma: o.Sigma,
    out: Annotated[Path, typer.Option(help="Folder of the run; an unfinished one is continued.")],
    n: Annotated[int, typer.Option("--n", "--N", help="Draws for each input.")] = 1000,
    alpha: o.Alpha = 0.001,
    skip: o.Skip = 1,
    max: o.Max = -1,
    start: o.Start = 0,
    split: o.Split = "test",
    seed: o.Seed = 0,
    batch: o.Batch = None,
    range: o.Range = None,
    image_size: o.ImageSize = None,
    engine: o.Engine = "auto",
    threads: o.Threads = None,
    ray: o.Ray = None,
    ray_workers: o.RayWorkers = None,
) -> None:
    """Predict with the smoothed classifier; abstain where n draws cannot tell the two leading classes apart.

    certus predict models/a --data cifar10 --skip 20 --sigma 0.25 --out runs/a-predict
    """
    from certus.noise.gaussian import Gaussian
    from certus.procedures.predict import Predict
    from certus.recipe import describe
    from certus.streams import check_seed

    noise, procedure = Gaussian(sigma), Predict(n, alpha)
    check_seed(seed)
    o.check_batch(batch)
    cluster = o.cluster_of(ray, ray_workers, threads)
    subset = o.Subset(data, split, skip, max, range, image_size, start)
    inputs = subset.load()
    prepared = o.prepare(model, inputs, engine, threads)
    question = o.question_of(model, subset, inputs, describe(noise), describe(procedure), None, seed)
    recipe = o.recipe_of(question, prepared, batch, inputs, threads)
    o.carry_out_shown(recipe, out, inputs, prepared, f"predict {inputs.name}", cluster)
    o.say_summary(out)
