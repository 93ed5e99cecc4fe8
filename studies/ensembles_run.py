"""Ensembles of one to five networks in one pass, and SWEEN's weights and early exit on the first three of them.

    python studies/ensembles_run.py --members NAME… --out FOLDER [--inputs 500] [--n 10000] [--held-out]

Members in the order of their accuracy on hold-out inputs. Weights are fitted on the test inputs 1, 21, 41, …, which
are not certified; with --held-out, on the training inputs that all members kept back, as SWEEN does. The gain over the
first member alone is paired by input. "Envelope": the best of three members at each radius, which no single one need
reach. Published for gaussian ResNet-110 (Horváth et al., ICLR 2022): +12 to 15 % of ACR at k = 3 to 5.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import _results as results

from smoothcert.report.compare import compare
from smoothcert.report.metrics import figures
from smoothcert.runs.store import read


def made(options):
    """The ensembles' folders: soft-2 to soft-k, learned-3, and early exit with those weights."""
    held_out = [*(["--held-out"] if options.held_out else ["--data", options.data]), "--sigma", options.sigma]
    wanted = {f"soft-{k}": (k, []) for k in range(2, len(options.members) + 1)}
    wanted["learned-3"] = (3, ["--weights", "learned", *held_out])
    wanted["early-exit-3"] = (3, ["--weights", "learned", "--early-exit", *held_out])
    for name, (k, words) in wanted.items():
        if not (options.out / name).exists():
            results.command("ensemble", *options.members[:k], *words, "--out", options.out / name)
    return list(wanted)


def described(name, record, first, radii):
    """Figures of one model, and its gain over the first member alone."""
    found, calls = compare(first, record, radii), record.means.member_calls
    return {
        "name": name, "inputs": len(record.rows), "ACR": figures(record, radii).acr,
        "certified_accuracy": results.accuracies(record, radii),
        "gain": {f"{one.radius:g}": results.change(one) for one in found.changes},
        "members_asked_a_draw": calls.asked / calls.rows if calls else None,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    results.inputs_of(parser)
    parser.add_argument("--members", nargs="+", required=True)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--held-out", action="store_true", help="fit weights on what the members kept back")
    parser.add_argument("--radii", default="0,0.25,0.5,0.75")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names, radii = made(options), [float(radius) for radius in options.radii.split(",")]
    words = [*options.members, "--ensembles", *(options.out / name for name in names), "--data", options.data,
             *results.subset(options), "--sigma", options.sigma, "--n", options.n, "--threads", options.threads,
             "--out", options.out / "runs"]  # fmt: skip
    script = Path(__file__).with_name("together.py")
    if code := subprocess.run([sys.executable, str(script), *map(str, words)], check=False).returncode:
        raise SystemExit(code)
    runs = {name: read(options.out / "runs" / name) for name in (*(Path(m).name for m in options.members), *names)}
    first = next(iter(runs.values()))
    found = [described(name, record, first, radii) for name, record in runs.items()]
    three = found[:3]
    envelope = [max(one["certified_accuracy"][f"{r:g}"]["percent"] for one in three) for r in radii]
    results.write(options.out / "result.json", {"n": options.n, "models": found, "envelope": envelope})
    results.table(
        ["model", "ACR", "members a draw", *(f"at {r:g}, %; gain over the first, points (95 %)" for r in radii)],
        [
            *([one["name"], f"{one['ACR']:.3f}", one["members_asked_a_draw"] or "–",
               *(f"{one['certified_accuracy'][r]['percent']:.1f}; {results.shown(g['points'], g['interval'])}"
                 for r, g in one["gain"].items())] for one in found),
            ["envelope of three", "–", "–", *(f"{share:.1f}" for share in envelope)],
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
