"""l1 by uniform noise and l0 by discrete noise: one network against an ensemble of three.

    python studies/norms.py [--arms l1,l0] [--epochs 10] [--skip 20] [--n 10000] [--out FOLDER]
    python studies/norms.py --arms l1 --data cifar10 --arch airbench32 --augment crop_flip --lr 0.2 --batch 128

For each noise three networks (seeds 0, 1, 2; lenets on MNIST unless others are named) are trained under it by plain
cross-entropy, one thread, one-cycle epochs, and certified together with the mean of their scores: every noisy input is
made once and shown to all of them. Each model has a run of its own in FOLDER, which `smoothcert verify` and
`smoothcert report` take; a stopped study goes on where it was.
The table ends with the published figures of Horváth et al. (ICLR 2022, Tables 17 and 19; l0 on MNIST, l1 on CIFAR-10;
other networks): what to hold against them is the step from one network to three.
"""

from __future__ import annotations

import argparse
import statistics
import threading
from pathlib import Path

import numpy as np
import torch
from together import Everybody, Votes, models_of, outcome_of, recipe_of, steps

from smoothcert import data
from smoothcert.classifiers import composite, load, ready
from smoothcert.contracts import Job, Source
from smoothcert.engine.engine import Engine
from smoothcert.noise.discrete import Discrete
from smoothcert.noise.uniform import Uniform
from smoothcert.procedures.certify import Certify
from smoothcert.report.metrics import figures
from smoothcert.runs.certify import row_of
from smoothcert.runs.store import RunStore, read
from smoothcert.sampling.fixed import Fixed
from smoothcert.training import Settings
from smoothcert.training.loop import train

SEEDS = (0, 1, 2)
NOISES = {"l1": Uniform(lam=1.0), "l0": Discrete(keep=0.8, values=2)}
OPTIONS = {"l1": ("uniform", {"lam": 1.0}), "l0": ("discrete", {"keep": 0.8, "values": 2})}
RADII = {"l1": (0.0, 0.25, 0.5, 0.75), "l0": tuple(map(float, range(10)))}
PUBLISHED = {
    "l1": ("CIFAR-10, resnet20", {1: (0.571, 71.2, 65.4, 60.2, 51.6), 3: (0.610, 72.4, 68.6, 63.4, 56.0)}),
    "l0": (
        "MNIST",
        {
            1: (3.231, 97.8, 90.0, 73.7, 49.9, 48.5, 23.6, 17.3, 7.9, 1.6, 1.6),
            3: (3.575, 98.4, 92.5, 79.0, 56.1, 54.7, 38.2, 21.6, 10.7, 2.4, 2.4),
        },
    ),
}


def trained(arm, options, folder):
    """Three networks under this noise; finished ones are left as they are."""
    name, level = OPTIONS[arm]
    places = []
    for seed in SEEDS:
        places.append(str(folder / f"{arm}-{seed}"))
        train(
            Settings(options.data, options.arch, epochs=options.epochs, lr=options.lr, schedule="one_cycle",
                     batch=options.batch, augment=options.augment, precision=options.precision, seed=seed, noise=name,
                     noise_options=level),
            Path(places[-1]),
        )  # fmt: skip
    return places


def certified(members, arm, inputs, options, out):
    """A run of each member and of their mean, from the same draws."""
    noise, procedure, own = NOISES[arm], Certify(100, Fixed(options.n)), threading.local()
    whole = out / f"{arm}-mean-of-3"
    parts = tuple(composite.described(whole, member) for member in members)
    composite.write(whole, composite.Composite("ensemble", parts, {"name": "soft_vote"}))
    names, models = [*members, str(whole)], models_of(members, [whole], own)
    fast = tuple(ready(load(name), inputs.tensor(0), threads=1).classifier for name in members)
    source = Source(Everybody(fast), noise, Votes(models, own, len(fast)))
    places = [out / f"n{options.n}-{Path(name).name}" for name in names]
    stores = [
        RunStore(place, recipe_of(name, inputs, options, noise, procedure))
        for place, name in zip(places, names, strict=True)
    ]
    labels = dict(zip(inputs.indices.tolist(), inputs.labels.tolist(), strict=True))
    for store in stores:
        store.__enter__()
    try:
        have = [store.done() for store in stores]
        left = [p for p, index in enumerate(inputs.indices.tolist()) if not all(index in done for done in have)]
        jobs = (Job(int(inputs.indices[p]), inputs.tensor(p), steps(source, 100, options.n)) for p in left)
        for found in Engine().run(jobs):
            for column, store in enumerate(stores):
                if found.index not in have[column]:
                    outcome = outcome_of(found, column, procedure, noise, int(np.prod(inputs.shape)))
                    store.add(row_of(outcome, labels[found.index]))
    finally:
        for store in stores:
            store.__exit__(None, None, None)
    return [figures(read(place), RADII[arm]) for place in places]


def line(name, acr, shares):
    return f"| {name} | {acr:.3f} | " + " | ".join(f"{share:.1f}" for share in shares) + " |"


def shares(run):
    return [100 * share.value for share in run.certified_accuracy.values()]


def table(arm, runs, inputs, options):
    """Markdown: the mean of the three alone (and their range of ACR), the three together, and what is published."""
    *alone, together = runs
    acrs = [run.acr for run in alone]
    where, published = PUBLISHED[arm]
    print(f"\n{options.data}, {options.arch}, {arm}, {NOISES[arm]}, {len(inputs)} test inputs, n = {options.n}\n")
    print("| | ACR | " + " | ".join(f"r = {radius:g}" for radius in RADII[arm]) + " |")
    print("|---|" + "---|" * (1 + len(RADII[arm])))
    means = [statistics.mean(column) for column in zip(*map(shares, alone), strict=True)]
    print(line(f"one network, mean of 3 (ACR {min(acrs):.3f} to {max(acrs):.3f})", statistics.mean(acrs), means))
    print(line("three together", together.acr, shares(together)))
    for size, (acr, *rest) in published.items():
        print(line(f"published, {where}, {size}", acr, rest))
    ratio, theirs = together.acr / statistics.mean(acrs), published[3][0] / published[1][0]
    print(f"\nACR of three ÷ one: {ratio:.3f} here, {theirs:.3f} published", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arms", default="l1,l0")
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--arch", default="lenet")
    parser.add_argument("--augment", default="none")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--precision", default="float32", help="of training")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--skip", type=int, default=20)
    parser.add_argument("--max", type=int, default=-1)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=Path("study-norms"))
    options = parser.parse_args()
    options.threads = 1
    torch.set_num_threads(1)
    inputs = data.load(options.data, "test", options.skip, options.max)
    for arm in options.arms.split(","):
        members = trained(arm, options, options.out)
        table(arm, certified(members, arm, inputs, options, options.out), inputs, options)


if __name__ == "__main__":
    main()
