"""What exact arithmetic costs: certification with `gaussian_grid` ÷ certification with `gaussian`, in one process.

    python benchmarks/arithmetic.py [--networks lenet,resnet20] [--sigmas 0.25,1] [--rounds 7] [--seconds 3]

Every round certifies one 8-bit input with a fixed n four times: floats, whole numbers, whole numbers, floats, on one
worker of one thread. A ratio is that of a round's two sums; printed are the median over rounds and the range, of the
time on the clock and of the processor's time (the one to read where others use the machine), and of the noise alone.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from smoothcert import catalog
from smoothcert.classifiers import ready, wrap
from smoothcert.contracts import Job, Source, Stream, batch_rows
from smoothcert.engine.engine import Engine
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_grid import GaussianGrid
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.fixed import Fixed

SHAPES = {"lenet": (1, 28, 28), "resnet20": (3, 32, 32)}
ORDER = ("float", "exact", "exact", "float")


def timed(work):
    """Seconds on the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


def certify(source, x, n):
    """One input through the engine, as a run does it."""
    return lambda: list(Engine().run([Job(0, x, Certify(100, Fixed(n))(source, x.numel()))]))


def fills(noise, x, times):
    """The noise alone, batch by batch."""
    buffer = torch.empty(batch_rows(x.shape), *x.shape)

    def work():
        for number in range(times):
            noise.fill(buffer, x, Stream(0, 0, "test"), number * len(buffer))

    return work


def ratios(works, rounds):
    """Exact ÷ float by round, on the clock and of the processor, from works by name."""
    found = []
    for _ in range(rounds):
        spent = {name: [0.0, 0.0] for name in works}
        for name in ORDER:
            for place, seconds in enumerate(timed(works[name])):
                spent[name][place] += seconds
        found.append([exact / plain for exact, plain in zip(spent["exact"], spent["float"], strict=True)])
    return list(zip(*found, strict=True))


def shown(values):
    return f"{statistics.median(values):.3f} [{min(values):.3f}, {max(values):.3f}]"


def measure(name, sigma, rounds, seconds):
    shape = SHAPES[name]
    torch.manual_seed(0)
    network = catalog.build("architectures", name).build(shape, 10).eval()
    x = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0)) / 255
    classifier = ready(wrap(network), x, threads=1).classifier
    noises = {"float": Gaussian(sigma), "exact": GaussianGrid(sigma)}
    sources = {kind: Source(classifier, noise) for kind, noise in noises.items()}
    for source in sources.values():  # tables are made and the network is settled before anything is timed
        certify(source, x, 1000)()
    n = max(2000, int(2000 * seconds / max(timed(certify(sources["float"], x, 2000))[0], 1e-3)))
    whole = ratios({kind: certify(source, x, n) for kind, source in sources.items()}, rounds)
    alone = ratios({kind: fills(noise, x, 100) for kind, noise in noises.items()}, rounds)
    print(f"{name}, sigma {sigma:g}, n = {n}: exact ÷ float, median of {rounds} rounds [range]")
    print(f"  certification  clock {shown(whole[0])}  processor {shown(whole[1])}")
    print(f"  noise alone    clock {shown(alone[0])}  processor {shown(alone[1])}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default="lenet,resnet20")
    parser.add_argument("--sigmas", default="0.25,1")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    for name in options.networks.split(","):
        for sigma in map(float, options.sigmas.split(",")):
            measure(name, sigma, options.rounds, options.seconds)


if __name__ == "__main__":
    main()
