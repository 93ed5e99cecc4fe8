"""Draws per second of certification ÷ images per second of the bare forward pass, in one process, at one batch size.

    python benchmarks/throughput.py [--networks lenet,resnet20] [--threads 1,2] [--schemes fixed,spending] [--rounds 7]

The bare pass is ONNX Runtime on a prepared batch, nothing else, in the faster of two arrangements: all threads on one
batch, or as many batches at once as threads. Both are measured in turn, several rounds; the ratio is the median over
rounds of paired ratios, with its range. `noise`, `forward`, `count` are shares of the workers' time. The last lines
show peak memory at n and at 20·n draws: nothing may grow with n.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time

import torch

from certus import catalog
from certus.classifiers import arrange, ready, wrap
from certus.contracts import Job, Source
from certus.engine.local import Local
from certus.noise.gaussian import Gaussian
from certus.procedures.certify import Certify
from certus.sampling.fixed import Fixed
from certus.sampling.spending import Spending

BATCH = 64
SHAPES = {"lenet": (1, 28, 28), "digits_cnn": (1, 8, 8)}


def bare(network, x, threads, seconds):
    """Images a second of the network alone, in whichever arrangement of the threads is faster: the limit."""
    choices = {arrange.Arrangement(1, threads), arrange.Arrangement(threads, 1)}
    return max(arrange.speed(network, x, choice, seconds) for choice in sorted(choices))


def certified(source, inputs, procedure, workers=1):
    """Draws a second of the whole engine, and the shares of its workers' time; a fresh engine, already settled."""
    engine = Local(BATCH, seed=0, workers=workers)
    list(engine.run([Job(10**6, inputs[0], Certify(64, Fixed(64, 0.05))(source, inputs[0].numel()))]))
    engine.shares.update(dict.fromkeys(engine.shares, 0.0))
    start = time.perf_counter()
    jobs = (Job(i, x, procedure(source, x.numel())) for i, x in enumerate(inputs))
    draws = sum(answer.draws for outcome in engine.run(jobs) for answer in outcome.answers)
    elapsed = time.perf_counter() - start
    return draws / elapsed, {name: seconds / elapsed / workers for name, seconds in engine.shares.items()}


def work_for(scheme, source, x, images):
    """A procedure and the inputs that take it about so many images."""
    if scheme == "fixed":
        return Certify(100, Fixed(max(1000, images // 4))), [x] * 4
    # Looks every 100 draws: each input is decided after a few of them, the hardest case for full batches.
    procedure = Certify(100, Spending((0.125,)))
    (outcome,) = Local(BATCH).run([Job(0, x, procedure(source, x.numel()))])
    return procedure, [x] * max(8, images // sum(answer.draws for answer in outcome.answers))


def measure(name, threads, scheme, rounds, seconds):
    shape = SHAPES.get(name, (3, 32, 32))
    torch.manual_seed(0)
    network = catalog.build("architectures", name).build(shape, 10).eval()
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    prepared = ready(wrap(network), x, threads=threads)
    source = Source(prepared.classifier, Gaussian(0.25))
    network = prepared.classifier
    procedure, inputs = work_for(scheme, source, x, int(bare(network, x, threads, seconds) * seconds))
    ratios, rates, shares = [], [], []
    for _ in range(rounds):
        before = bare(network, x, threads, seconds)
        speed, share = certified(source, inputs, procedure, prepared.workers)
        after = bare(network, x, threads, seconds)
        ratios.append(2 * speed / (before + after))
        rates.append((before + after) / 2)
        shares.append(share)
    middle = {key: statistics.median(share[key] for share in shares) for key in shares[0]}
    print(
        f"{name:<12}{scheme:<10}{threads:>8}{prepared.workers:>8}{statistics.median(rates):>14,.0f}"
        f"{statistics.median(ratios):>9.3f}  [{min(ratios):.3f}, {max(ratios):.3f}]"
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
        certified(source, [x], Certify(100, Fixed(n)))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"peak memory after n={n}: {peak:.1f} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default="lenet,resnet20,resnet110")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--schemes", default="fixed,spending")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    shares = "".join(f"{name:>9}" for name in ("noise", "forward", "count"))
    names = f"{'network':<12}{'scheme':<10}{'threads':>8}{'workers':>8}{'forward img/s':>14}{'ratio':>9}"
    print(f"{names}  {'range':<14}{shares}")
    for name in options.networks.split(","):
        for threads in map(int, options.threads.split(",")):
            for scheme in options.schemes.split(","):
                measure(name, threads, scheme, options.rounds, options.seconds)
    memory()


if __name__ == "__main__":
    main()
