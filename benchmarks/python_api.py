"""Draws a second of `smoothcert.certify` on an array against the command's on the same inputs, measured in turns.

    python benchmarks/python_api.py [--inputs 500] [--n 100] [--rounds 5]

Each side is a process of its own, so that both pay for their imports; the time is that of the draws alone, which the
run's rows hold, and beside it that of the whole process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from smoothcert.runs.store import read

MODEL, SHAPE, SIGMA = "cifar10-resnet8-gaussian-0", (3, 32, 32), 0.25
PYTHON = """
import sys
import numpy as np
import smoothcert
with np.load("inputs.npz") as data:
    inputs = data["x"], data["y"]
smoothcert.certify(smoothcert.load(sys.argv[1]), inputs, {sigma}, n={n}, out=sys.argv[2], progress=False)
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=500)
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", default=MODEL)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        pixels = np.random.default_rng(0).integers(0, 256, (asked.inputs, *SHAPE)).astype(np.uint8)
        np.savez(place / "inputs.npz", x=pixels, y=np.zeros(asked.inputs, dtype=np.int64))
        (place / "api.py").write_text(PYTHON.format(sigma=SIGMA, n=asked.n))
        found: dict[str, list[tuple[float, float]]] = {"command": [], "python": []}
        for number in range(asked.rounds):
            for side in ("command", "python") if number % 2 else ("python", "command"):
                found[side].append(measured(place, side, number, asked.n, asked.model))
    print(f"{asked.model}, {asked.inputs} inputs, n = {asked.n}, {asked.rounds} rounds in turns")
    for column, name in enumerate(("draws/s while drawing", "draws/s of the whole process")):
        speeds = {side: [pair[column] for pair in pairs] for side, pairs in found.items()}
        ratios = [ours / theirs for ours, theirs in zip(speeds["python"], speeds["command"], strict=True)]
        shown = ", ".join(f"{side} {statistics.median(values):,.0f}" for side, values in speeds.items())
        spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
        print(f"{name}: {shown}; python ÷ command {statistics.median(ratios):.3f} ({spread})")


def measured(place: Path, side: str, number: int, n: int, model: str) -> tuple[float, float]:
    out = place / f"{side}-{number}"
    script = [sys.executable, "api.py", model, str(out)]
    words = ["--data", "inputs.npz", "--sigma", str(SIGMA), "--n", str(n), "--out", str(out)]
    line = script if side == "python" else [sys.executable, "-m", "smoothcert", "certify", model, *words]
    begun = time.perf_counter()
    # A cache of its own: how threads are best arranged is measured in this run, not on a busy day before it.
    subprocess.run(line, cwd=place, check=True, capture_output=True, env={**os.environ, "SMOOTHCERT_CACHE": str(place)})
    whole = time.perf_counter() - begun
    run = read(out)
    draws = sum(row.draws or 0 for row in run.rows)
    workers = run.means.workers if run.means else 1
    return draws / sum((row.seconds or 0.0) / workers for row in run.rows), draws / whole


if __name__ == "__main__":
    main()
