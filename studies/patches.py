"""Certificates against patches: bands of several widths against blocks, one network against an ensemble of three.

    python studies/patches.py [--data cifar10] [--arch resnet8] [--epochs 30] [--bands 4] [--blocks 12] [--seeds 0,1,2]
                              [--skip 1] [--block-skip 20] [--out FOLDER]

Every network is trained and certified by the commands that are printed, one thread a training, so that each line of the
table can be made again by itself; a stopped study goes on where it was. For each noise: one network of each seed, and
the mean of their scores. Votes are for the top class; the best of them is counted once more with votes above 0.3, as in
the paper. A block has a place for every pixel, so that blocks are certified on fewer inputs (--block-skip).
The last line is what Levine and Feizi (NeurIPS 2020, Table 1) publish for bands 4 wide and a ResNet-18.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path

from smoothcert.cli.main import run
from smoothcert.report.metrics import figures
from smoothcert.runs.store import read

SIZES = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0)
PUBLISHED = "| published: bands 4 wide, ResNet-18, 10 000 inputs | 83.9 | – | – | – | 57.7 | – | – | |"


def command(*words):
    """Carry it out as the shell would, and say it; seconds."""
    print("    smoothcert " + shlex.join(map(str, words)), flush=True)
    begun, before = time.perf_counter(), sys.argv
    sys.argv = ["smoothcert", *map(str, words)]  # a run keeps the command that made it
    code = run(["-q", *map(str, words)])
    sys.argv = before
    if code:
        sys.exit(code)
    return time.perf_counter() - begun


def trained(noise, options):
    """A network of each seed under this noise; finished ones are left as they are."""
    places = []
    for seed in options.seeds.split(","):
        place = options.out / "models" / f"{'-'.join(noise).replace('=', '')}-{seed}"
        words = ["--arch", options.arch, "--epochs", options.epochs, "--batch", 128, "--schedule", "one_cycle"]
        words += ["--augment", "crop_flip"] if options.data == "cifar10" else []
        under = ["--noise", noise[0], "--set", noise[1], "--seed", seed, "--threads", 1]
        command("train", "--data", options.data, *words, *under, "--out", place)
        places.append(place)
    return places


def certified(name, model, noise, skip, options, *more):
    """A line of the table, from a run of its own."""
    out = options.out / "runs" / name
    given = ["--data", options.data, "--skip", skip, "--noise", noise[0], "--set", noise[1], *more]
    command("certify", model, *given, "--out", out)
    found = figures(read(out), SIZES)
    shares = " | ".join(f"{100 * share.value:.1f}" for share in found.certified_accuracy.values() if share is not None)
    return f"| {name} | {shares} | {found.inputs:,} inputs, {found.mean_draws:.0f} copies each, {found.seconds:.0f} s |"


def arm(noise, skip, options):
    """The lines of one noise."""
    members = trained(noise, options)
    words = "-".join(noise).replace("=", "")
    lines = [certified(member.name, member, noise, skip, options) for member in members]
    if len(members) > 1:
        whole = options.out / "models" / f"{words}-mean"
        command("ensemble", *members, "--out", whole)
        lines.append(certified(whole.name, whole, noise, skip, options))
    best = options.out / "models" / (f"{words}-mean" if len(members) > 1 else members[0].name)
    return [*lines, certified(f"{best.name}-above", best, noise, skip, options, "--set", "threshold=0.3")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--arch", default="resnet8")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--bands", default="4")
    parser.add_argument("--blocks", default="12")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--skip", type=int, default=1)
    parser.add_argument("--block-skip", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("study-patches"))
    options = parser.parse_args()
    for folder in ("models", "runs"):
        (options.out / folder).mkdir(parents=True, exist_ok=True)
    noises = [(("band", f"width={width}"), options.skip) for width in filter(None, options.bands.split(","))]
    noises += [(("block", f"side={side}"), options.block_skip) for side in filter(None, options.blocks.split(","))]
    lines = [line for noise, skip in noises for line in arm(noise, skip, options)]
    print("\n| certified accuracy (%) against squares of side | 0 | 1 | 2 | 3 | 5 | 8 | |")
    print("|---|" + "---|" * 7)
    print("\n".join(lines))
    if options.data == "cifar10":
        print(PUBLISHED)


if __name__ == "__main__":
    main()
