"""A classifier that never saw noise, behind small denoisers: bare, behind one, behind an ensemble of several.

    python studies/denoised.py CLEAN [--denoisers 4] [--skip 50] [--n 1000] [--at-once 2] --out FOLDER

Each denoiser is trained with squared error and then for the stability of the frozen classifier (Salman et al. 2020),
all by `smoothcert train`. They differ in their seed only. All models are certified in one pass (`studies/together.py`).
The published gain of four denoisers over the best one is +17 % ACR, with far larger denoisers at n = 100 000 (Horváth
et al., ICLR 2022, Table 16). Whatever is finished in FOLDER is kept, so that a stopped study goes on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from smoothcert.report.metrics import figures
from smoothcert.report.paired import resampled
from smoothcert.runs.store import read

RADII = (0.0, 0.25, 0.5)


def smoothcert(*words):
    subprocess.run([sys.executable, "-m", "smoothcert", *map(str, words)], check=True)


def train(options, folder, epochs, *words):
    """A training that is not finished yet."""
    config = folder / "config.json"
    if config.exists() and json.loads(config.read_bytes())["epoch"] == epochs:
        return
    network = f"--arch dncnn{options.depth} --set width={options.width} --sigma {options.sigma}".split()
    pace = f"--optimiser adamw --schedule one_cycle --epochs {epochs} --batch 128 --threads {options.threads}".split()
    smoothcert("train", "--data", options.data, *network, *pace, *words, "--out", folder)


def denoiser(options, seed):
    """A denoiser trained in both ways."""
    first, second = (options.out / f"{name}-{seed}" for name in ("squares", "stable"))
    words = f"--objective denoise --seed {seed} --lr 0.02".split()
    train(options, first, options.epochs[0], *words)
    words = f"--objective stability --seed {seed} --lr 0.0001".split()
    train(options, second, options.epochs[1], *words, "--set", f"classifier={options.clean}", "--from", first)
    return second


def models(options):
    """The bare network, another to compare with, each denoised one, and their ensemble, as folders or names."""
    members = [options.clean, *options.beside]
    with ThreadPoolExecutor(options.at_once) as pool:
        trained = list(pool.map(lambda seed: denoiser(options, seed), range(options.denoisers)))
    pairs = [str(options.out / f"behind-{seed}") for seed in range(options.denoisers)]
    for folder, pair in zip(trained, pairs, strict=True):
        smoothcert("denoise", options.clean, "--with", folder, "--out", pair)
    together = str(options.out / f"behind-{options.denoisers}-together")
    smoothcert("ensemble", *pairs, "--out", together)
    return [*members, *pairs], together


def certify(options, members, together):
    """One pass for all: every network is asked once about each noisy input."""
    script = Path(__file__).with_name("together.py")
    words = [*members, "--ensembles", together, "--data", options.data, "--skip", options.skip, "--max", options.max]
    pace = f"--sigma {options.sigma} --n {options.n} --threads {options.threads * options.at_once}"
    words += [*pace.split(), "--out", options.out / "runs"]
    subprocess.run([sys.executable, str(script), *map(str, words)], check=True)
    return [read(options.out / "runs" / Path(name).name) for name in [*members, together]]


def table(records):
    print(f"| model | ACR | {' | '.join(f'certified at {r:g}' for r in RADII)} |")
    print(f"|---|{'---|' * (len(RADII) + 1)}")
    for record in records:
        found = figures(record, RADII)
        shares = " | ".join(f"{found.certified_accuracy[r].value:.3f}" for r in RADII)
        print(f"| {record.name} | {found.acr:.4f} | {shares} |")
    gains = np.array([[[row.radius * row.correct] for row in record.rows] for record in records]).transpose(1, 0, 2)
    paired, last = resampled(gains), len(records) - 1
    behind = [i for i, record in enumerate(records) if record.name.startswith("behind-") and i != last]
    best = max(behind, key=lambda i: float(paired.means[i, 0]))
    found = paired.relative(last, best, 0)
    if found is not None:
        print(f"\nall denoisers against the best one: {found.value:+.1%} ACR ({found.low:+.1%} to {found.high:+.1%})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clean", help="a network trained without noise")
    parser.add_argument("--beside", nargs="*", default=["cifar10-resnet8-gaussian-0"], help="networks to compare with")
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--denoisers", type=int, default=4)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--epochs", type=int, nargs=2, default=(5, 2), help="with squared error, for stability")
    parser.add_argument("--skip", type=int, default=50)
    parser.add_argument("--max", type=int, default=-1)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1, help="of one training")
    parser.add_argument("--at-once", type=int, default=1, help="trainings side by side")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    table(certify(options, *models(options)))


if __name__ == "__main__":
    main()
