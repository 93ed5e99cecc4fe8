"""Six objectives given the same time: certified accuracy and average certified radius of what each has learnt.

    python studies/objectives.py [--data fashion_mnist --arch lenet] [--budgets 40,120] [--seeds 0,1,2] [--out FOLDER]
    python studies/objectives.py --objectives advmacer,macer,smoothadv --rates 0.1,0.03,0.01 --out FOLDER

Time is the processor's, on one thread, so that other users of the machine do not count. For each objective the seconds
of a step are measured first; it then gets as many one-cycle epochs as fit the budget, to the nearest whole one, and the
seconds it really took are printed. Copies and attack steps are reduced, as OPTIONS says. Networks are certified on
every 20th test input with n = 4000. Finished trainings in FOLDER are kept, so that a stopped study goes on.

With --rates, each objective gets the rate that has the most ACR on 500 training inputs that it did not learn from,
found at the same budget with a seed of its own; every rate's figure is printed. One that diverges has none.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from smoothcert import data
from smoothcert.classifiers import load, ready
from smoothcert.contracts import Job, Source
from smoothcert.engine.engine import Engine
from smoothcert.errors import TrainingError
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.fixed import Fixed
from smoothcert.training import Settings
from smoothcert.training.loop import Watch, train

SIGMA, N, RADII = 0.25, 4000, (0.0, 0.25, 0.5, 0.7)
KEPT_BACK, SEARCH_SEED = "500", 1000
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


def settings(options, objective, epochs, seed, lr, hold_out=None):
    return Settings(
        options.data, options.arch, objective, SIGMA, epochs, 256, lr, "one_cycle", seed=seed,
        objective_options=OPTIONS[objective], hold_out=hold_out,
    )  # fmt: skip


def usual(objective):
    """The rate without a search: a tenth for macer, as published. advmacer's was published as 0.1, for 150 epochs."""
    return 0.01 if objective in ("macer", "advmacer") else 0.05


def seconds_of_an_epoch(options, objective):
    """Measured once for a study: what goes on must not change its epochs."""
    kept, clock = options.out / f"{objective}-epoch.json", Clock()
    if kept.exists():
        return json.loads(kept.read_text())
    with tempfile.TemporaryDirectory() as folder:
        try:
            # At least a step an epoch: enough steps, however few the inputs.
            epochs = clock.WARM + clock.STEPS
            train(settings(options, objective, epochs, 0, usual(objective)), Path(folder) / "timed", clock)
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


def acr_of(radii):
    return sum(max(r, 0.0) for r in radii) / len(radii)


def one(options, objective, epochs, seed, rate, inputs):
    """Train, certify, and keep the figures beside the checkpoint."""
    folder = options.out / f"{objective}-{epochs}-epochs-{rate:g}-{seed}"
    figures = folder / "figures.json"
    if not figures.exists():
        start = time.process_time()
        train(settings(options, objective, epochs, seed, rate), folder)
        seconds = time.process_time() - start
        radii = certified(folder, inputs)
        figures.write_text(json.dumps({
            "seconds": seconds, "epochs": epochs, "acr": acr_of(radii),
            "certified": [sum(r > least for r in radii) / len(radii) for least in RADII],
        }))  # fmt: skip
    return json.loads(figures.read_text())


def searched(options, objective, epochs, rates):
    """ACR at each rate on inputs kept back from training; None where it diverges."""
    found = {}
    for rate in rates:
        folder = options.out / f"search-{objective}-{epochs}-epochs-{rate:g}"
        kept = folder / "figures.json"
        if not kept.exists():
            try:
                train(settings(options, objective, epochs, SEARCH_SEED, rate, KEPT_BACK), folder)
                acr = acr_of(certified(folder, held_out_inputs(folder, options)))
            except TrainingError as error:
                print(f"{objective} at rate {rate:g}: {error}", flush=True)
                acr = None
            folder.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(acr))
        found[rate] = json.loads(kept.read_text())
    return found


def held_out_inputs(folder, options):
    """What that training kept back."""
    places = json.loads((folder / "config.json").read_text())["hold_out"]["indices"]
    return data.load(options.data, "train").chosen(np.array(places.split(), dtype=np.int64))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="fashion_mnist")
    parser.add_argument("--arch", default="lenet")
    parser.add_argument("--objectives", default=",".join(OPTIONS))
    parser.add_argument("--budgets", default="40,120")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--rates", help="search among these on training inputs kept back")
    parser.add_argument("--out", type=Path, default=Path("study-objectives"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    inputs = data.load(options.data, "test", skip=20)
    print(f"{options.data}, {options.arch}, σ={SIGMA}, {len(inputs)} test inputs, n={N}, seeds {options.seeds}")
    print(
        f"{'objective':<13}{'budget s':>9}{'took s':>8}{'epochs':>7}{'rate':>6}{'ACR':>8}{'sd':>8}"
        + "".join(f"{r:>8g}" for r in RADII)
    )
    for objective in options.objectives.split(","):
        cost = seconds_of_an_epoch(options, objective)
        for budget in map(float, options.budgets.split(",")):
            epochs = max(1, round(budget / cost))
            rate = usual(objective)
            if options.rates:
                tried = searched(options, objective, epochs, [float(rate) for rate in options.rates.split(",")])
                rate = max(tried, key=lambda one: tried[one] or 0.0)
                told = ", ".join(f"{lr:g}: {'diverged' if acr is None else f'{acr:.4f}'}" for lr, acr in tried.items())
                print(f"{objective}, {epochs} epochs, ACR on {KEPT_BACK} training inputs kept back: {told}", flush=True)
            found = [one(options, objective, epochs, seed, rate, inputs) for seed in map(int, options.seeds.split(","))]
            acr = [figures["acr"] for figures in found]
            shares = [statistics.mean(column) for column in zip(*(f["certified"] for f in found), strict=True)]
            took = statistics.mean(f["seconds"] for f in found)
            spread = statistics.stdev(acr) if len(acr) > 1 else float("nan")
            print(
                f"{objective:<13}{budget:>9g}{took:>8.0f}{found[0]['epochs']:>7}{rate:>6g}"
                + f"{statistics.mean(acr):>8.4f}{spread:>8.4f}"
                + "".join(f"{share:>8.3f}" for share in shares),
                flush=True,
            )


if __name__ == "__main__":
    main()
