"""ACES on real networks: the frontier, single networks at other noise levels, and entropy against selection networks.

    python studies/aces.py --core MODEL [--certify cifar10-resnet8-gaussian-0] [--networks MODEL…] --out FOLDER

Every step is a command of smoothcert, printed as it is run, and a stopped study goes on where it was:

    aces        N draws for the certified network and its entropies, the first SWEEP_N of them kept apart
    sweep       the certified network, and further ones, alone at each of LEVELS, by SWEEP_N draws
    selection   labels from LABEL_N draws on every LABEL_SKIP-th training input; a network for each η; SWEEP_N draws
    hold-out    aces again on other test inputs, by SWEEP_N draws, where thresholds are chosen

So the composition is reported by N draws, and compared by SWEEP_N of the same draws with what had no more than that:
radii and natural accuracy grow with draws, and a comparison at different numbers would reward whoever had more. Where a
threshold is the best for a demand, it is so on the inputs it is reported on, for all that are compared alike; only the
table of the hold-out inputs is free of that choice.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from smoothcert.cli.main import run
from smoothcert.contracts import Answer
from smoothcert.report import aces, plots, render
from smoothcert.report.sections.aces import NetworkGroup, frontier
from smoothcert.report.tables import decimal, percent
from smoothcert.runs.components import components_of, single
from smoothcert.runs.store import read


def step(line):
    """One command; whatever of it was done before is kept."""
    print(f"$ smoothcert {line}", flush=True)
    if code := run(line.split()):
        raise SystemExit(code)


def carry_out(options):
    """All the draws; what is compared is computed from them afterwards."""
    home, draws = options.out, f"--data {options.data} --threads {options.threads}"
    if options.arithmetic:
        draws += f" --arithmetic {options.arithmetic}"
    test, few = f"{draws} --skip {options.skip}", f"--n {options.sweep_n}"
    pair = f"--certify {options.certify} --core {options.core} --sigma {options.sigma} --look {options.sweep_n}"
    step(f"aces certify {pair} {test} --n {options.n} --out {home}/aces")
    half = options.skip // 2
    step(f"aces certify {pair} {test} --start {half} {few} --out {home}/holdout")
    for model in [options.certify, *options.networks]:
        for level in options.levels.split(","):
            step(f"certify {model} {test} --sigma {level} {few} --out {home}/{Path(model).name}-at-{level}")
    if options.etas:
        step(f"predict {options.certify} {draws} --split train --skip {options.label_skip} --sigma {options.sigma} "
             f"--n {options.label_n} --out {home}/labelled")  # fmt: skip
    for eta in options.etas.split(",") if options.etas else []:
        if not (home / f"labels-{eta}.npz").exists():
            step(f"aces labels {home}/labelled --eta {eta} --out {home}/labels-{eta}.npz")
        step(f"train --data {options.data} --arch {options.arch} --sigma {options.sigma} --epochs {options.epochs} "
             f"--batch 128 --lr 0.05 --schedule one_cycle --threads {options.threads} "
             f"--labels {home}/labels-{eta}.npz --out {home}/select-{eta}")  # fmt: skip
        step(f"aces select {home}/select-{eta} {test} --sigma {options.sigma} {few} --look {options.sweep_n} "
             f"--out {home}/selected-{eta}")  # fmt: skip


def shortened(record):
    """The run as if only its first draws had been made."""
    rows = []
    for row in record.rows:
        first = {answer.purpose: answer for answer in reversed(row.answers)}
        rows.append(replace(row, answers=tuple(first.values())))
    return replace(record, rows=tuple(rows))


def predicted_by_all(record):
    """The run with all the draws of its test in one answer, so that they all predict."""
    rows = []
    for row in record.rows:
        tests = [answer for answer in row.answers if answer.purpose == "test"]
        total = np.sum([answer.counts for answer in tests], axis=0)
        whole = Answer("test", sum(answer.draws for answer in tests), tuple(tuple(map(int, c)) for c in total))
        rows.append(replace(row, answers=(*(a for a in row.answers if a.purpose != "test"), whole)))
    return replace(record, rows=tuple(rows))


def table(heads, rows):
    lines = [heads, ["--:"] * len(heads), *rows]
    print("\n".join("| " + " | ".join(line) + " |" for line in lines), flush=True)


def best(found, least, radius=None):
    """The line with the most ACR, or certified accuracy, among those at least so accurate; None where none is."""
    met = [line for line in found if line.natural.value >= least]
    return max(met, key=lambda line: aces.height(line, radius), default=None)


def against_singles(parts, singles, own, n):
    """Each single network with the threshold that is as accurate and has the most ACR; `own` is theta 1 but for α."""
    print(f"\nSingle networks at other noise levels, by {n:,} draws as all in this table\n")
    found, rows = aces.by_threshold(parts.at(parts.thetas), [0.0]), []
    for one in map(aces.point, singles):
        line = best(found, one.natural.value)
        other = ["–", "–", "–"] if line is None else [f"{line.theta:.2f}", percent(line.natural), decimal(line.acr)]
        rows.append([one.name, percent(one.natural), decimal(one.acr), *other])
    table(["network", "NAC %", "ACR", "theta as accurate", "NAC %", "ACR"], rows)
    print(f"\n{aces.verdict(found, [aces.point(one) for one in singles if one.name != own])}")


def against_selectors(selections, singles, n):
    """ACR at demands on natural accuracy, by what selects."""
    print(f"\nWhat selects, by {n:,} draws: ACR (theta) of the best threshold that is at least so accurate\n")
    every = [aces.by_threshold(parts.at(parts.thetas), [0.0]) for parts in selections]
    reached = [line.natural.value for line in every[0]]
    points, rows = list(map(aces.point, singles)), []
    for least in reversed(aces.round_numbers(min(reached), max(reached))):
        lines = [best(found, least) for found in every]
        cells = ["–" if line is None else f"{decimal(line.acr)} ({line.theta:.2f})" for line in lines]
        alone = max((one.acr for one in points if one.natural.value >= least), default=None)
        rows.append([f"{100 * least:g} %", *cells, decimal(alone)])
    table(["NAC at least", *(parts.name for parts in selections), "best single"], rows)


def on_holdout(parts, holdout, n):
    """Thresholds found on hold-out inputs, and what they do on the others."""
    print(f"\nThresholds for a demand, found on {len(holdout.labels)} hold-out inputs, by {n:,} draws there and here\n")
    rows = [
        [f"{100 * c.least:g} %", f"{c.theta:.2f}", percent(c.there.natural), decimal(c.there.acr),
         percent(c.here.natural), decimal(c.here.acr)]
        for c in aces.choices(parts, holdout)
    ]  # fmt: skip
    table(["NAC at least", "theta", "hold-out NAC %", "ACR", "test NAC %", "ACR"], rows)


def show(options):
    home, n = options.out, options.sweep_n
    record = read(home / "aces")
    whole = components_of(predicted_by_all(record))
    print(f"\n{options.certify} and {options.core}, {len(whole.labels)} inputs, {options.n:,} draws\n")
    print(render.markdown(aces.table(aces.by_threshold(whole.at(aces.TENTHS)), aces.notes(whole))))
    first = shortened(record)
    entropy = replace(components_of(first), name="entropy")
    groups = []
    for model in [options.certify, *options.networks]:
        runs = [(level, read(home / f"{Path(model).name}-at-{level}")) for level in options.levels.split(",")]
        groups.append((f"{Path(model).name} at σ", {level: single(record) for level, record in runs}))
    singles = [one for _, members in groups for one in members.values()]
    against_singles(entropy, singles, f"{Path(options.certify).name}-at-{options.sigma}", n)
    etas = options.etas.split(",") if options.etas else []
    networks = [
        replace(components_of(first, select=str(home / f"selected-{eta}")), name=f"network, η {eta}") for eta in etas
    ]
    against_selectors([entropy, *networks], singles, n)
    on_holdout(entropy, components_of(read(home / "holdout")), n)
    points = [
        NetworkGroup(name, [replace(one, name=level) for level, one in members.items()]) for name, members in groups
    ]
    for name, radius in (("frontier", None), ("at-radius", options.radius)):
        for path in plots.save(frontier([entropy, *networks], points, radius), home / f"{name}.svg"):
            print(f"wrote {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--certify", default="cifar10-resnet8-gaussian-0")
    parser.add_argument("--core", required=True)
    parser.add_argument("--sigma", default="0.25", help="of the certified network and of what selects")
    parser.add_argument("--networks", nargs="*", default=[], help="further single networks, trained at other levels")
    parser.add_argument("--levels", default="0.12,0.25,0.37,0.5", help="of single networks")
    parser.add_argument("--etas", default="0.5,0.95", help="of selection networks; empty: none")
    parser.add_argument("--arch", default="resnet8", help="of selection networks")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--label-skip", type=int, default=5)
    parser.add_argument("--label-n", type=int, default=100)
    parser.add_argument("--skip", type=int, default=20)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--sweep-n", type=int, default=1000)
    parser.add_argument("--radius", type=float, default=0.25, help="of the second picture")
    parser.add_argument("--arithmetic", help="exact or float; default: exact for 8-bit data")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    carry_out(options)
    show(options)


if __name__ == "__main__":
    main()
