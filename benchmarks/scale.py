"""What a large run costs once it is drawn: writing its rows, reading, verifying, report, page, comparison, export.

    python benchmarks/scale.py [--inputs 10000,100000] [--classes 1000x10000] [--keep FOLDER]

Runs are made, not drawn: inputs of four coordinates, a linear classifier, and votes by chance from the probability that
the classifier really has under noise. Radii follow from the votes, so that every row is valid (`smoothcert verify
--redraw 0` agrees); only a redraw would find other votes. `--inputs 10000,100000,1000000` takes some minutes.
Then a run of 10⁴ inputs at n = 10⁸, and one of many classes (inputs x classes), whose votes are spread over 50 of them.

Each command runs in a process of its own, which says its processor seconds (without waiting, so that a busy machine
does not count; libraries that a command loads do) and its peak of memory. What grows with a run is in the columns `µs`
and `bytes`: differences to the smallest run, for each further input.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from smoothcert.bounds import lower_bounds, radii_between
from smoothcert.classifiers import digest
from smoothcert.classifiers.module import resolve
from smoothcert.contracts import ABSTAIN, Answer
from smoothcert.data import Subset, load
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.runs.run import Row
from smoothcert.runs.store import RunStore
from smoothcert.sampling.fixed import Fixed
from smoothcert.spec import Means, Recipe, Spec

WEIGHT, BIAS, SIGMA = np.array([3.0, -2.0, 1.0, 0.5], dtype=np.float32), -0.9, 0.25
N0, ALPHA = 11, 0.001  # odd: two classes never tie
SPREAD = 50  # classes that get votes, of many
CHUNK = 100_000  # inputs whose rows are made at a time: the maker itself must stay small
# VmHWM, because ru_maxrss would begin with what the parent has.
CHILD = """
import contextlib, io, json, re, sys, time
from pathlib import Path
from smoothcert.cli.main import run
from smoothcert.runs.store import read
words, began = sys.argv[1:], time.process_time()
with contextlib.redirect_stdout(io.StringIO()):
    code = len(read(Path(words[1])).rows) == 0 if words[0] == "read" else run(words)
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1000
print(json.dumps({"code": int(code), "seconds": time.process_time() - began, "peak": peak}))
"""


def score(x):
    import torch

    side = x.flatten(1) @ torch.from_numpy(WEIGHT) + BIAS
    return torch.stack([-side, side], dim=1)


class Cost(NamedTuple):
    seconds: float
    peak: int  # bytes
    size: int = 0  # of the file that was written


def inputs_of(folder, number, rng):
    """Inputs and labels in a file; one label in twenty is not what the classifier says."""
    x = rng.random((number, 4), dtype=np.float32)
    y = ((x @ WEIGHT + BIAS > 0) ^ (rng.random(number) < 0.05)).astype(np.int64)
    np.savez(folder / f"data-{number}.npz", x=x, y=y)
    return x, y, folder / f"data-{number}.npz"


def rows(x, y, n, classes, seed):
    """A valid row an input, made a chunk at a time."""
    from scipy.special import ndtr

    rng, noise = np.random.default_rng(seed), Gaussian(SIGMA)
    for first in range(0, len(x), CHUNK):
        side = x[first : first + CHUNK] @ WEIGHT + BIAS
        sure = ndtr(np.abs(side) / (SIGMA * np.linalg.norm(WEIGHT)).astype(np.float64))
        hits, guesses = rng.binomial(n, sure), rng.binomial(N0, sure)
        tested = np.where(2 * guesses > N0, hits, n - hits)  # the class that the guess chose, right or not
        low = lower_bounds(tested, n, ALPHA)
        radius = radii_between(low, 1 - low, noise, x.shape[1])
        said = np.where(2 * guesses > N0, side > 0, side <= 0).astype(int)
        columns = (side > 0).astype(int), said, hits, guesses, low, radius
        for i, (clean, chosen, hit, guess, bound, reach) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True), start=first
        ):
            answers = (
                Answer("guess", N0, (votes(clean, guess, N0, classes, chosen),)),
                Answer("test", n, (votes(clean, hit, n, classes, clean),)),
                Answer("clean", 1, (votes(clean, 1, 1, classes, clean),)),
            )
            label, proven = (chosen, reach) if reach >= 0 else (ABSTAIN, 0.0)
            yield Row(i, int(y[i]), label, proven, N0 + n, 1e-4, clean, bound if bound > 0 else None, answers)


def votes(top, hits, n, classes, winner):
    """Hits for a class, and what is left: for the other of two, or spread over some of many that do not overtake it."""
    counts = [0] * classes
    counts[top] = hits
    left = n - hits
    if classes == 2 or winner != top or left < SPREAD:
        counts[1 - top] += left
        return tuple(counts)
    for k in range(SPREAD):
        counts[2 + k * (classes - 2) // SPREAD] += left // SPREAD
    counts[1 - top] += left % SPREAD
    return tuple(counts)


def write(folder, name, number, n, classes=2, seed=0):
    """A run; gives its folder and the processor's seconds that the store took for its rows, without making them."""
    x, y, data = inputs_of(folder, number, np.random.default_rng(0))
    inputs = load(str(data))
    resolve("scale:score")
    spec = Spec(
        "scale:score", digest("scale:score").hex, Subset(str(data)), inputs.digest, number, inputs.shape,
        Gaussian(SIGMA), Certify(N0, Fixed(n, ALPHA)), seed,
    )  # fmt: skip
    spent = 0.0
    with RunStore(folder / name, Recipe(spec, Means(64, "callable", "benchmarks/scale.py"))) as store:
        for row in rows(x, y, n, classes, seed):
            began = time.process_time()
            store.add(row)
            spent += time.process_time() - began
        began = time.process_time()
        store.commit()
        spent += time.process_time() - began
    return folder / name, spent


def command(*words, made=None):
    done = subprocess.run([sys.executable, "-c", CHILD, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode or json.loads(done.stdout)["code"]:
        raise SystemExit(f"smoothcert {' '.join(map(str, words))}: {done.stderr}")
    found = json.loads(done.stdout)
    return Cost(found["seconds"], found["peak"], made.stat().st_size if made else 0)


def costs(folder, run, other=None, valid=True):
    """What each command takes on a run; compared with another of the same inputs, if there is one.

    Of many classes the made guesses are not always those that were tested: such rows are not valid.
    """
    page, table = folder / "page.html", folder / "table.csv"
    yield "read", command("read", run)
    if valid:
        yield "verify", command("verify", run, "--redraw", "0")
    yield "report", command("report", run)
    yield "report --html", command("report", run, "--html", page, made=page)
    if other is not None:
        yield "compare", command("compare", run, other)
    yield "export csv", command("export", run, "--to", "csv", "--out", table, made=table)


def show(title, found, number, least=None):
    """A line a command; beside it, what each input more than the smallest run's has cost."""
    print(f"\n{title}\n{'':16}{'seconds':>9}{'peak MB':>9}{'file MB':>9}{'µs':>9}{'bytes':>9}")
    for name, cost in found.items():
        line = f"{name:16}{cost.seconds:9.1f}{cost.peak / 1e6:9,.0f}"
        line += f"{cost.size / 1e6:9.2f}" if cost.size else " " * 9
        if least is not None and name in least[1]:
            more, first = number - least[0], least[1][name]
            line += f"{(cost.seconds - first.seconds) / more * 1e6:9.1f}{(cost.peak - first.peak) / more:9,.0f}"
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", default="10000,100000", help="Sizes of runs.")
    parser.add_argument("--n", type=int, default=10_000, help="Draws of the test of an input.")
    parser.add_argument("--classes", default="1000x10000", help="Inputs x classes; 0x0: none.")
    parser.add_argument("--compare", type=int, default=1_000_000, help="Largest run to compare with another.")
    parser.add_argument("--keep", type=Path, help="Leave the runs here.")
    wanted = parser.parse_args()
    here = str(Path(__file__).resolve().parent)  # for scale:score
    sys.path.insert(0, here)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory() as place:
        folder = wanted.keep or Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        least = None
        for number in map(int, wanted.inputs.split(",")):
            least = large(folder, number, wanted.n, number <= wanted.compare, least)
        run, spent = write(folder, "draws", 10_000, 10**8)
        show("10,000 inputs, n = 10⁸", dict(costs(folder, run)), 10_000)
        number, classes = map(int, wanted.classes.split("x"))
        if number:
            run, spent = write(folder, "classes", number, wanted.n, classes)
            title = f"{number:,} inputs, {classes:,} classes, {SPREAD} with votes: {number / spent:,.0f} rows/s written"
            show(title, dict(costs(folder, run, valid=False)), number)


def large(folder, number, n, compared, least):
    """One size: two runs, all commands; gives the smallest so far, with what it cost."""
    run, spent = write(folder, f"run-{number}", number, n)
    other = write(folder, f"run-{number}-b", number, n, seed=1)[0] if compared else None
    size = (run / "certificates.sqlite").stat().st_size
    title = f"{number:,} inputs, n = {n:,}: {number / spent:,.0f} rows/s written, {size / number:.0f} bytes each"
    found = dict(costs(folder, run, other))
    show(title, found, number, least)
    return least or (number, found)


if __name__ == "__main__":
    main()
