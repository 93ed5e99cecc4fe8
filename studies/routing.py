"""Routing between noise levels against each of its branches alone, their upper envelope, and the best they could do.

    python studies/routing.py [--sigmas 0.25,0.5,1] [--selectors 0.5,1] [--n 2000] [--beside RUN…] --out FOLDER

A network is trained for each level; the selector learns, from certified training inputs, which of them gives the
largest right radius; then branches and routes are certified on the same test inputs. Every step is a command of
smoothcert, printed as it is run, and a stopped study goes on where it was. `--beside` takes further runs on the same
inputs, such as `smoothcert certify --sigma-per-input --memory …` makes them. Two rows of the table are no runs and are
computed from the branches alone: the upper envelope takes the best branch at each radius, "best branch of each input"
the largest right radius of every input, which no selector can know.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from smoothcert.cli.main import run
from smoothcert.report.metrics import default_radii, envelope, figures, radius_name
from smoothcert.report.tables import decimal, percent
from smoothcert.runs.store import read


def step(line):
    """One command; whatever of it was done before is kept."""
    print(f"$ smoothcert {line}", flush=True)
    if code := run(line.split()):
        raise SystemExit(code)


def train(options, sigma, epochs, out, more=""):
    step(
        f"train --data {options.data} --arch {options.arch} --sigma {sigma} --epochs {epochs} --batch 128 "
        f"--lr 0.05 --schedule one_cycle --threads {options.threads} {more}--out {out}"
    )


def carry_out(options):
    """The folders of the branches' runs and of the routes' runs."""
    home, sigmas = options.out, options.sigmas.split(",")
    draws = f"--data {options.data} --threads {options.threads}"
    for sigma in sigmas:
        train(options, sigma, options.epochs, home / f"branch-{sigma}")
        step(f"certify {home}/branch-{sigma} {draws} --split train --skip {options.label_skip} --sigma {sigma} "
             f"--n {options.label_n} --out {home}/train-{sigma}")  # fmt: skip
    if not (home / "labels.npz").exists():
        step(f"route labels {' '.join(f'{home}/train-{sigma}' for sigma in sigmas)} --out {home}/labels.npz")
    for level in options.selectors.split(","):
        train(options, level, options.selector_epochs, home / f"selector-{level}", f"--labels {home}/labels.npz ")
    test = f"{draws} --skip {options.skip} --n {options.n}"
    for sigma in sigmas:
        step(f"certify {home}/branch-{sigma} {test} --sigma {sigma} --out {home}/alone-{sigma}")
    branches = " ".join(f"--branch {home}/branch-{sigma}@{sigma}" for sigma in sigmas)
    for level in options.selectors.split(","):
        step(f"route certify {branches} --select {home}/selector-{level} --sigma {level} {test} "
             f"--out {home}/route-{level}")  # fmt: skip
    return [home / f"alone-{sigma}" for sigma in sigmas], [home / f"route-{s}" for s in options.selectors.split(",")]


def best_of_each(records):
    """What a selector that knew the answer would reach: the best branch of every input, as if it were a run."""
    rows = [
        max(each, key=lambda row: row.radius * row.correct) for each in zip(*(r.rows for r in records), strict=True)
    ]
    return replace(records[0], name="best branch of each input", rows=tuple(rows))


def table(alone, others):
    """Markdown: a row a run, certified accuracy in percent at radii."""
    radii = [radius for radius in default_radii([*alone, *others]) if radius % 0.5 == 0 or radius == 0.25]
    heads = ["run", "ACR", "abstained %", *map(radius_name, radii)]
    lines = [heads, [":--", *["--:"] * (len(heads) - 1)]]
    for record in [*alone, *others, best_of_each(alone)]:
        found = figures(record, radii)
        shares = [percent(found.certified_accuracy[radius]) for radius in radii]
        lines.append([record.name, decimal(found.acr), percent(found.abstained), *shares])
    upper = envelope(alone, radii)
    lines.append(["upper envelope of the branches", "", "", *(percent(upper[radius]) for radius in radii)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="fashion_mnist")
    parser.add_argument("--arch", default="lenet")
    parser.add_argument("--sigmas", default="0.25,0.5,1")
    parser.add_argument("--selectors", default="0.5,1", help="noise levels of selectors; each gives a route")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--selector-epochs", type=int, default=25, help="over the labelled inputs, which are fewer")
    parser.add_argument("--label-skip", type=int, default=12, help="every so manieth training input is labelled")
    parser.add_argument("--label-n", type=int, default=200, help="draws behind such a label")
    parser.add_argument("--skip", type=int, default=20)
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--beside", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    alone, routes = carry_out(options)
    runs = [*routes, *options.beside]
    step(f"report {' '.join(map(str, [*routes, *alone, *options.beside]))} --html {options.out}/page.html")
    print(table([read(path) for path in alone], [read(path) for path in runs]))


if __name__ == "__main__":
    main()
