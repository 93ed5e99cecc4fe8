"""`certus predict`: the smoothed classifier's label for every input, without a radius."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from certus.cli import _arithmetic as a
from certus.cli import _memory as m
from certus.cli import _options as o
from certus.cli import _parts as p
from certus.errors import OptionError


def command(
    model: o.Model,
    data: o.Data,
    out: Annotated[Path, typer.Option(help="Folder of the run; an unfinished one is continued.")],
    sigma: o.AnySigma = None,
    noise: o.NoiseName = "gaussian",
    arithmetic: a.Option = None,
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
    memory: m.Asked = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="name=value, another option of the noise.")] = None,
) -> None:
    """Predict with the smoothed classifier; abstain where n draws cannot tell the two leading classes apart.

    certus predict models/a --data cifar10 --skip 20 --sigma 0.25 --out runs/a-predict
    """
    from certus.procedures.predict import Predict
    from certus.recipe import describe
    from certus.streams import check_seed

    chosen, unknown = p.noise_of(noise, sigma, set_)
    if unknown:
        raise OptionError(f"--set of predict must be an option of {noise} noise; got '{unknown[0]}'")
    a.check(arithmetic, chosen)
    procedure = Predict(n, alpha)
    m.check(memory, None, memory is not None, chosen, False, "guess")
    check_seed(seed)
    o.check_batch(batch)
    cluster = o.cluster_of(ray, ray_workers, threads)
    subset = o.Subset(data, split, skip, max, range, image_size, start)
    inputs = subset.load()
    chosen = a.settled(chosen, arithmetic, inputs, out)
    print(f"certus: {p.say_noise(chosen)}", file=sys.stderr)
    prepared = o.prepare(model, inputs, engine, threads)
    question = o.question_of(model, subset, inputs, describe(chosen), describe(procedure), None, seed)
    recipe = o.recipe_of(question, prepared, batch, inputs, threads)
    remember = m.recall(memory, question, inputs, chosen, alone=False)
    o.carry_out_shown(recipe, out, inputs, prepared, f"predict {inputs.name}", cluster, remember)
    o.say_summary(out)
