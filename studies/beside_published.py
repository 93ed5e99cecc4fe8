"""A run of ours beside a published log of Cohen et al.: certified accuracy, and the difference paired by input.

    python studies/beside_published.py LOG --out FOLDER [--model NAME] [--inputs 500 --skip 20] [--n 10000]

LOG is one of `data/certify` of github.com/locuslab/smoothing. Only inputs that both hold are compared. Intervals are
exact (those of `smoothcert compare`). The published logs fit α = 0.01; ours has 0.001, and fewer draws unless
--n 100000 is given: both count against ours.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import _results as results

from smoothcert.cli.report import open_named
from smoothcert.report.compare import compare


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path)
    results.inputs_of(parser)
    parser.add_argument("--model", default="cifar10-resnet8-gaussian-3")
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--radii", default="0,0.25,0.5")
    options = parser.parse_args()
    folder = options.out / "run"
    results.certified(folder, options.model, options, "--n", options.n)
    theirs, ours = open_named([options.log, folder], "published,ours", "l2")
    found = compare(theirs, ours, [float(radius) for radius in options.radii.split(",")])
    lines = [
        {"radius": one.radius, "published": results.share(one.before), "ours": results.share(one.after),
         "difference": results.change(one)}
        for one in found.changes
    ]  # fmt: skip
    compared = found.changes[0].before.of
    results.write(
        options.out / "result.json", {"model": options.model, "inputs": compared, "n": options.n, "at": lines}
    )
    print(f"\n{options.model}, n = {options.n}, {compared} inputs in both\n")
    results.table(
        ["r", "published, % (95 %)", "ours, % (95 %)", "difference, points (95 %, paired)"],
        [
            [f"{one['radius']:g}", *(results.shown(one[who]["percent"], one[who]["interval"]) for who in
             ("published", "ours")), results.shown(one["difference"]["points"], one["difference"]["interval"])]
            for one in lines
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
