"""certus beside the Adversarial Robustness Toolbox and beside the eager loop of the published scripts.

    python benchmarks/peers.py [--networks lenet,resnet20,resnet110,resnet50] [--rounds 5] [--draws N]

Each contender holds the same network in a process of its own, as its users would start it, and certifies the same
inputs (n0 = 100, then n draws) in turn with the others, several rounds. Printed for each: the best draws a second and
their range; certus ÷ it, as the median of paired ratios with their range; peak memory above the loaded network after
n/4 and after n draws, and what n = 100 000 would take. `~` marks what is extrapolated and not measured. Getting ready
(export, choice of threads) is not in the rates; its seconds are shown. Last, whether the probabilities behind the radii
agree: Clopper–Pearson intervals of all contenders' votes, pairwise, joint level 99.9 % for each network.

  certus   its engine as `certus certify` sets it up, batch 64
  ART      PyTorchRandomizedSmoothing.certify at its default batch (32)
  eager    `_sample_noise` of locuslab/smoothing, on the CPU, batch 1000 (all draws at once where n is smaller)

Weights are random; the last bias is set so that the leading class has a probability that is neither 0 nor 1.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import multiprocessing
import os
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import ceil, isclose
from pathlib import Path

import numpy as np
import torch
from peers_network import SHAPES, build, inputs_for

SIGMA, ALPHA, N0, FULL = 0.25, 0.001, 100, 100_000
DRAWS = {"lenet": 20_000, "resnet20": 4000, "resnet110": 1000, "resnet50": 512}
AIMS = {("resnet20", "eager"): 2.8, ("resnet20", "ART"): 2.0, ("resnet110", "ART"): 1.5}
# As `certus` itself starts; the others start as Python does.
ENVIRONMENT = {"certus": {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}}


# --- the contenders: network → function (x, n, seed) → label, votes for it ------------------------------------------


def certus(network, example):
    from certus.classifiers import ready, wrap
    from certus.contracts import Job, Source
    from certus.engine.local import Local
    from certus.noise.gaussian import Gaussian
    from certus.procedures.certify import Certify
    from certus.sampling.fixed import Fixed

    prepared = ready(wrap(network), example)
    source = Source(prepared.classifier, Gaussian(SIGMA))
    engine = Local(workers=prepared.workers)

    def certify(x, n, seed):
        engine.seed = seed
        (outcome,) = engine.run([Job(0, x, Certify(N0, Fixed(n, ALPHA))(source, x.numel()))])
        evidence = outcome.result.evidence
        return evidence.label, evidence.counts[0][evidence.label]

    return certify


def art(network, example):
    from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing

    from certus.bounds import lower_bound

    classes = network(example.unsqueeze(0)).shape[1]
    smoothed = PyTorchRandomizedSmoothing(
        network, torch.nn.CrossEntropyLoss(), tuple(example.shape), classes,
        device_type="cpu", sample_size=N0, scale=SIGMA, alpha=ALPHA,
    )  # fmt: skip

    def certify(x, n, seed):
        np.random.seed(seed)  # noqa: NPY002  (it draws from numpy's global generator)
        labels, radii = smoothed.certify(x.unsqueeze(0).numpy(), n)
        if labels[0] == -1:
            return -1, None
        # It tells the radius only; votes → radius is strictly increasing, so the votes can be had back.
        low = float(torch.special.ndtr(torch.tensor(float(radii[0]) / SIGMA, dtype=torch.float64)))
        votes = min(range(n + 1), key=lambda k: abs(lower_bound(k, n, ALPHA) - low)) if n < 2000 else _bisect(low, n)
        if not isclose(lower_bound(votes, n, ALPHA), low, rel_tol=1e-6):
            raise SystemExit(f"ART's bound is not Clopper and Pearson's: {low} for {votes} of {n}")
        return int(labels[0]), votes

    return certify


def _bisect(low, n):
    from certus.bounds import lower_bound

    least, most = 0, n
    while least < most:
        middle = (least + most) // 2
        least, most = (middle + 1, most) if lower_bound(middle, n, ALPHA) < low * (1 - 1e-9) else (least, middle)
    return least


def eager(network, example):
    def sample(x, num, batch_size=1000):
        """As in core.py of locuslab/smoothing, on the CPU."""
        with torch.no_grad():
            counts = np.zeros(1000, dtype=int)
            for _ in range(ceil(num / batch_size)):
                this_batch_size = min(batch_size, num)
                num -= this_batch_size
                batch = x.repeat((this_batch_size, 1, 1, 1))
                noise = torch.randn_like(batch) * SIGMA
                predictions = network(batch + noise).argmax(1)
                for index in predictions.numpy():
                    counts[index] += 1
            return counts

    def certify(x, n, seed):
        torch.manual_seed(seed)
        label = int(sample(x, N0).argmax())
        return label, int(sample(x, n)[label])

    return certify


CONTENDERS = {"certus": certus, "ART": art, "eager": eager}


# --- a process for each ---------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What one contender did on one network."""

    ready: float = 0.0  # seconds
    extra: float = 0.0  # MiB that getting ready took for a moment, above the loaded network
    bare: float | None = None  # MiB of the bare passes alone
    peaks: dict[int, float] = field(default_factory=dict)  # draws → MiB above the loaded network
    rates: list[float] = field(default_factory=list)
    votes: dict[int, list] = field(default_factory=dict)  # input → (label, votes, n)


def status(key):
    """MiB, from the kernel: ru_maxrss would begin with that of the parent."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[key].split()[0]) / 1024


def forget_peak():
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")


def serve(contender, name, folder, pipe):
    """Hold the network, and certify when told to."""
    network = build(name)
    network.load_state_dict(torch.load(f"{folder}/weights.pt", weights_only=True))
    inputs = torch.load(f"{folder}/inputs.pt", weights_only=True)
    forget_peak()
    loaded, start = status("VmRSS"), time.perf_counter()
    certify = CONTENDERS[contender](network.eval(), inputs[0])
    pipe.send((time.perf_counter() - start, status("VmHWM") - loaded))
    forget_peak()
    while (order := pipe.recv()) is not None:
        number, n, seed = order
        start = time.perf_counter()
        label, votes = certify(inputs[number], n, seed)
        pipe.send((label, votes, time.perf_counter() - start, status("VmHWM") - loaded))


def start(contender, name, folder):
    """A fresh interpreter for a contender, with the environment it would have."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    os.environ.update(ENVIRONMENT.get(contender, {}))
    process = context.Process(target=serve, args=(contender, name, folder, theirs), daemon=True)
    process.start()
    for key in ENVIRONMENT.get(contender, {}):
        del os.environ[key]
    tally = Tally()
    tally.ready, tally.extra = ours.recv()
    return process, ours, tally


def compare(name, contenders, rounds, n):
    """All contenders in turn on one network."""
    with tempfile.TemporaryDirectory() as folder:
        network, inputs = inputs_for(name, SIGMA)
        torch.save(network.state_dict(), f"{folder}/weights.pt")
        torch.save(inputs, f"{folder}/inputs.pt")
        workers = {contender: start(contender, name, folder) for contender in contenders}
        # The first round, of n/4 draws, warms up and shows what memory fewer draws take.
        for turn, draws in enumerate([max(1, n // 4), *[n] * rounds]):
            for _, pipe, tally in workers.values():
                number = turn % len(inputs)
                pipe.send((number, draws, turn))
                label, votes, seconds, peak = pipe.recv()
                tally.peaks[draws] = peak
                tally.votes.setdefault(number, []).append((label, votes, draws))
                if turn:
                    tally.rates.append((draws + N0) / seconds)
        for process, pipe, _ in workers.values():
            pipe.send(None)
            process.join()
    return {contender: tally for contender, (_, _, tally) in workers.items()}


# --- what is printed ------------------------------------------------------------------------------------------------


def full(contender, tally, shape):
    """Memory for n = 100 000 in words."""
    (few, small), (many, large) = sorted(tally.peaks.items())
    if contender == "certus" or (contender == "eager" and few >= 1000):
        return f"{large:,.0f}", large
    slope = (large - small) / (many - few)
    to = FULL if contender == "ART" else 1000
    guess = large + slope * (to - many)
    return f"~{guess:,.0f}", guess


def intervals(tally, number, level):
    """The interval of each label's probability for one input; None where it is not known."""
    from certus.bounds import lower_bound, upper_bound

    rounds = [vote for vote in tally.votes.get(number, []) if vote[1] is not None]
    labels = {label for label, _, _ in rounds}
    if len(labels) != 1:
        return None
    hits, draws = sum(votes for _, votes, _ in rounds), sum(n for _, _, n in rounds)
    return labels.pop(), lower_bound(hits, draws, level / 2), upper_bound(hits, draws, level / 2)


def agreement(tallies):
    """Pairs of contenders, over all inputs: how many have the same label and overlapping intervals."""
    numbers = sorted({number for tally in tallies.values() for number in tally.votes})
    pairs = list(itertools.combinations(tallies.values(), 2))
    level = 0.001 / max(1, len(numbers) * len(tallies))
    agreed = compared = 0
    for number, (one, other) in itertools.product(numbers, pairs):
        a, b = intervals(one, number, level), intervals(other, number, level)
        if a is not None and b is not None:
            compared += 1
            agreed += a[0] == b[0] and a[1] <= b[2] and b[1] <= a[2]
    middle = [intervals(next(iter(tallies.values())), number, level) for number in numbers]
    shown = ", ".join(f"{low:.3f}–{high:.3f}" for _, low, high in (found for found in middle if found))
    return f"  radii: intervals overlap in {agreed} of {compared} comparisons; certus's p_A: {shown}"


def show(name, tallies, n):
    (few, many), shape = sorted((max(1, n // 4), n)), SHAPES[name]
    print(f"\n{name} {'×'.join(map(str, shape))}, n={n}, {len(tallies['certus'].rates)} rounds")
    print(
        f"  {'':<8}{'draws/s':>9}  {'range':<19}{'certus ÷':>9}  {'range':<14}{'ready s':>8}"
        f"{'MiB n/4':>9}{'MiB n':>8}{'n=100 000':>12}  aim"
    )
    for contender, tally in tallies.items():
        ratios = [a / b for a, b in zip(tallies["certus"].rates, tally.rates, strict=True)]
        middle, words = statistics.median(ratios), full(contender, tally, shape)[0]
        aim = AIMS.get((name, contender))
        said = f"≥ {aim} {'yes' if middle >= aim else 'NO'}" if aim else ""
        if contender == "certus" and name == "resnet50":
            said = f"memory < 1024 {'yes' if tally.peaks[many] < 1024 else 'NO'}"
        print(
            f"  {contender:<8}{max(tally.rates):>9,.1f}  "
            f"{f'[{min(tally.rates):,.1f}, {max(tally.rates):,.1f}]':<19}{middle:>9.2f}  "
            f"{f'[{min(ratios):.2f}, {max(ratios):.2f}]':<14}{tally.ready:>8.1f}"
            f"{tally.peaks[few]:>9,.0f}{tally.peaks[many]:>8,.0f}{words:>12}  {said}",
            flush=True,
        )
    print(f"  for a moment while certus exports the network: {tallies['certus'].extra:,.0f} MiB")
    print(agreement(tallies), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default=",".join(DRAWS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--draws", type=int, help="n, for every network; default: a few seconds' worth of each")
    options = parser.parse_args()
    contenders = [name for name in CONTENDERS if name != "ART" or find_spec("art") and find_spec("statsmodels")]
    if "ART" not in contenders:
        print("ART is not compared: pip install adversarial-robustness-toolbox statsmodels")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f} at the start")
    for name in options.networks.split(","):
        n = options.draws or DRAWS.get(name, 1000)
        show(name, compare(name, contenders, options.rounds, n), n)


if __name__ == "__main__":
    main()
