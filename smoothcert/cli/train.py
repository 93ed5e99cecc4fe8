"""`smoothcert train`: a base classifier, trained under noise."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert import catalog
from smoothcert.cli import console
from smoothcert.cli import options as o
from smoothcert.errors import OptionError
from smoothcert.progress import remark

if TYPE_CHECKING:
    from smoothcert.training import Settings
    from smoothcert.training.recipes import PublishedTraining

WHOSE = {"architectures": "arch", "training.objectives": "objective", "noise": "noise"}  # in --set arch.width=8
SEVERAL = 10_000  # numbers in a list; an ensemble has dozens of members


def command(
    out: Annotated[Path | None, typer.Option(help="Folder of the checkpoint; continued if unfinished.")] = None,
    data: o.Data = "digits",
    as_: Annotated[
        str | None, typer.Option("--as", help="Which data set DATA is: cifar10, imagenet, …; normalisation and recipe.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="As published: cohen, ens, macer, smoothadv, consistency, smoothmix, esb, dds.")
    ] = None,
    arch: Annotated[
        str | None, typer.Option(help="Network: digits_cnn, lenet, mlp, resnet20, resnet110, …  [default: digits_cnn]")
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="gaussian (default), smoothadv, macer, consistency, smoothmix, advmacer; denoise, stability."
        ),
    ] = None,
    sigma: Annotated[float | None, typer.Option(help="Noise level, inputs in [0,1].  [default: 0.25]")] = None,
    noise: o.NoiseName = "gaussian",
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.  [default: 150]")] = None,
    batch: Annotated[int | None, typer.Option(help="Inputs in a step.  [default: 256]")] = None,
    optimiser: Annotated[str | None, typer.Option(help="sgd or adamw.  [default: sgd]")] = None,
    lr: Annotated[float | None, typer.Option(help="Highest learning rate.  [default: 0.1; adamw: 0.001]")] = None,
    momentum: Annotated[float | None, typer.Option(help="Of sgd; adamw's first beta.  [default: 0.9]")] = None,
    nesterov: Annotated[
        bool | None, typer.Option("--nesterov/--no-nesterov", help="Nesterov's momentum for sgd.  [default: nesterov]")
    ] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Pull of the weights to 0.  [default: 0.0001]")] = None,
    schedule: Annotated[
        str | None,
        typer.Option(help="step (÷10 each third or at --drops), one_cycle, triangular.  [default: step]"),
    ] = None,
    drops: Annotated[str | None, typer.Option(help="Epochs after which the rate is divided by 10: 200,400.")] = None,
    warmup: Annotated[int, typer.Option(help="Epochs in which the rate rises to the schedule's.")] = 0,
    clip: Annotated[float, typer.Option(help="Greatest length of a gradient; 0: any.")] = 0.0,
    ema: Annotated[float, typer.Option(help="Decay of a running average of the weights; 0: none.")] = 0.0,
    augment: Annotated[
        str | None, typer.Option(help="none, crop_flip (small images), resized_crop (a folder's).  [default: none]")
    ] = None,
    hold_out: Annotated[
        str | None, typer.Option(help="Training inputs to keep back: 0.04, 2000, or an .npz of index.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides weights, order and noise.")] = 0,
    seeds: Annotated[str | None, typer.Option(help="Several trainings: 0-4 or 0,3,7, each in OUT/seed-N.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="Checkpoint whose weights to begin with.")] = None,
    labels: Annotated[str | None, typer.Option(help="An .npz of index and label to learn instead.")] = None,
    sigma_per_example: Annotated[
        bool, typer.Option("--sigma-per-example", help="Adapt each example's noise level.")
    ] = False,
    sigma_warmup: Annotated[
        int | None, typer.Option(help="Epochs before that, at the common sigma.  [default: 50]")
    ] = None,
    sigma_step: Annotated[
        float | None, typer.Option(help="Length of an example's one step an epoch.  [default: 0.0001]")
    ] = None,
    sigma_draws: Annotated[int | None, typer.Option(help="Noisy copies behind such a step.  [default: 1]")] = None,
    describe: Annotated[bool, typer.Option("--describe", help="Say what would be trained; stop.")] = False,
    range: o.Range = None,
    image_size: o.ImageSize = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, … ; auto takes a GPU if there is one.")] = "auto",
    threads: o.Threads = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Processes that decode images of a folder.  [default: as many as cores, at most 8]"),
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="name=value, of arch, objective or noise.")] = None,
) -> None:
    """Train a network under noise. Stopped at any moment, it goes on from the last epoch when called again.

    On several devices: `torchrun --nproc-per-node N -m smoothcert train …`.
    """
    given = {
        "arch": arch, "epochs": epochs, "batch": batch, "optimiser": optimiser, "lr": lr, "momentum": momentum,
        "nesterov": nesterov, "weight_decay": weight_decay, "schedule": schedule, "augment": augment,
        "drops": _whole_numbers("drops", drops), "sigma_warmup": sigma_warmup, "sigma_step": sigma_step,
        "sigma_draws": sigma_draws, "image_size": image_size,
    }  # fmt: skip
    always = {
        "data": data, "data_set": as_, "sigma": sigma, "noise": noise, "warmup": warmup, "clip": clip, "ema": ema,
        "seed": seed, "start": start, "labels": labels, "sigma_per_example": sigma_per_example,
        "value_range": o.parse_range(range), "hold_out": hold_out, "recipe": recipe,
    }  # fmt: skip
    said = {name: value for name, value in given.items() if value is not None}
    settings, published = _settings(always, said, objective, set_ or [])
    if describe:
        _describe(settings, published)
        return
    if out is None:
        raise OptionError("out of training must be a folder for the checkpoint (--out); got none")
    trainings = [(settings, out)]
    if (numbers := _whole_numbers("seeds", seeds)) is not None:
        trainings = [(dataclasses.replace(settings, seed=each), out / f"seed-{each}") for each in numbers]
    for each, folder in trainings:
        each.refuse_others(folder)  # before torch is imported, which takes seconds
    if published is not None:
        remark(published.told(settings))
    _train(trainings, threads, device, workers)


def _settings(
    always: Mapping[str, Any], said: Mapping[str, Any], objective: str | None, set_: list[str]
) -> tuple[Settings, PublishedTraining | None]:
    """The recipe's settings, where one is named, and over them what was said."""
    from smoothcert.training import SIGMA, Settings, data_set_of, recipes

    published, own = None, {}
    if always["recipe"] is not None:
        recipe = recipes.find(always["recipe"])
        recipe.check_noise(always["noise"])
        sigma = SIGMA if always["sigma"] is None else always["sigma"]
        known = data_set_of(always["data"], always["data_set"])
        published = recipe.training(known or f"{always['data']} (--as says which it is)", objective, sigma)
        objective, own = published.objective, published.under(said)
    settings = {"arch": "digits_cnn", **own, **said, **always, "objective": objective or "gaussian"}
    options = _options(set_, settings["arch"], settings["objective"], settings["noise"])
    learnt = {} if published is None else {name: value.value for name, value in published.options.items()}
    return Settings(
        **settings,
        arch_options=options["architectures"],
        objective_options={**learnt, **options["training.objectives"]},
        noise_options=options["noise"],
    ), published


def _describe(settings: Settings, published: PublishedTraining | None) -> None:
    if published is not None:  # before the data are looked for, which may not be at hand
        console.say("\n".join(line for line in (*published.lines(), published.told(settings)) if line))
    from smoothcert.training.setup import borrowed, describe_training

    lines = (*describe_training(settings, o.say_noise(settings.build_noise())), borrowed(settings))
    console.say("\n".join(line for line in lines if line))


def _train(trainings: Sequence[tuple[Settings, Path]], threads: int | None, device: str, workers: int | None) -> None:
    from smoothcert.cli.training_bar import watch
    from smoothcert.training.loop import train
    from smoothcert.training.setup import borrowed, torch_device, use_threads

    use_threads(threads)
    remark(borrowed(trainings[0][0]))
    for settings, out in trainings:
        with contextlib.ExitStack() as stack:
            config = train(settings, out, watch(stack, out), torch_device(device), workers)
        if int(os.environ.get("RANK", 0)) == 0:
            _say(settings, out, config)


def _say(settings: Settings, out: Path, config: Mapping[str, Any]) -> None:
    if "noisy_mse" in config:
        console.say(f"{out}: epoch {config['epoch']}, squared error under noise {config['noisy_mse']:.5f}")
        return
    console.say(f"{out}: epoch {config['epoch']}, accuracy under noise {config['noisy_accuracy']:.3f}")
    if estimate := config.get("estimate"):
        told = ", ".join(f"{share:.2f} at {radius}" for radius, share in estimate.items())
        under = o.say_noise(settings.build_noise())
        console.say(f"certified accuracy will be about {told} ({under}; 200 inputs, 100 draws; no certificate)")


def _whole_numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    """0-4 or 0,3,7."""
    if text is None:
        return None
    parts = [re.fullmatch(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?", part, re.ASCII) for part in text.split(",")]
    found = [builtins.range(int(part[1]), int(part[2] or part[1]) + 1) for part in parts if part is not None]
    if len(found) < len(parts) or not all(found):
        raise OptionError(f"{option} of training must be whole numbers as in 0-4 or 0,3,7; got '{text}'")
    if sum(map(len, found)) > SEVERAL:
        raise OptionError(f"{option} of training must be at most {SEVERAL} numbers; got '{text}'")
    return tuple(number for part in found for number in part)


def _options(settings: list[str], arch: str, objective: str, noise: str) -> dict[str, dict[str, Any]]:
    """`name=value` settings of the command line, sorted into options of architecture, objective and noise.

    A name that several of them have is the noise's, unless it says whose it is, as arch.width does.
    """
    parts = {"architectures": arch, "training.objectives": objective, "noise": noise}
    chosen: dict[str, dict[str, Any]] = {folder: {} for folder in parts}
    if not settings:
        return chosen  # parts import torch, which takes seconds: what can be refused without them comes first
    known = {folder: catalog.fields(folder, part) for folder, part in parts.items()}
    for setting in settings:
        words, equals, text = setting.partition("=")
        whose, _, name = words.rpartition(".")
        owners = [folder for folder, fields in known.items() if name in fields and whose in ("", WHOSE[folder])]
        if not equals or not owners:
            every = ", ".join(sorted(set().union(*known.values())))
            raise OptionError(f"set of training must be name=value with a name of {every}; got '{setting}'")
        if len(owners) > 1:
            others = " or ".join(f"{WHOSE[owner]}.{name}" for owner in owners[:-1])
            remark(f"--set {name}={text} is of the {WHOSE[owners[-1]]}; {others} would be another")
        chosen[owners[-1]][name] = o.parse_value(text)
    return chosen
