"""Six objectives given the same time: certified accuracy and average certified radius of what each has learnt.

    python studies/objectives.py [--data fashion_mnist --arch lenet] [--budgets 40,120] [--seeds 0,1,2] [--out FOLDER]

Time is the processor's, on one thread, so that other users of the machine do not count. For each objective the seconds
of a step are measured first; it then gets as many one-cycle epochs as fit the budget, to the nearest whole one, and the
seconds it really took are printed. Copies and attack steps are reduced, as OPTIONS says. Networks are certified on
every 20th test input with n = 4000. Finished trainings in FOLDER are kept, so that a stopped study goes on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch

from smoothcert import data
from smoothcert.classifiers import load, ready
from smoothcert.contracts import Job, Source
from smoothcert.engine.engine import Engine
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.fixed import Fixed
from smoothcert.training import Settings
from smoothcert.training.loop import Watch, train

SIGMA, N, RADII = 0.25, 4000, (0.0, 0.25, 0.5, 0.7)
OPTIONS = {
    "gaussian": {},
    "consistency": {"copies": 2},
    "macer": {"copies": 4},
    "smoothadv": {"copies": 2, "steps": 2, "epsilon": 0.5, "warmup": 1},
    "advmacer": {"copies": 2, "steps": 2, "epsilon": 0.5, "warmup": 1},
    "smoothmix": {"copies": 2, "steps": 2, "warmup": 1},
}


class EnoughError(Exception):
    """Ends a training once a step has been timed."""


class Clock(Watch):
    """Seconds of processor time a step, over STEPS of them after some to get warm."""

    WARM, STEPS = 5, 15

    def started(self, done, epochs, steps):
        self.per_epoch, self.taken = steps, 0

    def stepped(self, terms):
        self.taken += 1
        if self.taken == self.WARM:
            self.start = time.process_time()
        if self.taken == self.WARM + self.STEPS:
            self.seconds = (time.process_time() - self.start) / self.STEPS * self.per_epoch
            raise EnoughError


def settings(options, objective, epochs, seed):
    lr = 0.01 if objective in ("macer", "advmacer") else 0.05  # as published: macer's is a tenth of the others'
    return Settings(
        options.data, options.arch, objective, SIGMA, epochs, 256, lr, "one_cycle", seed=seed,
        objective_options=OPTIONS[objective],
    )  # fmt: skip


def seconds_of_an_epoch(options, objective):
    """Measured once for a study: what goes on must not change its epochs."""
    kept, clock = options.out / f"{objective}-epoch.json", Clock()
    if kept.exists():
        return json.loads(kept.read_text())
    with tempfile.TemporaryDirectory() as folder:
        try:
            train(settings(options, objective, 1, 0), Path(folder) / "timed", clock)
        except EnoughError:
            options.out.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(clock.seconds))
            return clock.seconds


def certified(folder, inputs):
    """Radius of every input, 0 where the label is wrong or none."""
    prepared = ready(load(folder), inputs.tensor(0), threads=1)
    source, procedure = Source(prepared.classifier, Gaussian(SIGMA)), Certify(100, Fixed(N))
    jobs = [Job(i, inputs.tensor(i), procedure(source, inputs.tensor(0).numel())) for i in range(len(inputs))]
    found = {outcome.index: outcome.result for outcome in Engine().run(jobs)}
    return [found[i].radius if found[i].label == int(inputs.labels[i]) else -1.0 for i in range(len(inputs))]


def one(options, objective, epochs, seed, folder, inputs):
    """Train, certify, and keep the figures beside the checkpoint."""
    figures = folder / "figures.json"
    if not figures.exists():
        start = time.process_time()
        train(settings(options, objective, epochs, seed), folder)
        seconds = time.process_time() - start
        radii = certified(folder, inputs)
        figures.write_text(json.dumps({
            "seconds": seconds, "epochs": epochs, "acr": sum(max(r, 0.0) for r in radii) / len(radii),
            "certified": [sum(r > least for r in radii) / len(radii) for least in RADII],
        }))  # fmt: skip
    return json.loads(figures.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="fashion_mnist")
    parser.add_argument("--arch", default="lenet")
    parser.add_argument("--objectives", default=",".join(OPTIONS))
    parser.add_argument("--budgets", default="40,120")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--out", type=Path, default=Path("study-objectives"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    inputs = data.load(options.data, "test", skip=20)
    print(f"{options.data}, {options.arch}, σ={SIGMA}, {len(inputs)} test inputs, n={N}, seeds {options.seeds}")
    print(
        f"{'objective':<13}{'budget s':>9}{'took s':>8}{'epochs':>7}{'ACR':>8}{'sd':>8}"
        + "".join(f"{r:>8g}" for r in RADII)
    )
    for objective in options.objectives.split(","):
        cost = seconds_of_an_epoch(options, objective)
        for budget in map(float, options.budgets.split(",")):
            epochs = max(1, round(budget / cost))
            found = [
                one(options, objective, epochs, seed, options.out / f"{objective}-{budget:g}-{seed}", inputs)
                for seed in map(int, options.seeds.split(","))
            ]
            acr = [figures["acr"] for figures in found]
            shares = [statistics.mean(column) for column in zip(*(f["certified"] for f in found), strict=True)]
            took = statistics.mean(f["seconds"] for f in found)
            spread = statistics.stdev(acr) if len(acr) > 1 else float("nan")
            print(
                f"{objective:<13}{budget:>9g}{took:>8.0f}{found[0]['epochs']:>7}{statistics.mean(acr):>8.4f}{spread:>8.4f}"
                + "".join(f"{share:>8.3f}" for share in shares),
                flush=True,
            )


if __name__ == "__main__":
    main()
