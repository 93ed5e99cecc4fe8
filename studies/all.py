"""Run the experiments that take hours, one after the other, the cheapest first.

    python studies/all.py [--out studies-out] [--only NAME…] [--log PUBLISHED] [--core MODEL] [--list]
    python studies/all.py --experiments FILE.json     # [{"name": …, "hours": …, "words": [SCRIPT, OPTION…]}, …]

Each is a study of this folder with a folder of its own in OUT: log.txt has what it printed, finished.json its command,
seconds, starts and tables. A finished one is skipped. Interrupt the queue at any time; the same command goes on, and
the study that was interrupted goes on where it was. One that fails is told at the end and tried again next time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import _results as results

HERE = Path(__file__).parent
GAUSSIAN = [f"cifar10-resnet8-gaussian-{seed}" for seed in (3, 4, 0, 1, 2)]
STRONG = [f"cifar10-airbench64-gaussian-w48{seed}" for seed in ("", "-1", "-2")]
INTERRUPTED = 130


class Experiment(NamedTuple):
    """A script of this folder with its options; {out} stands for the experiment's folder."""

    name: str
    hours: float  # about, on one core
    words: list[str]


EXPERIMENTS = [
    Experiment("l0", 1.0, ["norms.py", "--arms", "l0", "--n", "100000", "--out", "{out}/runs"]),
    Experiment("l1-cifar10", 1.5, ["norms.py", "--arms", "l1", "--data", "cifar10", "--arch", "airbench32", "--augment",
                                   "crop_flip", "--lr", "0.2", "--batch", "128", "--precision", "bfloat16",
                                   "--out", "{out}/runs"]),
    Experiment("sigma-steps", 2.5, ["per_input_sigma.py", "--searches", "ascent-100,ascent-300,ascent", "--learned",
                                    "--n", "1000", "--out", "{out}"]),
    Experiment("ensembles-strong", 3.0, ["ensembles_run.py", "--members", *STRONG, "--out", "{out}"]),
    Experiment("consensus-2000", 1.6, ["all_inputs.py", "--members", *GAUSSIAN, "--inputs", "2000", "--skip", "5",
                                       "--start", "1", "--out", "{out}"]),
    Experiment("ensembles", 2.5, ["ensembles_run.py", "--members", *GAUSSIAN, "--out", "{out}"]),
    Experiment("all-inputs", 3.5, ["all_inputs.py", "--out", "{out}"]),
    Experiment("sampling", 3.5, ["sampling_run.py", "--out", "{out}"]),
    Experiment("sampling-consensus", 4.0, ["sampling_run.py", "--members", *GAUSSIAN, "--out", "{out}"]),
]  # fmt: skip


def chosen(options):
    """The experiments that were asked for, cheapest first."""
    known = EXPERIMENTS
    if options.experiments:
        known = [Experiment(**one) for one in json.loads(options.experiments.read_text())]
    if options.log:
        known = [*known, Experiment("beside-published", 0.6, ["beside_published.py", options.log, "--out", "{out}"])]
    names = [one.name for one in known]
    if options.core:
        words = ["aces.py", "--core", options.core, "--certify", "cifar10-airbench64-consistency-w48", "--out", "{out}"]
        known = [*known, Experiment("aces", 2.5, words)]
    if strange := [name for name in options.only if name not in names]:
        print(f"--only must name experiments: {', '.join(names)}; got {strange[0]}", file=sys.stderr)
        raise SystemExit(2)
    return sorted((one for one in known if not options.only or one.name in options.only), key=lambda one: one.hours)


def carry_out(experiment, folder):
    """Run one to its end, or note how long it was at it: the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    script, *words = [word.replace("{out}", str(folder)) for word in experiment.words]
    notes, begun = results.load(folder / "notes.json", {"starts": 0, "seconds": 0.0}), time.monotonic()
    with (folder / "log.txt").open("a") as log:
        place = log.seek(0, os.SEEK_END)
        # Signals wait until the study has begun: one that came in between would leave it running, or uncounted.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        # A session of its own: an interruption reaches it once, from here, and its own processes with it.
        child = subprocess.Popen([sys.executable, str(HERE / script), *words], stdout=log, stderr=subprocess.STDOUT,
                                 start_new_session=True,
                                 preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before))  # fmt: skip
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            code = child.wait()
        except KeyboardInterrupt:
            os.killpg(child.pid, signal.SIGINT)
            child.wait()
            code = INTERRUPTED
    notes = {"starts": notes["starts"] + 1, "seconds": notes["seconds"] + time.monotonic() - begun}
    results.write(folder / "notes.json", notes)
    if code == 0:
        with (folder / "log.txt").open() as log:
            log.seek(place)
            printed = [line.rstrip() for line in log if line.startswith("|")]
        results.write(folder / "finished.json", {"command": experiment.words, **notes, "tables": printed})
    return code


def interrupt(*_):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("studies-out"))
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--log", help="a published log of Cohen et al., to be held against")
    parser.add_argument("--core", help="an accurate CIFAR-10 network without noise, for ACES")
    parser.add_argument("--experiments", type=Path, help="a JSON list of others")
    parser.add_argument("--list", action="store_true", help="say what there is, and what is finished")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)  # a shell's background job would ignore it
    asked = chosen(options)
    left = [one for one in asked if not (options.out / one.name / "finished.json").exists()]
    if options.list:
        for one in asked:
            print(f"{one.name}: {'to run' if one in left else 'finished'}, about {one.hours:g} h")
        return
    failed = []
    for number, one in enumerate(left):
        hours, place = sum(other.hours for other in left[number:]), len(asked) - len(left) + number + 1
        print(f"[{place}/{len(asked)}] {one.name}: about {one.hours:g} h; {hours:g} h left in all", flush=True)
        code = carry_out(one, options.out / one.name)
        if code == INTERRUPTED:
            print(f"interrupted in {one.name}; the same command goes on", flush=True)
            raise SystemExit(INTERRUPTED)
        if code:
            failed.append(one.name)
            print(f"{one.name} failed with exit code {code}: see {options.out / one.name / 'log.txt'}", flush=True)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
