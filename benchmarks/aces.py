"""What all thresholds cost: ACES with its histogram of entropies against plain certification, as ratios.

    python benchmarks/aces.py [--networks resnet20,lenet] [--threads 1] [--rounds 5] [--draws 20000]

Every round certifies the same inputs by the same number of draws, once counting classes and once classes and entropies
(`smoothcert.readouts`; the core is asked once an input), in turn; printed is the median of the paired ratios with its
range. Then the time in which 500 inputs with n = 100 000 are combined at 101 thresholds, and the bytes that
such an input takes on disk, from histograms narrow to as wide as there can be.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import torch

from smoothcert import catalog
from smoothcert.classifiers import ready, wrap
from smoothcert.classifiers.composed import Bundle
from smoothcert.contracts import Answer, Job, Source
from smoothcert.decisions import BINS, VoteCounts, composed, of_classes, of_selection
from smoothcert.engine.engine import Engine
from smoothcert.engine.threads import Threads
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.aces import AcesProcedure
from smoothcert.procedures.certify import Certify
from smoothcert.runs.rows import row_values as values
from smoothcert.runs.run import Row
from smoothcert.sampling.fixed import Fixed

SHAPES = {"lenet": (1, 28, 28), "digits_cnn": (1, 8, 8)}
NOISE, DIM, N0, ALPHA = Gaussian(0.25), 784, 100, 0.001


def seconds(engine, procedure, source, inputs):
    start = time.perf_counter()
    list(engine.run(Job(i, x, procedure(source, x.numel())) for i, x in enumerate(inputs)))
    return time.perf_counter() - start


def passes(name, threads, rounds, draws):
    """Plain and ACES certification of 4 inputs, in turn."""
    shape = SHAPES.get(name, (3, 32, 32))
    torch.manual_seed(0)
    inputs = list(torch.rand(4, *shape))
    prepared = ready(wrap(catalog.build("architectures", name).build(shape, 10).eval()), inputs[0], threads=threads)
    both = Bundle(("certify", "core"), (prepared.classifier, prepared.classifier), (NOISE, None))
    engine = Engine(Threads(workers=prepared.workers))
    plain = Certify(N0, Fixed(draws, ALPHA)), Source(prepared.classifier, NOISE)
    aces = AcesProcedure(0.3, N0, draws, ALPHA, draws // 10), Source(both, NOISE)
    for procedure, source in (plain, aces):
        seconds(engine, procedure, source, inputs[:1])
    ratios = [seconds(engine, *aces, inputs) / seconds(engine, *plain, inputs) for _ in range(rounds)]
    print(f"{name}, {threads} threads: all thresholds ÷ one certification "
          f"{statistics.median(ratios):.3f} ({min(ratios):.3f} – {max(ratios):.3f})")  # fmt: skip


def combining(rounds):
    rng = np.random.default_rng(0)
    middle, width = rng.random((500, 1)) * 0.7, 0.05 + rng.random((500, 1)) * 0.15
    shares = np.exp(-(((np.arange(BINS) / BINS - middle) / width) ** 2))
    tallies = [_tally(rng, each) for each in (rng.dirichlet([0.3] * 10, size=500), shares)]
    core, grid, times = rng.integers(0, 10, 500), np.arange(BINS + 1) / BINS, []
    for _ in range(rounds):
        start = time.perf_counter()
        selection = of_selection(tallies[1], grid, ALPHA / 2, NOISE, DIM)
        composed(selection, of_classes(tallies[0], ALPHA / 2, NOISE, DIM), core)
        times.append(time.perf_counter() - start)
    print(f"combining 500 inputs at 101 thresholds: {statistics.median(times):.3f} s")


def _tally(rng, shares):
    shares = shares / shares.sum(axis=1, keepdims=True)
    guess, look, rest = (np.stack([rng.multinomial(n, row) for row in shares]) for n in (100, 10_000, 90_000))
    return VoteCounts(guess, look, look + rest)


def storage():
    rng, sizes = np.random.default_rng(0), []
    for width in (0.02, 0.1, 0.3, 10.0):
        shares = np.exp(-(((np.arange(BINS) / BINS - 0.4) / width) ** 2))[None]
        bins, classes = _tally(rng, shares), _tally(rng, rng.dirichlet([0.5] * 10, size=1))
        counts = [np.stack([np.pad(c[0], (0, BINS - 10)), b[0]]) for c, b in zip(classes, bins, strict=True)]
        counts[2] -= counts[1]
        answers = [Answer(name, int(c[0].sum()), tuple(tuple(map(int, row)) for row in c))
                   for name, c in zip(("guess", "test", "test"), counts, strict=True)]  # fmt: skip
        sizes.append(len(next(v for v in values(Row(0, 0, 0, 0.0, answers=tuple(answers))) if isinstance(v, str))))
    print(f"bytes of counts an input, narrow to flat histograms: {', '.join(map(str, sizes))}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--networks", default="resnet20,lenet")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=20_000)
    options = parser.parse_args()
    for network in options.networks.split(","):
        passes(network, options.threads, options.rounds, options.draws)
    combining(options.rounds)
    storage()
