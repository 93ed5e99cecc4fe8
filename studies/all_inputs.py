"""All 10 000 test inputs of CIFAR-10 at one radius, in several starts: wall time, draws and certified accuracy.

    python studies/all_inputs.py --out studies-out/all-inputs [--model NAME] [--radius 0.25] [--minutes 20]
    python studies/all_inputs.py --out studies-out/consensus --members NAME… --consensus 2 --inputs 2000 --skip 5

Each start is a process of `smoothcert certify` that is interrupted after so many minutes; the next one goes on where
it stopped. The wall time is that of all starts, loading and work lost by interruptions included. Beside it, the time
that n = 100 000 draws for each input would take at the draws a second of these very starts.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time

import _results as results

from smoothcert.runs.store import read

FIXED = 100_100  # draws of the field's script for each input: n and n0
INTERRUPTED = 130
STOPPED = -2  # from outside, not by its time


def started(words, seconds):
    """One process of smoothcert: its exit code, and the seconds it took. Interrupted when its time is up."""
    begun = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "smoothcert", *map(str, words)])
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    except KeyboardInterrupt:  # whoever sent it has sent it to the process, too
        process.wait()
        return STOPPED, time.monotonic() - begun
    return process.wait(), time.monotonic() - begun


def carry_out(words, options):
    """Start after start until the run is whole; each is noted as it ends."""
    notes = options.out / "starts.json"
    starts = results.load(notes, [])
    if starts and starts[-1]["code"] == 0:
        return starts
    code, done = INTERRUPTED, finished(options.out)
    while code == INTERRUPTED:
        code, seconds = started(words, 60 * options.minutes)
        starts.append({"code": code, "seconds": seconds})
        results.write(notes, starts)
        before, done = done, finished(options.out)
        if code == INTERRUPTED and done == before:  # it would never end: the dearest inputs take 120 000 draws
            print(f"--minutes must leave time for one input at least; got {options.minutes:g}", file=sys.stderr)
            raise SystemExit(2)
    if code:
        raise SystemExit(INTERRUPTED if code == STOPPED else code)
    return starts


def finished(out):
    """Inputs that have a row."""
    return len(read(out / "run").rows) if (out / "run" / "recipe.toml").exists() else 0


def model_of(options):
    """The network, or an ensemble of the members with consensus, its order found on hold-out inputs."""
    if not options.members:
        return options.model
    folder = options.out / "ensemble"
    if not folder.exists():
        held_out = ["--data", options.data, "--sigma", options.sigma, "--start", options.start + 1]
        results.command("ensemble", *options.members, "--consensus", options.consensus, *held_out, "--out", folder)
    return folder


def result_of(record, starts, radius):
    """The figures, from the rows of the run and the times of its starts."""
    wall, draws, inputs = sum(start["seconds"] for start in starts), sum(row.draws for row in record.rows), record.rows
    rate = draws / sum(row.seconds for row in inputs)
    calls = record.means.member_calls
    return {
        "model": record.spec.model,
        "inputs": len(inputs),
        "starts": len(starts),
        "wall_seconds": wall,
        "draws": draws,
        "draws_a_second": rate,
        "certified_accuracy": results.accuracies(record, [radius]),
        "fixed_draws": FIXED * len(inputs),
        "fixed_seconds": FIXED * len(inputs) / rate,
        "members_asked_a_draw": calls.asked / calls.rows if calls else 1,
    }


def told(found):
    print(f"\n{found['model']}, {found['inputs']} inputs, {found['starts']} starts\n")
    accuracy = "; ".join(f"{results.shown(a['percent'], a['interval'])} at {r}"
                         for r, a in found["certified_accuracy"].items())  # fmt: skip
    results.table(
        ["", "draws", "hours", "certified accuracy, % (95 %)"],
        [
            ["this run", f"{found['draws']:,}", f"{found['wall_seconds'] / 3600:.2f}", accuracy],
            ["n = 100 000, computed", f"{found['fixed_draws']:,}", f"{found['fixed_seconds'] / 3600:.1f}", "not run"],
        ],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    results.inputs_of(parser, inputs=10_000, skip=1)
    parser.add_argument("--model", default="cifar10-resnet8-gaussian-3")
    parser.add_argument("--members", nargs="*", default=[], help="an ensemble of these instead")
    parser.add_argument("--consensus", type=int, default=2)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--radius", type=float, default=0.25)
    parser.add_argument("--minutes", type=float, default=20.0, help="after which a start is interrupted")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    words = ["certify", model_of(options), "--data", options.data, "--start", options.start, *results.subset(options)]
    words += ["--sigma", options.sigma, "--radius", options.radius, "--threads", options.threads]
    starts = carry_out([*words, "--out", options.out / "run"], options)
    found = result_of(read(options.out / "run"), starts, options.radius)
    results.write(options.out / "result.json", found)
    told(found)


if __name__ == "__main__":
    main()
