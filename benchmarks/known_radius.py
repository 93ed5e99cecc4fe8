"""The same inputs by a fixed number of draws and by spending at a known radius: decisions, draws and seconds.

    python benchmarks/known_radius.py MODEL --data digits --radius 0.5 [--sigma 0.25 --max 100 --skip 1 --n 100000]

A decision is "certified at this radius, or not". Where the two differ, the input's probability must be too close to the
one the radius needs for either to be sure: the line says how many differ, and how many of these have p0 inside the
99.9 % confidence interval of the fixed run's counts. Rows are those of `smoothcert certify`; nothing is kept.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.cli.main import run
from smoothcert.noise.gaussian import Gaussian
from smoothcert.runs.store import read


def rows(options, folder, *more):
    words = ["certify", options.model, "--data", options.data, "--sigma", options.sigma, "--max", options.max]
    words += ["--skip", options.skip, "--engine", options.engine, "--out", folder, *more]
    if run([str(word) for word in words]):
        raise SystemExit(2)
    return read(Path(folder)).rows


def hits_of(row):
    guess, test = (next(a for a in row.answers if a.purpose == purpose) for purpose in ("guess", "test"))
    return test.counts[0][max(range(len(guess.counts[0])), key=lambda c: guess.counts[0][c])], test.draws


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--data", default="digits")
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--radius", type=float, default=0.5)
    parser.add_argument("--max", type=int, default=100)
    parser.add_argument("--skip", type=int, default=1)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--engine", default="auto")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        fixed = rows(options, f"{place}/fixed", "--n", options.n)
        known = rows(options, f"{place}/spending", "--radius", options.radius)
    p0 = Gaussian(options.sigma).p_needed(options.radius, 0)
    differ = [a for a, b in zip(fixed, known, strict=True) if (a.radius >= options.radius) != (b.radius > 0)]
    labels = [a for a, b in zip(fixed, known, strict=True) if b.predicted >= 0 and a.predicted not in (-1, b.predicted)]
    bounds = [(lower_bound(k, n, 5e-4), upper_bound(k, n, 5e-4)) for k, n in map(hits_of, differ)]
    allowed = sum(low <= p0 <= high for low, high in bounds)
    for name, found in (("fixed", fixed), ("spending", known)):
        certified = sum(row.radius >= options.radius for row in found) / len(found)
        draws, seconds = (sum(getattr(row, field) for row in found) for field in ("draws", "seconds"))
        print(f"{name:<10}{certified:>8.1%} certified{draws / len(found):>12,.0f} draws an input{seconds:>10.1f} s")
    ratio = [
        sum(getattr(row, field) for row in fixed) / sum(getattr(row, field) for row in known)
        for field in ("draws", "seconds")
    ]
    print(f"SampleRF {ratio[0]:.1f}, TimeRF {ratio[1]:.1f}; {len(labels)} labels differ; ", end="")
    print(f"{len(differ)} of {len(fixed)} decisions differ, {allowed} of them within the confidence interval")


if __name__ == "__main__":
    main()
