"""What the engine adds to the bare network, in one process, as ratios measured in turn.

    python benchmarks/throughput.py [--networks lenet,resnet20] [--threads 1,2] [--rounds 5] [--seconds 4]

The bare pass is ONNX Runtime on a prepared batch of the engine's size, nothing else, in the faster of two arrangements:
all threads on one batch, or as many batches at once as threads. Every round measures, one after the other,

    forward    the bare pass, before and after the rest of the round
    both       noise and the same network on the same threads, in a loop with nothing else in it
    fixed      certification with a fixed n, 4 inputs
    spending   certification of a known radius with a look every 100 draws, many inputs packed into full batches
    unpacked   the same, one input at a time

and prints the median over rounds of paired ratios, each with its range. The shares are of the workers' time at fixed n.
The last line shows peak memory at n and at 10 or 20 times n draws (`--memory large`: resnet50 on 3×224×224, called with
`--networks ""`, since a peak is of the process): nothing may grow with n.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import torch

from smoothcert import catalog
from smoothcert.classifiers import arrange, ready, wrap
from smoothcert.contracts import Job, Source, Stream, batch_rows
from smoothcert.engine.local import Local
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.spending import Spending

SMALL = (3, 32, 32)
SHAPES = {"lenet": (1, 28, 28), "digits_cnn": (1, 8, 8)}
NOISE = Gaussian(0.25)
RATIOS = ("fixed ÷ forward", "fixed ÷ both", "spending ÷ fixed", "unpacked ÷ fixed")


def forward(network, x, threads, seconds):
    """Images a second of the network alone, in whichever arrangement of the threads is faster: the limit."""
    choices = {arrange.Arrangement(1, threads), arrange.Arrangement(threads, 1)}
    return max(arrange.speed(network, x, choice, seconds) for choice in sorted(choices))


def both(network, x, workers, seconds):
    """Noisy images a second through the network: so many threads that each make noise, then pass it, and do no more."""
    end = time.perf_counter() + seconds

    def work(number):
        buffer, made = torch.zeros(batch_rows(x.shape), *x.shape), 0
        while time.perf_counter() < end:
            NOISE.fill(buffer, x, Stream(0, number, "test"), made)
            network(buffer)
            made += len(buffer)
        return made

    start = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        return sum(pool.map(work, range(workers))) / (time.perf_counter() - start)


def certified(source, inputs, procedure, workers=1, at_once=None):
    """Draws a second of the whole engine, and the shares of its workers' time; a fresh engine, already settled."""
    engine = Local(seed=0, workers=workers)
    list(engine.run([Job(10**6, inputs[0], Certify(64, Fixed(64, 0.05))(source, inputs[0].numel()))]))
    engine.shares.update(dict.fromkeys(engine.shares, 0.0))
    start = time.perf_counter()
    jobs = [Job(i, x, procedure(source, x.numel())) for i, x in enumerate(inputs)]
    at_once = at_once or len(jobs)
    groups = [jobs[first : first + at_once] for first in range(0, len(jobs), at_once)]
    draws = sum(answer.draws for group in groups for outcome in engine.run(group) for answer in outcome.answers)
    elapsed = time.perf_counter() - start
    return draws / elapsed, {name: seconds / elapsed / workers for name, seconds in engine.shares.items()}


def measure(name, threads, rounds, seconds):
    shape = SHAPES.get(name, SMALL)
    torch.manual_seed(0)
    network = catalog.build("architectures", name).build(shape, 10).eval()
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    prepared = ready(wrap(network), x, threads=threads)
    source, network, workers = Source(prepared.classifier, NOISE), prepared.classifier, prepared.workers
    images = int(forward(network, x, threads, 1) * seconds)
    fixed, spending = Certify(100, Fixed(max(1000, images // 4))), Certify(100, Spending((0.125,)))
    (outcome,) = Local().run([Job(0, x, spending(source, x.numel()))])
    inputs = [x] * max(8, images // sum(answer.draws for answer in outcome.answers))
    found, rates, shares = [], [], []
    for _ in range(rounds):
        before = forward(network, x, threads, seconds / 2)
        noisy = both(network, x, workers, seconds)
        at_fixed, share = certified(source, [x] * 4, fixed, workers)
        packed, _ = certified(source, inputs, spending, workers)
        alone, _ = certified(source, inputs[: max(4, len(inputs) // 4)], spending, workers, at_once=1)
        bare = (before + forward(network, x, threads, seconds / 2)) / 2
        found.append((at_fixed / bare, at_fixed / noisy, packed / at_fixed, alone / at_fixed))
        rates.append(bare)
        shares.append(share)
    middle = {key: statistics.median(share[key] for share in shares) for key in shares[0]}
    print(f"{name}, {threads} threads, {workers} workers, batch {batch_rows(shape)}, {rounds} rounds: ", end="")
    print(f"{statistics.median(rates):,.0f} bare images/s, spending on {len(inputs)} inputs")
    for label, values in zip(RATIOS, zip(*found, strict=True), strict=True):
        print(f"  {label:<18}{statistics.median(values):>7.3f}  [{min(values):.3f}, {max(values):.3f}]")
    print("  shares            ", "  ".join(f"{key} {value:.1%}" for key, value in middle.items()), flush=True)


def memory(name, shape, draws):
    """Peak memory above the network loaded in torch, after few and after many draws."""
    network = catalog.build("architectures", name).build(shape, 10).eval()
    x = torch.rand(shape)
    with torch.inference_mode():
        network(x.unsqueeze(0))
    bare = peak()
    prepared = ready(wrap(network), x)
    print(f"{name} {'×'.join(map(str, shape))}: {bare:.0f} MiB loaded, +{peak() - bare:.0f} once ready", end="")
    for n in draws:
        certified(Source(prepared.classifier, NOISE), [x], Certify(16, Fixed(n, 0.05)), prepared.workers)
        print(f", +{peak() - bare:.0f} after n={n:,}", end="", flush=True)
    print()


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default="lenet,resnet20,resnet110")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--memory", choices=("small", "large", "none"), default="small")
    options = parser.parse_args()
    for name in filter(None, options.networks.split(",")):
        for threads in map(int, options.threads.split(",")):
            measure(name, threads, options.rounds, options.seconds)
    if options.memory == "small":
        memory("resnet8", SMALL, (1000, 20_000))
    elif options.memory == "large":
        memory("resnet50", (3, 224, 224), (32, 320))


if __name__ == "__main__":
    main()
