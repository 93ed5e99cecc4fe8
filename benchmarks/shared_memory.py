"""How a query of a memory grows with its regions, in a file or in PostgreSQL, on inputs that are made up.

    python benchmarks/shared_memory.py [--place postgresql://user@host/database?memory=NEW] [--regions 1000,100000]

Inputs have 3 072 values along 40 directions of falling weight, as images have; radii are up to 1. The same queries are
asked at every size: half inside a region, half elsewhere. Beside the mean stands the mean of each query's fastest pass.
The memory must not exist yet, and stays.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from smoothcert.memory import Memory, named

DIM, BATCH, PASSES = 3072, 500, 5


def inputs(count, rng, ways):
    return (0.5 + (rng.standard_normal((count, len(ways))) / np.arange(1, len(ways) + 1) ** 0.5) @ ways).astype("f4")


def ask(memory, asked):
    """Milliseconds of every query in every pass."""
    passes = []
    for _ in range(PASSES):
        passes.append([])
        for x in asked:
            start = time.perf_counter()
            memory.query(x)
            passes[-1].append(1e3 * (time.perf_counter() - start))
    return passes


def measure(place, sizes, queries):
    rng = np.random.default_rng(0)
    ways = rng.standard_normal((40, DIM)) * 0.2
    asked, first = None, None
    with Memory.create(place, "benchmark", "l2", (DIM,)) as memory:
        for done, size in zip([0, *sizes], sizes, strict=False):
            start = time.perf_counter()
            for begin in range(done, size, BATCH):
                x = inputs(min(BATCH, size - begin), rng, ways)
                if asked is None:
                    asked = np.concatenate([x[: queries // 2], inputs(queries - queries // 2, rng, ways)])
                memory._admit_all(zip(x, rng.integers(10, size=len(x)), rng.uniform(0.01, 1, len(x)), strict=True))
            admission = 1e3 * (time.perf_counter() - start) / (size - done)
            passes = ask(memory, asked)
            every = [one for times in passes for one in times]
            fastest = statistics.fmean(min(several) for several in zip(*passes, strict=True))
            mean, slow = statistics.fmean(every), statistics.quantiles(every, n=100)[98]
            first = first or (mean, fastest)
            print(
                f"{size:>7} offered, {len(memory):>6} kept: query {mean:.3f} ms"
                f" (99 % below {slow:.3f}), ×{mean / first[0]:.2f};"
                f" fastest passes {fastest:.3f} ms, ×{fastest / first[1]:.2f}; admission {admission:.2f} ms in batches",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--place", help="a file or a URL; default: a file that is removed afterwards")
    parser.add_argument("--regions", default="1000,10000,100000")
    parser.add_argument("--queries", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = options.place or str(Path(folder) / "memory.sqlite")
        print(named(place))
        measure(place, [int(size) for size in options.regions.split(",")], options.queries)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
