"""What a network learns under noise in a fixed processor time, measured on training inputs that it never saw.

    python studies/fast_network.py "airbench64 lr=0.1" "airbench64 lr=0.3 smoothing=0.2" [--minutes 5] [--out FILE]

A trial is a network and settings of `smoothcert train`, an objective's among them. It learns from all training
inputs of CIFAR-10 but every 25th, under Gaussian noise of σ = 0.25, for as many whole epochs as fit the minutes of one
thread's processor time at `--cost` ms an input, or for `--epochs`. The 2000 inputs kept back are then asked 20 times
each. Printed are the share of right answers, the shares of inputs right in more than half of the draws and in 85 %
of them or more (about what holds at radius 0 and 0.25), and the processor time taken. The test split is never read.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import torch

from smoothcert import data
from smoothcert.training import Settings, loop, setup

SIGMA, EVERY, DRAWS = 0.25, 25, 20
OF_OBJECTIVES = ("smoothing", "copies", "consistency", "entropy")
START = {"schedule": "triangular", "augment": "crop_flip", "batch": 128, "weight_decay": 5e-4}


def parsed(trial, epochs):
    """The settings of a trial: `ARCH name=value …`."""
    arch, *words = trial.split()
    given = {**START, **{name: _value(text) for name, _, text in (word.partition("=") for word in words)}}
    objective = {name: given.pop(name) for name in OF_OBJECTIVES if name in given}
    network = {name: given.pop(name) for name in list(given) if name not in Settings.__dataclass_fields__}
    settings = Settings("cifar10", arch, sigma=SIGMA, epochs=epochs, arch_options=network, objective_options=objective)
    return dataclasses.replace(settings, **{"lr": 0.1, **given})


def _value(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def split(examples):
    """Training inputs to learn from, and those kept back."""
    every = data.load("cifar10", "train")
    places = np.arange(len(every))
    kept = places % EVERY == 0
    return every.chosen(places[~kept][:examples]), every.chosen(places[kept])


def learned(settings, inputs):
    """The network after all epochs, and the processor time that took."""
    objective = setup.objective(settings)
    network = setup.network(setup.config(settings, setup.ChosenInputs(inputs, inputs), objective), settings)
    work = loop.Work.begun(settings, inputs, network, objective, loop.joined("cpu", settings.precision))
    start = time.process_time()
    for epoch in range(settings.epochs):
        loop.run_epoch(work, epoch, loop.Watch())
    return work.result, time.process_time() - start


@torch.inference_mode()
def shares(network, kept):
    """Of draws that are right; of inputs right in more than half, and in at least 85 %, of their draws."""
    network.eval()
    random, right = torch.Generator().manual_seed(7), []
    for start in range(0, len(kept), 250):
        places = np.arange(start, min(start + 250, len(kept)))
        x, y = kept.tensors(places), torch.from_numpy(kept.labels[places])
        votes = torch.zeros(len(places))
        for _ in range(DRAWS):
            noisy = x + SIGMA * torch.randn(x.shape, generator=random)
            votes += network(noisy.contiguous(memory_format=torch.channels_last)).argmax(1) == y
        right.append(votes / DRAWS)
    share = torch.cat(right)
    return float(share.mean()), float((share > 0.5).float().mean()), float((share >= 0.85).float().mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trials", nargs="+")
    parser.add_argument("--epochs", type=int, help="instead of --minutes")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--cost", type=float, default=3.0, help="ms of processor time an input")
    parser.add_argument("--examples", type=int, default=48_000)
    parser.add_argument("--out", type=Path, help="a file of JSON lines to add to")
    options = parser.parse_args()
    torch.set_num_threads(1)
    inputs, kept = split(options.examples)
    fitting = max(1, round(60_000 * options.minutes / options.cost / len(inputs)))
    print(f"{len(inputs)} inputs to learn from, {len(kept)} kept back, {DRAWS} draws each", flush=True)
    for trial in options.trials:
        settings = parsed(trial, options.epochs or fitting)
        network, seconds = learned(settings, inputs)
        draws, most, sure = shares(network, kept)
        print(f"{draws:.4f} {most:.4f} {sure:.4f}  {settings.epochs} epochs, {seconds:.0f} s  {trial}", flush=True)
        if options.out is not None:
            found = {"draws": draws, "most": most, "sure": sure, "seconds": seconds, "examples": len(inputs)}
            with options.out.open("a") as file:
                file.write(json.dumps({"trial": trial, "epochs": settings.epochs, **found}) + "\n")


if __name__ == "__main__":
    main()
