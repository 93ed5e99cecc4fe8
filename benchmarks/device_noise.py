"""What noise costs when a torch device makes it: µs an image of `fill` in numpy, `fill_rows` as it is, and compiled.

    python benchmarks/device_noise.py [--device cpu] [--rows 64] [--shape 3,32,32] [--rounds 60] [--noises uniform,…]

On a CPU one thread does everything. The three take turns within every round, `fill` always on the CPU; printed are
medians over rounds with the range, and the median of the rounds' ratios to numpy (below 1: faster). Compiling, 10 to
30 s a noise and once for a shape, is not counted. The first line tells whether the device's words are those of the CPU.
On a GPU the same command with `--device cuda --rows 1024` waits for the device before and after every turn.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import torch

from smoothcert import philox, streams
from smoothcert.contracts import Stream, StreamRows, as_it_is
from smoothcert.noise.discrete import Discrete
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_grid import GaussianGrid
from smoothcert.noise.splitting import Splitting
from smoothcert.noise.uniform import Uniform

NOISES = {
    "gaussian": Gaussian(0.25),
    "gaussian_grid": GaussianGrid(0.25),
    "gaussian_grid_wide": GaussianGrid(1.0),
    "uniform": Uniform(sigma=0.25),
    "discrete": Discrete(keep=0.8),
    "splitting": Splitting(lam=0.5),
    "splitting_pattern": Splitting(lam=0.5, pattern=1),
}
SEED, KEY = 0, 7


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(work, device, rows):
    """µs a row."""
    work()  # others used the caches meanwhile
    wait(device)
    begun = time.perf_counter()
    work()
    wait(device)
    return (time.perf_counter() - begun) / rows * 1e6


def works(noise, shape, rows, device, run):
    """The three by name, and the outputs of the last two beside that of the first."""
    x = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0)) / 255
    there = x.to(device).expand(rows, *shape)
    outs = {"numpy": torch.empty(rows, *shape)}
    outs |= {name: torch.empty(rows, *shape, device=device) for name in ("torch", "compiled")}
    names = torch.full((rows,), KEY, device=device), torch.arange(rows, device=device)

    def by_rows(name, how):
        return lambda: noise.fill_rows(outs[name], there, StreamRows(SEED, "test", *names, how))

    return {
        "numpy": lambda: noise.fill(outs["numpy"], x, Stream(SEED, KEY, "test"), 0),
        "torch": by_rows("torch", as_it_is),
        "compiled": by_rows("compiled", run),
    }, outs


def shown(values):
    return f"{statistics.median(values):7.2f} [{min(values):.2f}, {max(values):.2f}]"


def measure(name, shape, rows, device, rounds):
    run = philox.Compiled()
    ways, outs = works(NOISES[name], shape, rows, device, run)
    for work in ways.values():  # tables and compilations
        work()
    spent = {way: [] for way in ways}
    for _ in range(rounds):
        for way, work in ways.items():
            spent[way].append(timed(work, device, rows))
    print(name)
    for way, times in spent.items():
        apart = float((outs[way].cpu() - outs["numpy"]).abs().max())
        ratio = statistics.median(own / numpy for own, numpy in zip(times, spent["numpy"], strict=True))
        print(f"  {way:9} {shown(times):32} ÷ numpy {ratio:6.2f}   differs by at most {apart:.1e}", flush=True)
    for note in run.notes:
        print(f"  {note}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", type=torch.device)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--shape", default="3,32,32")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--noises", default=",".join(NOISES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = StreamRows(SEED, "test", *(torch.full((1,), value, device=options.device) for value in (KEY, 3)))
    there = philox.words(philox.names(rows), 800).cpu().numpy().view(np.uint32)
    same = np.array_equal(there, streams.words(Stream(SEED, KEY, "test"), 3, 1, 800))
    print(f"{options.device}: the words are {'those of the CPU' if same else 'NOT THOSE OF THE CPU'}; µs an image")
    for name in options.noises.split(","):
        measure(name, tuple(map(int, options.shape.split(","))), options.rows, options.device, options.rounds)


if __name__ == "__main__":
    main()
