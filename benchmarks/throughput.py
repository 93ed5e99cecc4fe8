"""Draws per second of certification ÷ images per second of the bare forward pass, in one process, at one batch size.

    python benchmarks/throughput.py [--networks lenet,resnet20,resnet110] [--threads 1,2] [--rounds 7] [--seconds 2]

The bare pass is ONNX Runtime on a prepared batch, nothing else. Both are measured in turn, several rounds; the ratio is
the median over rounds of paired ratios, with its range. `noise`, `forward`, `count` are shares of the engine's time.
The last lines show peak memory at n and at 20·n draws: nothing may grow with n.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time

import torch

from certus import catalog
from certus.classifiers import ready, wrap
from certus.contracts import Job, Source
from certus.engine.local import Local
from certus.noise.gaussian import Gaussian
from certus.procedures.certify import Certify
from certus.sampling.fixed import Fixed

BATCH = 64
SHAPES = {"lenet": (1, 28, 28), "digits_cnn": (1, 8, 8)}


def bare(classifier, batch, seconds):
    """Images a second of the network alone."""
    start, images = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < seconds:
        classifier(batch)
        images += len(batch)
    return images / elapsed


def certified(source, inputs, n):
    """Draws a second of the whole engine, and the shares of its time; a fresh engine, already settled."""
    engine = Local(BATCH, seed=0)
    procedure = Certify(100, Fixed(n))
    list(engine.run([Job(10**6, inputs[0], Certify(64, Fixed(64, 0.05))(source, inputs[0].numel()))]))
    engine.shares.update(dict.fromkeys(engine.shares, 0.0))
    start = time.perf_counter()
    jobs = (Job(i, x, procedure(source, x.numel())) for i, x in enumerate(inputs))
    draws = sum(answer.draws for outcome in engine.run(jobs) for answer in outcome.answers)
    elapsed = time.perf_counter() - start
    return draws / elapsed, {name: seconds / elapsed for name, seconds in engine.shares.items()}


def measure(name, threads, rounds, seconds):
    shape = SHAPES.get(name, (3, 32, 32))
    network = catalog.build("architectures", name).build(shape, 10).eval()
    x = torch.rand(4, *shape, generator=torch.Generator().manual_seed(0))
    prepared = ready(wrap(network), x[0], threads=threads)
    source = Source(prepared.classifier, Gaussian(0.25))
    batch = x[0] + 0.25 * torch.randn(BATCH, *shape)
    rate = bare(prepared.classifier, batch, seconds)
    n = max(1000, int(rate * seconds / len(x)))
    ratios, rates, shares = [], [], []
    for _ in range(rounds):
        before = bare(prepared.classifier, batch, seconds)
        speed, share = certified(source, list(x), n)
        after = bare(prepared.classifier, batch, seconds)
        ratios.append(2 * speed / (before + after))
        rates.append((before + after) / 2)
        shares.append(share)
    middle = {key: statistics.median(share[key] for share in shares) for key in shares[0]}
    print(
        f"{name:<12}{threads:>8}{statistics.median(rates):>14,.0f}{statistics.median(ratios):>9.3f}"
        f"  [{min(ratios):.3f}, {max(ratios):.3f}]"
        + "".join(f"{middle[key]:>9.1%}" for key in ("noise", "forward", "count")),
        flush=True,
    )


def memory():
    """Peak memory after few and after many draws."""
    shape = (3, 32, 32)
    network = catalog.build("architectures", "resnet8").build(shape, 10).eval()
    x = torch.rand(shape)
    source = Source(ready(wrap(network), x).classifier, Gaussian(0.25))
    for n in (1000, 20_000):
        certified(source, [x], n)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"peak memory after n={n}: {peak:.1f} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default="lenet,resnet20,resnet110")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    shares = "".join(f"{name:>9}" for name in ("noise", "forward", "count"))
    print(f"{'network':<12}{'threads':>8}{'forward img/s':>14}{'ratio':>9}  {'range':<14}{shares}")
    for name in options.networks.split(","):
        for threads in map(int, options.threads.split(",")):
            measure(name, threads, options.rounds, options.seconds)
    memory()


if __name__ == "__main__":
    main()
