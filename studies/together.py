"""Certify networks and several ensembles of them in one pass: each network is asked once about each noisy input.

    python studies/together.py MEMBERS… --ensembles ENS… --data cifar10 --skip 20 --sigma 0.25 --n 10000 --out runs/

Noise is keyed by seed, input and draw, so a member alone and every ensemble of it see the same noisy inputs: asked
together, k members and any number of ensembles cost what the k members cost. Every model gets a run of its own in OUT,
equal row by row to the one that `smoothcert certify` would make, but for its time, which nobody can tell; `smoothcert
verify` and `smoothcert report` take them as they take any. Stopped, it goes on when called again. Every other input
comes first, so that an unfinished pass is already a fair sample.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from smoothcert import data
from smoothcert.classifiers import composite, digest, load, ready
from smoothcert.contracts import Answer, Draw, Job, Outcome, Source
from smoothcert.data import Subset
from smoothcert.engine.engine import Engine
from smoothcert.engine.threads import Threads
from smoothcert.noise import NoNoise
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.progress import bar
from smoothcert.runs.certify import _continued, _sum, row_of
from smoothcert.runs.start import RunRequest, settled
from smoothcert.runs.store import END, RunStore
from smoothcert.sampling.fixed import Fixed
from smoothcert.spec import Means, Recipe, Spec, versions


class Noted:
    """Stands for a member whose scores are already known: a "row" is the number of one."""

    def __init__(self, own, number):
        self.own, self.number = own, number

    def __call__(self, rows):
        return self.own.scores[self.number][rows[:, 0]]


@dataclass(frozen=True, eq=False)
class Everybody:
    """The scores of all members, side by side [batch, members · classes]."""

    members: tuple

    def __call__(self, x):
        return torch.cat([member(x) for member in self.members], dim=1)


@dataclass(frozen=True, eq=False)
class Votes:
    """From those scores, the class that each model names: one column a model."""

    models: tuple
    own: threading.local
    members: int

    def outcomes(self, classes):
        return classes // self.members

    def __call__(self, scores):
        self.own.scores = scores.chunk(self.members, dim=1)
        rows = torch.arange(len(scores)).unsqueeze(1)
        return torch.stack([model(rows).argmax(1) for model in self.models], dim=1)


def steps(source, n0, n):
    """What Certify would ask, and the clean look that every run keeps."""
    guess = yield Draw(source, n0, "guess")
    test = yield Draw(source, n, "test")
    clean = yield Draw(dataclasses.replace(source, noise=NoNoise(source.noise)), 1, "clean")
    return guess, test, clean


def outcome_of(found, column, procedure, noise, dim):
    """One model's own outcome: its column, answered to the procedure."""
    guess, test, clean = (counts[column] for counts in found.result)
    running = procedure(Source(None, noise), dim)
    next(running)
    running.send(guess[None])
    try:
        running.send(test[None])
    except StopIteration as end:
        certificate = end.value
    answers = tuple(
        Answer(purpose, int(counts.sum()), (tuple(map(int, counts)),))
        for purpose, counts in (("guess", guess), ("test", test), ("clean", clean))
    )
    return Outcome(found.index, (int(clean.argmax()), certificate, None), answers, found.seconds)


def models_of(members, folders, own):
    """Every model as a composition of noted members."""
    places = {digest(name).hex: number for number, name in enumerate(members)}
    models = [Noted(own, number) for number in range(len(members))]
    for folder in folders:
        said = composite.read(Path(folder))
        inner = [Noted(own, places[member.digest]) for member in said.members]
        models.append(composite.compose(inner, said.vote, said.cascade))
    return tuple(models)


def recipe_of(model, inputs, options, noise, procedure):
    subset = Subset(options.data, "test", options.skip, options.max)
    spec = Spec(model, digest(model).hex, subset, inputs.digest, len(inputs), inputs.shape, noise, procedure)
    note = ("its members were asked together with other models",)
    return Recipe(spec, Means(64, "onnxruntime", "studies/together.py", options.threads, 1, versions(), note))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("members", nargs="+")
    parser.add_argument("--ensembles", nargs="*", default=[])
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--skip", type=int, default=20)
    parser.add_argument("--max", type=int, default=-1)
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    inputs = data.load(options.data, "test", options.skip, options.max)
    procedure, own = Certify(100, Fixed(options.n)), threading.local()
    asked = RunRequest(options.members[0], Subset(options.data), Gaussian(options.sigma), procedure)
    noise = settled(asked, inputs, options.out)[0].noise  # as `smoothcert certify` would
    names = [*options.members, *options.ensembles]
    models = models_of(options.members, options.ensembles, own)
    fast = tuple(ready(load(name), inputs.tensor(0), threads=1).classifier for name in options.members)
    source = Source(Everybody(fast), noise, Votes(models, own, len(fast)))
    stores = []
    for name in names:
        folder = options.out / Path(name).name
        stores.append(RunStore(folder, _continued(recipe_of(name, inputs, options, noise, procedure), folder)))
    with contextlib.ExitStack() as closing:
        for store, model in zip(stores, models, strict=True):
            closing.enter_context(store)
            closing.callback(count, store, model)
        fill(stores, source, inputs, procedure, options)


def fill(stores, source, inputs, procedure, options):
    """Draw for whatever input one of them lacks, and give every run its row."""
    have = [store.done() for store in stores]
    done = set.intersection(*have)
    places = [p for first in (0, 1) for p in range(first, len(inputs), 2) if int(inputs.indices[p]) not in done]
    jobs = (Job(int(inputs.indices[p]), inputs.tensor(p), steps(source, 100, options.n)) for p in places)
    labels = dict(zip(inputs.indices.tolist(), inputs.labels.tolist(), strict=True))
    with bar("together", "inputs") as update:
        for number, found in enumerate(Engine(Threads(workers=options.threads)).run(jobs)):
            for column, store in enumerate(stores):
                if found.index not in have[column]:
                    one = outcome_of(found, column, procedure, source.noise, int(np.prod(inputs.shape)))
                    store.add(dataclasses.replace(row_of(one, labels[found.index]), seconds=None))
            update(len(done) + number + 1, len(inputs), "")


def count(store, model):
    """Add to a run how many of its members an ensemble has asked."""
    means = store.recipe.means
    means = dataclasses.replace(means, member_calls=_sum(model, means.member_calls, (0, 0, 0)))
    store.write(dataclasses.replace(store.recipe, means=means), END)


if __name__ == "__main__":
    main()
