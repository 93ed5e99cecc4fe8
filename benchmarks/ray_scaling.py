"""Draws per second of two single-threaded Ray workers ÷ those of one, and how many workers one driver can feed.

    python benchmarks/ray_scaling.py [--network resnet20] [--draws 2000] [--seconds 15] [--rounds 3] [--stubs 1000]

The classifier is a checkpoint with random weights, the inputs are CIFAR-shaped. Three questions:

    40 inputs    certification with a fixed n, stopped after some seconds
    one input    the same draws, all of one input; and a known radius that needs many draws, with looks

The speed is the slope of draws over time from SETTLING seconds after the first draws on, because starting a worker (a
process, torch, the network) is paid once; of the known radius, whose looks end the run, draws ÷ time from the first to
the last, with what was drawn ahead for nothing. One and two workers take turns; ratios are medians
over rounds of paired ratios, with their range. Two busy cores may slow each other down: `bare` is the same ratio for
two processes with the network alone.

Then the driver alone: stub workers, which sleep for as long as a parcel should take and make up its counts, as many as
are asked for, and the driver's share of one core at a steady state.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import ray
import torch

from smoothcert import catalog
from smoothcert.classifiers import arrange, digest, load, ready
from smoothcert.contracts import Answer, Job, Source
from smoothcert.data import Subset
from smoothcert.data import load as load_data
from smoothcert.engine.cluster import Cluster
from smoothcert.engine.engine import Engine
from smoothcert.engine.ray import COST, SPAN, Hired, Ray
from smoothcert.engine.worker import Report
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.progress import Watcher
from smoothcert.runs.certify import carry_out
from smoothcert.runs.run import Row
from smoothcert.runs.store import RunStore, read
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.spending import Spending
from smoothcert.spec import Means, Recipe, Spec
from smoothcert.training.checkpoints import publish

SHAPE = (3, 32, 32)
NOISE = Gaussian(0.25)
SETTLING = 2.0
RADIUS = 0.875  # 3.5 σ: even of votes that all agree it takes some 30 000 draws to show
ROWS = 2000
INPUTS = 10_000  # of the driver alone
SHARE = 0.87  # of a stub's votes for the first class: a radius of σ needs 0.841, and some 2 000 draws to be shown


class EnoughError(Exception):
    """Ends a run in the middle, as Ctrl-C does."""


def write_files(folder, network):
    """A checkpoint with random weights, and data."""
    torch.manual_seed(0)
    module = catalog.build("architectures", network).build(SHAPE, 10).eval()
    config = {"arch": network, "arch_options": {}, "shape": list(SHAPE), "classes": 10}
    (folder / "model").mkdir()
    publish(folder / "model", module.state_dict(), config)
    x = np.random.default_rng(0).random((500, *SHAPE), dtype=np.float32)
    np.savez(folder / "data.npz", x=x, y=np.zeros(500, dtype=np.int64))


def question(folder, procedure, inputs):
    """The recipe of a procedure on the first inputs, with these inputs and the network."""
    data = Subset(str(folder / "data.npz"), max=inputs)
    found = data.load()
    prepared = ready(load(folder / "model"), found.tensor(0), "onnxruntime", 1)
    spec = Spec(
        str(folder / "model"), digest(folder / "model").hex, data, found.digest, len(found), found.shape, NOISE,
        procedure,
    )  # fmt: skip
    return Recipe(spec, Means(64, prepared.engine, "benchmark", 1)), found, prepared.classifier


def speed(asked, folder, workers, seconds):
    """Draws a second of a run that has got going, and the note on draws that were for nothing."""
    times, drawn = [], []

    def note(rows):
        if rows:
            times.append(time.perf_counter())
            drawn.append(rows)
            if times[-1] - times[0] > SETTLING + seconds:
                raise EnoughError

    recipe, inputs, classifier = asked
    with contextlib.suppress(EnoughError):
        carry_out(recipe, folder, inputs, classifier, Watcher(rows=note), Cluster(workers=workers))
        notes = [note for note in read(folder).means.notes if "thrown away" in note]
        return sum(drawn[1:]) / (times[-1] - times[0]), notes
    settled = np.array(times) > times[0] + SETTLING
    return np.polyfit(np.array(times)[settled], np.cumsum(drawn)[settled], 1)[0], []


def alone(folder, processes, seconds):
    """Images a second of the bare network in so many processes at once."""
    task = ray.remote(num_cpus=1)(images)
    return sum(ray.get([task.remote(folder, seconds) for _ in range(processes)]))


def images(folder, seconds):
    inputs = load_data(str(folder / "data.npz"))
    network = ready(load(folder / "model"), inputs.tensor(0), "onnxruntime", 1).classifier
    time.sleep(max(0.0, 4.0 - time.perf_counter() % 4.0))  # all begin at the same tick of the machine's clock
    return arrange.speed(network, inputs.tensor(0), arrange.Arrangement(1, 1), seconds)


def scaling(folder, rounds, seconds, draws):
    asked = {
        "40 inputs": question(folder, Certify(100, Fixed(draws)), 40),
        "one input": question(folder, Certify(100, Fixed(100_000)), 1),
        f"one input, radius {RADIUS:g}": question(folder, Certify(100, Spending((RADIUS,))), 1),
    }
    ratios = {name: [] for name in [*asked, "bare"]}
    for number in range(rounds):
        for place, (name, one) in enumerate(asked.items()):
            found = {n: speed(one, folder / f"run-{number}-{place}-{n}", n, seconds) for n in (1, 2)}
            ratios[name].append(found[2][0] / found[1][0])
            print(
                f"  {name}: {found[1][0]:,.0f} and {found[2][0]:,.0f} draws/s {found[1][1]} {found[2][1]}", flush=True
            )
        ratios["bare"].append(alone(folder, 2, seconds / 2) / alone(folder, 1, seconds / 2))
    for name, values in ratios.items():
        print(f"2 workers ÷ 1, {name}: {statistics.median(values):.3f}  [{min(values):.3f}, {max(values):.3f}]")


class Stub:
    """Any number of workers in one process, which only sleep."""

    def __init__(self, draws_a_second):
        self.speed, self.locks, self.chance = draws_a_second, defaultdict(asyncio.Lock), np.random.default_rng(0)

    async def carry_out(self, worker, inputs, forgotten, ordered):
        seconds = sum(rows for *_, rows in ordered) / self.speed
        async with self.locks[worker]:  # one parcel after the other
            await asyncio.sleep(seconds)
        hits = self.chance.binomial([rows for *_, rows in ordered], SHARE)
        counts = [np.array([[hit, rows - hit, *[0] * 8]]) for hit, (*_, rows) in zip(hits, ordered, strict=True)]
        return Report(counts, {"forward": seconds}, (), seconds)


class StubHandle:
    """One of them, as the driver sees it."""

    def __init__(self, actor, worker):
        self.actor, self.worker, self.carry_out = actor, worker, self

    def remote(self, *arguments):
        return self.actor.carry_out.remote(self.worker, *arguments)


class Stubs(Ray):
    """The driver's own side, as it is, with stubs for workers."""

    def __init__(self, workers, draws_a_second, parts):
        super().__init__(Cluster(workers=workers), lambda: None, parts)
        self.speed = draws_a_second

    def _start(self):
        if not self._hired:
            kind = ray.remote(num_cpus=0, max_concurrency=10_000)(Stub)
            actor = kind.remote(self.speed)
            for number in range(self.cluster.workers):
                self._hired.append(Hired(StubHandle(actor, number)))
                self._place(self._hired[-1], None)

    def _hear(self, wait=True):
        if (done := super()._hear(wait)) is not None:
            self.told = done.counts
        return done

    def close(self):
        self._hired.clear()


def driver(workers, procedure, rows_a_second, seconds):
    """The driver's processor time a parcel, and its share of a core, with so many workers that sleep."""
    span = max(SPAN, 2 * COST * workers)
    classifier = len  # it is never called
    executor = Stubs(workers, rows_a_second, [classifier])
    executor._speeds[id(classifier)] = rows_a_second
    executor._largest[id(classifier)] = 10**9
    inputs, source = torch.rand(INPUTS, *SHAPE), Source(classifier, NOISE)
    jobs = (Job(number, x, procedure(source, x.numel())) for number, x in enumerate(inputs))
    engine, marks = Engine(executor, 0), []

    def told(rows):
        _, _, parcels, looks, drawn = marks[-1] if marks else (0, 0, 0, 0, 0)
        marks.append((time.perf_counter(), used(), parcels + 1, looks + len(executor.told), drawn + rows))
        if marks[-1][0] - marks[0][0] > 2 * span + seconds:
            raise EnoughError

    engine.advance = told
    with contextlib.suppress(EnoughError):
        for _ in engine.run(jobs):
            pass
    steady = [mark for mark in marks if mark[0] - marks[0][0] > 2 * span]
    elapsed, busy, parcels, segments, drawn = (last - first for first, last in zip(steady[0], steady[-1], strict=True))
    per = 1e3 * busy / parcels
    print(
        f"{workers} stub workers, {rows_a_second:,} draws/s each, parcels of {span:g} s: "
        f"{parcels / elapsed:,.0f} parcels/s ({drawn / elapsed / workers / rows_a_second:.0%} of what they can take), "
        f"{segments / parcels:.0f} segments each, driver {per:.2f} ms a parcel, {busy / elapsed:.0%} of a core; "
        f"at 1 s a parcel it can feed {1e3 / per:,.0f} workers",
        flush=True,
    )


def used():
    """Processor seconds of this process, all threads of Ray's included."""
    found = resource.getrusage(resource.RUSAGE_SELF)
    return found.ru_utime + found.ru_stime


def writing(folder):
    """Milliseconds that the driver needs to keep a row, committed as in a run."""
    recipe = question(folder, Certify(100, Fixed(1000)), 40)[0]
    answers = (Answer("guess", 100, ((100, *[0] * 9),)), Answer("test", 100_000, ((99_000, 1000, *[0] * 8),)))
    start = time.perf_counter()
    with RunStore(folder / "rows", recipe) as store:
        for index in range(ROWS):
            store.add(Row(index, 0, 0, 0.5, 100_100, 1.0, 0, 0.99, answers))
    print(f"writing a row: {1e3 * (time.perf_counter() - start) / ROWS:.3f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="resnet20")
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stubs", default="10,100,1000")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="smoothcert-ray-") as name, Cluster(workers=2).connected():
        folder = Path(name)
        write_files(folder, options.network)
        writing(folder)
        for workers in map(int, filter(None, options.stubs.split(","))):
            driver(workers, Certify(100, Fixed(100_000)), 900, options.seconds)
            driver(workers, Certify(100, Spending((0.25,))), 900, options.seconds)
        if options.rounds:
            scaling(folder, options.rounds, options.seconds, options.draws)


if __name__ == "__main__":
    main()
