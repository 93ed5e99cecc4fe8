"""Every noise under every scheme and procedure, as jobs for one engine: whoever draws, the answers are these.

Scores are sums of exact products in double precision: no batch size, order or device moves a bit of them.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from smoothcert.classifiers.composed import Bundle
from smoothcert.classifiers.module import Module
from smoothcert.contracts import Job, Source
from smoothcert.noise.discrete import Discrete
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_grid import GaussianGrid
from smoothcert.noise.splitting import Splitting
from smoothcert.noise.uniform import Uniform
from smoothcert.procedures.aces import AcesPredict, AcesProcedure
from smoothcert.procedures.certify import Certify
from smoothcert.procedures.predict import Predict
from smoothcert.procedures.route import RoutePredict, RouteProcedure
from smoothcert.procedures.select import Select
from smoothcert.sampling.anytime import Anytime
from smoothcert.sampling.exhaustive import Exhaustive
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.pilot import Pilot
from smoothcert.sampling.runner_up import RunnerUp
from smoothcert.sampling.spending import Spending
from smoothcert.sampling.staged import Staged

SHAPE = (1, 3, 3)
ALPHA, CAP = 0.05, 2000


class Sides(nn.Module):
    """So many directions in whole numbers: scores are exact in double precision."""

    def __init__(self, classes: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        weight = torch.randint(-8, 9, (classes, math.prod(SHAPE)), generator=generator).double()
        self.register_buffer("weight", weight - weight.mean(1, keepdim=True).round())

    def forward(self, x):
        flat = (x * 2**20).round().double().flatten(1)  # products of whole numbers: sums in any order are equal
        return (flat[:, None] * self.weight).sum(-1) / 2**18


NOISES = {
    "gaussian": Gaussian(0.25),
    "gaussian_grid": GaussianGrid(0.25),
    "uniform": Uniform(lam=0.4),
    "discrete": Discrete(keep=0.6, values=16),
    "splitting": Splitting(lam=0.4, grid=255),
}
RADII = {
    "gaussian": (0.05, 0.2),
    "gaussian_grid": (0.05, 0.2),
    "uniform": (0.1,),
    "discrete": (1.0,),
    "splitting": (0.1,),
}


def networks(seed: int = 0) -> dict[str, Module]:
    parts = {"three": 3, "two": 2, "other": 3}
    return {name: Module(Sides(classes, seed + i).eval()) for i, (name, classes) in enumerate(parts.items())}


def bundles(parts: dict[str, Module], noise) -> dict[str, Bundle]:
    three, two, other = parts["three"], parts["two"], parts["other"]
    return {
        "aces": Bundle(("certify", "select", "core"), (three, two, other), (noise, noise, None)),
        "route": Bundle(("branch 0", "branch 1", "select"), (three, other, two), (noise, None, noise)),
    }


def procedures(radii):
    """By name; with the model that each is about."""
    plain = {
        "fixed": Certify(30, Fixed(400, ALPHA)),
        "runner up": Certify(30, RunnerUp(400, ALPHA)),
        "pilot": Certify(30, Pilot(ALPHA, CAP, 100)),
        "spending": Certify(30, Spending(radii, ALPHA, ALPHA, CAP)),
        "leader": Certify(30, Spending(radii, ALPHA, ALPHA, CAP), "leader"),
        "anytime": Certify(30, Anytime(radii, ALPHA, ALPHA, CAP)),
        "staged": Certify(30, Staged(radii, ALPHA, ALPHA, (100, 300, CAP))),
        "predict": Predict(300, ALPHA),
    }
    yield from ((name, "three", procedure) for name, procedure in plain.items())
    yield "aces", "aces", AcesProcedure(0.3, 30, 400, ALPHA, 200)
    yield "aces predict", "aces", AcesPredict(0.3, 300, ALPHA)
    yield "select", "two", Select(0.3, 30, 400, ALPHA, 200)
    yield "route", "route", RouteProcedure(30, Spending(radii, ALPHA, ALPHA, CAP))
    yield "route predict", "route", RoutePredict(300, ALPHA)


def inputs(number: int) -> list[torch.Tensor]:
    """On the grid of 8-bit images."""
    return list(torch.randint(0, 256, (number, *SHAPE), generator=torch.Generator().manual_seed(7)) / 255)


def jobs(parts: dict[str, Module], noises=NOISES, each: int = 1):
    """(name, job) of every question about so many inputs each; names are unique, indices count up."""
    made = []
    for key, noise in noises.items():
        made_of = {**parts, **bundles(parts, noise)}
        asked = list(procedures(RADII[key]))
        if key == "splitting":
            asked.append(("exhaustive", "three", Certify(30, Exhaustive())))
        for name, model, procedure in asked:
            for x in inputs(each):
                steps = procedure(Source(made_of[model], noise), x.numel())
                made.append((f"{key}, {name}, {len(made)}", Job(len(made), x, steps)))
    return made


def answers(engine, asked):
    """What the engine says of each question: the result and all answers it rests on."""
    names = {job.index: name for name, job in asked}
    return {names[outcome.index]: (outcome.result, outcome.answers) for outcome in engine.run(job for _, job in asked)}
