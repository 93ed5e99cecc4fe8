"""Draws per second of two single-threaded Ray workers ÷ those of one, and what handing out a unit costs.

    python benchmarks/ray_scaling.py [--network resnet20] [--draws 2000] [--seconds 15] [--rounds 5]

A certification, stopped after some seconds, on one cluster with room for two workers; the classifier is a checkpoint
with random weights, the inputs are CIFAR-shaped. The speed is the slope of draws over time from SETTLING seconds after
the first draws on, because starting a worker (a process, torch, the network) is paid once. One and two workers take
turns; the ratio is the median over rounds of paired ratios, with its range. Two busy cores may slow each other down,
and other users of the machine slow both: `bare` is the same ratio for two processes with the network alone, after each.
Then the driver's costs: the round trip of a unit without draws, its own work on one report, and on a row.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import ray
import torch

from smoothcert import catalog
from smoothcert.classifiers import arrange, digest, load, ready
from smoothcert.contracts import Answer
from smoothcert.data import Subset
from smoothcert.data import load as load_data
from smoothcert.engine.ray import Cluster, Workbench, Worker
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.runs.certify import Watcher, carry_out
from smoothcert.runs.run import Row
from smoothcert.runs.store import RunStore
from smoothcert.sampling.fixed import Fixed
from smoothcert.spec import Means, Recipe, Spec
from smoothcert.training.checkpoints import publish

SHAPE = (3, 32, 32)
UNITS, ROWS, WAITING = 500, 2000, (10, 100, 1000)
INPUTS = 500  # more than are certified in time
SETTLING = 2.0


class EnoughError(Exception):
    """Ends a run in the middle, as Ctrl-C does."""


def write_files(folder, network):
    """A checkpoint with random weights, and data."""
    torch.manual_seed(0)
    module = catalog.build("architectures", network).build(SHAPE, 10).eval()
    config = {"arch": network, "arch_options": {}, "shape": list(SHAPE), "classes": 10}
    (folder / "model").mkdir()
    publish(folder / "model", module.state_dict(), config)
    x = np.random.default_rng(0).random((INPUTS, *SHAPE), dtype=np.float32)
    np.savez(folder / "data.npz", x=x, y=np.zeros(INPUTS, dtype=np.int64))


def recipe_for(folder, draws):
    inputs = load_data(str(folder / "data.npz"))
    prepared = ready(load(folder / "model"), inputs.tensor(0), "onnxruntime", 1)
    procedure = Certify(100, Fixed(draws))
    spec = Spec(
        str(folder / "model"), digest(folder / "model").hex, Subset(str(folder / "data.npz")), inputs.digest,
        len(inputs), inputs.shape, Gaussian(0.25), procedure,
    )  # fmt: skip
    return Recipe(spec, Means(64, prepared.engine, "benchmark", 1)), inputs, prepared.classifier


def speed(recipe, inputs, classifier, folder, workers, seconds):
    """Draws a second of a run that has got going."""
    times, drawn = [], []

    def note(rows):
        if rows:
            times.append(time.perf_counter())
            drawn.append(rows)
            if times[-1] - times[0] > SETTLING + seconds:
                raise EnoughError

    with contextlib.suppress(EnoughError):
        carry_out(recipe, folder, inputs, classifier, Watcher(rows=note), Cluster(workers=workers))
    settled = np.array(times) > times[0] + SETTLING
    return np.polyfit(np.array(times)[settled], np.cumsum(drawn)[settled], 1)[0]


def alone(folder, processes, seconds):
    """Images a second of the bare network in so many processes at once."""
    task = ray.remote(num_cpus=1)(images)
    return sum(ray.get([task.remote(folder, seconds) for _ in range(processes)]))


def images(folder, seconds):
    inputs = load_data(str(folder / "data.npz"))
    network = ready(load(folder / "model"), inputs.tensor(0), "onnxruntime", 1).classifier
    time.sleep(max(0.0, 4.0 - time.perf_counter() % 4.0))  # all begin at the same tick of the machine's clock
    return arrange.speed(network, inputs.tensor(0), arrange.Arrangement(1, 1), seconds)


def scaling(recipe, inputs, classifier, folder, rounds, seconds):
    print(f"{'round':<8}{'1 worker':>12}{'2 workers':>12}{'ratio':>8}{'bare':>8}   (draws/s)", flush=True)
    ratios, bare = [], []
    for number in range(rounds):
        speeds = {n: speed(recipe, inputs, classifier, folder / f"run-{number}-{n}", n, seconds) for n in (1, 2)}
        ratios.append(speeds[2] / speeds[1])
        bare.append(alone(folder, 2, seconds / 2) / alone(folder, 1, seconds / 2))
        print(f"{number:<8}{speeds[1]:>12,.0f}{speeds[2]:>12,.0f}{ratios[-1]:>8.3f}{bare[-1]:>8.3f}", flush=True)
    for name, found in (("2 workers / 1", ratios), ("bare network, 2 processes / 1", bare)):
        print(f"{name}: median {statistics.median(found):.3f}  [{min(found):.3f}, {max(found):.3f}]")


class Nothing:
    """Answers nothing, at once."""

    def __init__(self):
        self.notes = []

    def run(self, jobs):
        return iter(())


def bench(advance):
    return Workbench(Nothing(), list)


def milliseconds(samples):
    ordered = sorted(1e3 * sample for sample in samples)
    tenth = len(ordered) // 10
    return (
        f"median {statistics.median(ordered):.2f} ms, eight of ten in [{ordered[tenth]:.2f}, {ordered[-1 - tenth]:.2f}]"
    )


def overhead():
    """Round trip of a unit without draws, empty and with one input of CIFAR's and one of ImageNet's size."""
    worker = ray.remote(num_cpus=1)(Worker).remote(bench, 0.5)
    list(worker.answer.remote([]))
    for name, shape in (("empty", None), ("one 3×32×32 input", SHAPE), ("one 3×224×224 input", (3, 224, 224))):
        items = [] if shape is None else [(0, np.zeros(shape, dtype=np.float32), 0)]
        samples = []
        for _ in range(UNITS):
            start = time.perf_counter()
            for report in worker.answer.remote(items):
                ray.get(report)
            samples.append(time.perf_counter() - start)
        print(f"unit there and back, {name}: {milliseconds(samples)}")
    for number in WAITING:
        print(f"driver's work on one report of {number} workers: {milliseconds(waits(worker, number))}")
    ray.kill(worker)


def waits(worker, number):
    """The driver's own work on one report when so many streams have something to tell."""
    samples, streams = [], {worker.answer.remote([]) for _ in range(number)}
    ray.wait(list(streams), num_returns=number)
    for _ in range(min(number, 200)):
        start = time.perf_counter()
        stream = ray.wait(list(streams), num_returns=1)[0][0]
        ray.get(next(stream))
        samples.append(time.perf_counter() - start)
        streams.discard(stream)
    return samples


def writing(recipe, folder):
    """Rows a second that the driver can keep, committed as in a run."""
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
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="smoothcert-ray-") as name, Cluster(workers=2).connected():
        folder = Path(name)
        write_files(folder, options.network)
        recipe, inputs, classifier = recipe_for(folder, options.draws)
        overhead()
        writing(recipe, folder)
        scaling(recipe, inputs, classifier, folder, options.rounds, options.seconds)


if __name__ == "__main__":
    main()
