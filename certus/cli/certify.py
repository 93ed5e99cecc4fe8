"""`certus certify`: a label and a proven radius for every input."""

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
    n: Annotated[int, typer.Option("--n", "--N", help="Draws that prove the radius.")] = 100_000,
    n0: Annotated[int, typer.Option("--n0", "--N0", help="Draws that choose the class.")] = 100,
    alpha: o.Alpha = 0.001,
    skip: o.Skip = 1,
    max: o.Max = -1,
    split: o.Split = "test",
    seed: o.Seed = 0,
    batch: o.Batch = 64,
    range: o.Range = None,
    image_size: o.ImageSize = None,
    engine: o.Engine = "auto",
    threads: o.Threads = None,
) -> None:
    """Certify every input: its label cannot change within the radius found, except with probability alpha.

    certus certify models/a --data cifar10 --skip 20 --sigma 0.25 --out runs/a
    """
    from certus.noise.gaussian import Gaussian
    from certus.procedures.certify import Certify
    from certus.recipe import describe
    from certus.sampling.fixed import Fixed
    from certus.streams import check_seed

    # Everything that can be refused is refused before anything is loaded or written.
    noise, sampling = Gaussian(sigma), Fixed(n, alpha)
    procedure = Certify(n0, sampling)
    check_seed(seed)
    o.check_batch(batch)
    o.say_reach(noise, sampling)
    subset = o.Subset(data, split, skip, max, range, image_size)
    inputs = subset.load()
    prepared = o.prepare(model, inputs, engine, threads)
    parts = describe(noise), describe(procedure), describe(sampling)
    question = o.question_of(model, subset, inputs, *parts, seed)
    o.carry_out_shown(o.recipe_of(question, prepared, batch, threads), out, inputs, prepared, f"certify {inputs.name}")
    o.say_summary(out)
