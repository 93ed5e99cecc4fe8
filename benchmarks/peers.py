"""smoothcert beside the Adversarial Robustness Toolbox and beside the eager loop of the published scripts.

    python benchmarks/peers.py [--networks lenet,resnet20,resnet110,resnet50] [--rounds 5] [--draws N]

Each contender holds the same network in a process of its own, as its users would start it, and certifies the same
inputs (n0 = 100, then n draws) in turn with the others, several rounds. Printed for each: the best draws a second and
their range; smoothcert ÷ it, as the median of paired ratios with their range; the seconds and the memory of getting
ready (libraries, export, choice of threads), which are not in the rates; peak memory, all of it above the loaded
network, after n/4 and after n draws, and what n = 100 000 would take. `~` marks what is extrapolated and not measured.
Last, whether the probabilities behind the radii agree: Clopper–Pearson intervals of all contenders' votes, pairwise,
joint level 99.9 % for each network.

Weights are random, the last bias is set so that votes are split. Who is compared, and how: contenders.py.
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
from pathlib import Path

import torch
from contenders import CONTENDERS, N0, build, questions, shape_of

FULL = 100_000
DRAWS = {"lenet": 20_000, "resnet20": 4000, "resnet110": 1000, "resnet50": 512}
AIMS = {("resnet20", "eager"): 2.8, ("resnet20", "ART"): 2.0, ("resnet110", "ART"): 1.5}
# As `smoothcert` itself starts; the others start as Python does.
ENVIRONMENT = {"smoothcert": {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}}


# --- a process for each ---------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What one contender did on one network."""

    ready: float = 0.0  # seconds
    extra: float = 0.0  # MiB that getting ready took for a moment, above the loaded network
    held: float = 0.0  # MiB of these that stay: libraries, and for smoothcert the exported network
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
    seconds, extra = time.perf_counter() - start, status("VmHWM") - loaded
    forget_peak()
    pipe.send((seconds, extra, status("VmRSS") - loaded))
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
    theirs.close()  # so that the death of the process ends our waiting
    for key in ENVIRONMENT.get(contender, {}):
        del os.environ[key]
    tally = Tally()
    try:
        tally.ready, tally.extra, tally.held = ours.recv()
    except EOFError:
        raise SystemExit(f"{contender} could not be made ready for {name}; its own words are above") from None
    return process, ours, tally


def compare(name, contenders, rounds, n):
    """All contenders in turn on one network."""
    with tempfile.TemporaryDirectory() as folder:
        network, inputs = questions(name)
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


def full(contender, tally):
    """Peak memory at n = 100 000. smoothcert and the eager loop hold batches only: a full batch is the peak."""
    (few, small), (many, large) = sorted(tally.peaks.items())
    few = max(few, N0)  # a certification with fewer draws than n0 still holds those of n0
    if many <= few:
        return float("nan")
    most = {"smoothcert": many, "eager": 1000}.get(contender, FULL)
    return large + max(0, most - many) * (large - small) / (many - few)


def intervals(tally, number, level):
    """The interval of each label's probability for one input; None where it is not known."""
    from smoothcert.bounds import lower_bound, upper_bound

    rounds = tally.votes[number]
    labels = {label for label, _, _ in rounds}
    if len(labels) != 1 or -1 in labels:  # ART does not tell the votes where it abstains
        return None
    hits, draws = sum(votes for _, votes, _ in rounds), sum(n for _, _, n in rounds)
    return labels.pop(), lower_bound(hits, draws, level / 2), upper_bound(hits, draws, level / 2)


def agreement(tallies):
    """Pairs of contenders, over all inputs: how many have the same label and overlapping intervals."""
    numbers = sorted(tallies["smoothcert"].votes)
    pairs = list(itertools.combinations(tallies.values(), 2))
    level = 0.001 / max(1, len(numbers) * len(tallies))
    agreed = compared = 0
    for number, (one, other) in itertools.product(numbers, pairs):
        a, b = intervals(one, number, level), intervals(other, number, level)
        if a is not None and b is not None:
            compared += 1
            agreed += a[0] == b[0] and a[1] <= b[2] and b[1] <= a[2]
    middle = [intervals(tallies["smoothcert"], number, level) for number in numbers]
    shown = ", ".join(f"{low:.3f}–{high:.3f}" for _, low, high in (found for found in middle if found))
    unknown = len(numbers) * len(pairs) - compared
    return (
        f"  radii: intervals overlap in {agreed} of {compared} pairs ({unknown} abstained); smoothcert's p_A: {shown}"
    )


def show(name, tallies, n):
    few, many = max(1, n // 4), n
    print(f"\n{name} {'×'.join(map(str, shape_of(name)))}, n={n}, {len(tallies['smoothcert'].rates)} rounds")
    print(
        f"  {'':<8}{'draws/s':>9}  {'range':<19}{'smoothcert ÷':>9}  {'range':<14}{'ready s':>8}"
        f"{'ready MiB':>11}{'n/4':>8}{'n':>8}{'n=100 000':>11}  aim"
    )
    for contender, tally in tallies.items():
        ratios = [a / b for a, b in zip(tallies["smoothcert"].rates, tally.rates, strict=True)]
        middle, guess = statistics.median(ratios), f"~{full(contender, tally):,.0f}"
        aim = AIMS.get((name, contender))
        said = f"≥ {aim} {'yes' if middle >= aim else 'NO'}" if aim else ""
        if contender == "smoothcert" and name == "resnet50":
            said = f"memory < 1024 {'yes' if tally.peaks[many] < 1024 else 'NO'}"
        print(
            f"  {contender:<8}{max(tally.rates):>9,.1f}  "
            f"{f'[{min(tally.rates):,.1f}, {max(tally.rates):,.1f}]':<19}{middle:>9.2f}  "
            f"{f'[{min(ratios):.2f}, {max(ratios):.2f}]':<14}{tally.ready:>8.1f}"
            f"{tally.held:>11,.0f}{tally.peaks[few]:>8,.0f}{tally.peaks[many]:>8,.0f}{guess:>11}  {said}",
            flush=True,
        )
    print(f"  for a moment while smoothcert exports the network: {tallies['smoothcert'].extra:,.0f} MiB")
    print(agreement(tallies), flush=True)


def ticks():
    """Ticks of all cores so far: in all, not idle, and those of this process and the ones it has ended."""
    numbers = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    own = sum(os.times()[:4]) * os.sysconf("SC_CLK_TCK")
    return sum(numbers), sum(numbers) - numbers[3] - numbers[4], own


def show_others(before):
    """Threads of torch that wait for one another lose far more than smoothcert when a core is taken away."""
    every, used, own = (now - was for now, was in zip(ticks(), before, strict=True))
    others = max(0.0, used - own) / max(1, every)
    print(f"  others used {others:.0%} of the machine meanwhile", end="")
    print(": NOT QUIET, these ratios flatter smoothcert" if others > 0.03 else "", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default=",".join(DRAWS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--draws", type=int, help="n, for every network; default: a few seconds' worth of each")
    options = parser.parse_args()
    contenders = [name for name in CONTENDERS if name != "ART" or (find_spec("art") and find_spec("statsmodels"))]
    if "ART" not in contenders:
        print("ART is not compared: pip install adversarial-robustness-toolbox statsmodels")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    for name in options.networks.split(","):
        before = ticks()
        n = options.draws or DRAWS.get(name, 1000)
        show(name, compare(name, contenders, options.rounds, n), n)
        show_others(before)


if __name__ == "__main__":
    main()
