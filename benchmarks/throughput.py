"""What the engine adds to the bare network, in one process, as ratios measured in turn.

    python benchmarks/throughput.py [--networks lenet,resnet20] [--threads 1,2] [--rounds 5] [--seconds 4]
    python benchmarks/throughput.py --device cuda [--networks resnet20,resnet50]

The bare pass is ONNX Runtime on a prepared batch of the engine's size, nothing else, in the faster of two arrangements:
all threads on one batch, or as many batches at once as threads. Every round measures, one after the other,

    forward    the bare pass, before and after the rest of the round
    both       noise and the same network on the same threads, in a loop with nothing else in it
    fixed      certification with a fixed n, 4 inputs
    spending   certification of a known radius with a look every 100 draws, many inputs packed into full batches
    unpacked   the same, one input at a time

and prints the median over rounds of paired ratios, each with its range. The shares are of the workers' time at fixed n.
With --device (cpu, cuda), the device executor instead: `forward` is the same torch network on a prepared batch of the
size that the executor has measured, `threads` is torch with noise by numpy, brought over batch by batch. On a GPU
device ÷ forward should be at least 0.95 with resnet20 and resnet50; here there was none to try it on.
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
from smoothcert.engine.device import Device
from smoothcert.engine.engine import Engine
from smoothcert.engine.threads import Threads
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.spending import Spending

SMALL = (3, 32, 32)
SHAPES = {"lenet": (1, 28, 28), "digits_cnn": (1, 8, 8)}
NOISE = Gaussian(0.25)
LARGE = {"resnet50": (3, 224, 224)}
DEVICE_RATIOS = ("device ÷ forward", "device ÷ threads", "spending ÷ device")
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
    engine = Engine(Threads(workers=workers))
    list(engine.run([Job(10**6, inputs[0], Certify(64, Fixed(64, 0.05))(source, inputs[0].numel()))]))
    engine.executor.shares.update(dict.fromkeys(engine.executor.shares, 0.0))
    start = time.perf_counter()
    jobs = [Job(i, x, procedure(source, x.numel())) for i, x in enumerate(inputs)]
    at_once = at_once or len(jobs)
    groups = [jobs[first : first + at_once] for first in range(0, len(jobs), at_once)]
    draws = sum(answer.draws for group in groups for outcome in engine.run(group) for answer in outcome.answers)
    elapsed = time.perf_counter() - start
    return draws / elapsed, {name: seconds / elapsed / workers for name, seconds in engine.executor.shares.items()}


def measure(name, threads, rounds, seconds):
    shape = SHAPES.get(name, SMALL)
    torch.manual_seed(0)
    network = catalog.build("architectures", name).build(shape, 10).eval()
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    prepared = ready(wrap(network), x, threads=threads)
    source, network, workers = Source(prepared.classifier, NOISE), prepared.classifier, prepared.workers
    images = int(forward(network, x, threads, 1) * seconds)
    fixed, spending = Certify(100, Fixed(max(1000, images // 4))), Certify(100, Spending((0.125,)))
    (outcome,) = Engine().run([Job(0, x, spending(source, x.numel()))])
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


def on_device(name, device, rounds, seconds):
    """The device executor against the same network alone on that device, and against threads that make the noise."""
    shape = SHAPES.get(name, LARGE.get(name, SMALL))
    torch.manual_seed(0)
    network = catalog.build("architectures", name).build(shape, 10).eval()
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    prepared = ready(wrap(network), x, f"torch:{device}")
    source, engines = (
        Source(prepared.classifier, NOISE),
        {"device": Engine(Device(device)), "threads": Engine(Threads())},
    )
    for engine in engines.values():  # each looks at the network, measures, and compiles
        list(engine.run([Job(0, x, Certify(64, Fixed(5000, 0.05))(source, x.numel()))]))
    rows = engines["device"].executor.room(source, Job(0, x, iter(())))
    images = int(passes(prepared.classifier, x, rows, device, 1) * seconds)
    procedures = {"device": Certify(100, Fixed(max(1000, images // 4))), "spending": Certify(100, Spending((0.125,)))}
    found = []
    for _ in range(rounds):
        before = passes(prepared.classifier, x, rows, device, seconds / 2)
        at_fixed = speed(engines["device"], source, [x] * 4, procedures["device"])
        threads = speed(engines["threads"], source, [x] * 4, procedures["device"])
        looks = speed(engines["device"], source, [x] * max(8, images // 1000), procedures["spending"])
        bare = (before + passes(prepared.classifier, x, rows, device, seconds / 2)) / 2
        found.append((at_fixed / bare, at_fixed / threads, looks / at_fixed))
    means = f"batch {rows}, {torch.get_num_threads()} CPU threads, {rounds} rounds"
    print(f"{name} on {device}, {means}: {bare:,.0f} bare images/s")
    for label, values in zip(DEVICE_RATIOS, zip(*found, strict=True), strict=True):
        print(f"  {label:<18}{statistics.median(values):>7.3f}  [{min(values):.3f}, {max(values):.3f}]")
    shares = engines["device"].executor.shares
    print(
        "  shares            ", "  ".join(f"{key} {value / sum(shares.values()):.1%}" for key, value in shares.items())
    )
    if device.startswith("cuda"):
        print(f"  peak memory of the device: {torch.cuda.max_memory_allocated(device) / 2**20:,.0f} MiB")


def passes(network, x, rows, device, seconds):
    """Images a second of the network alone on a batch that is already there."""
    batch, made = x.to(device).expand(rows, *x.shape).contiguous(), 0
    with torch.inference_mode():
        network(batch)
        wait(device)
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            network(batch)
            wait(device)
            made += rows
    return made / (time.perf_counter() - start)


def wait(device):
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def speed(engine, source, inputs, procedure):
    """Draws a second of an engine that has looked at the network before."""
    start = time.perf_counter()
    jobs = [Job(i, x, procedure(source, x.numel())) for i, x in enumerate(inputs)]
    draws = sum(answer.draws for outcome in engine.run(jobs) for answer in outcome.answers)
    return draws / (time.perf_counter() - start)


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
    parser.add_argument("--device", default="", help="cpu or cuda: the device executor instead")
    options = parser.parse_args()
    if options.device:
        for name in filter(None, options.networks.split(",")):
            on_device(name, options.device, options.rounds, options.seconds)
        return
    for name in filter(None, options.networks.split(",")):
        for threads in map(int, options.threads.split(",")):
            measure(name, threads, options.rounds, options.seconds)
    if options.memory == "small":
        memory("resnet8", SMALL, (1000, 20_000))
    elif options.memory == "large":
        memory("resnet50", (3, 224, 224), (32, 320))


if __name__ == "__main__":
    main()
