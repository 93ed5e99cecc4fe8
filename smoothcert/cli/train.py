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

from smoothcert import catalog
from smoothcert.cli import console, panels
from smoothcert.cli import options as o
from smoothcert.errors import OptionError
from smoothcert.progress import remark

if TYPE_CHECKING:
    from smoothcert.training import Settings
    from smoothcert.training.recipes import PublishedTraining

WHOSE = {"architectures": "arch", "training.objectives": "objective", "noise": "noise"}  # in --set arch.width=8
SEVERAL = 10_000  # numbers in a list; an ensemble has dozens of members


def command(
    out: Annotated[
        Path | None, panels.means(help="Write the checkpoint to this folder, or resume an unfinished one.")
    ] = None,
    data: o.Data = "digits",
    as_: Annotated[
        str | None, panels.data("--as", help="Treat DATA as this data set, such as cifar10 or imagenet.")
    ] = None,
    recipe: Annotated[
        str | None, panels.what(help="Train as published by cohen, ens, macer, smoothadv, esb, dds, ….")
    ] = None,
    arch: Annotated[
        str | None, panels.what(help="Train digits_cnn, lenet, mlp, resnet20, resnet110, ….", show_default="digits_cnn")
    ] = None,
    objective: Annotated[
        str | None,
        panels.what(
            help="Minimise this objective, such as gaussian, consistency or smoothadv.", show_default="gaussian"
        ),
    ] = None,
    sigma: Annotated[
        float | None, panels.noise(help="Set the noise level sigma, for inputs in [0,1].", show_default="0.25")
    ] = None,
    noise: o.NoiseName = "gaussian",
    epochs: Annotated[int | None, panels.what(help="Pass over the data this many times.", show_default="150")] = None,
    batch: Annotated[int | None, panels.what(help="Take this many inputs in each step.", show_default="256")] = None,
    optimiser: Annotated[str | None, panels.what(help="Optimise with sgd or adamw.", show_default="sgd")] = None,
    lr: Annotated[
        float | None, panels.what(help="Set the highest learning rate.", show_default="0.1; adamw: 0.001")
    ] = None,
    momentum: Annotated[
        float | None, panels.what(help="Set the momentum of sgd, or the first beta of adamw.", show_default="0.9")
    ] = None,
    nesterov: Annotated[
        bool | None,
        panels.what(
            "--nesterov/--no-nesterov", help="Use Nesterov momentum with sgd, or do not.", show_default="nesterov"
        ),
    ] = None,
    weight_decay: Annotated[float | None, panels.what(help="Set the weight decay.", show_default="0.0001")] = None,
    schedule: Annotated[
        str | None,
        panels.what(help="Schedule the rate by step (a tenth at drops), one_cycle or triangular.", show_default="step"),
    ] = None,
    drops: Annotated[str | None, panels.what(help="Divide the rate by 10 after these epochs, such as 200,400.")] = None,
    warmup: Annotated[int, panels.what(help="Raise the rate to the schedule's over this many epochs.")] = 0,
    clip: Annotated[float, panels.what(help="Clip gradients to this length; 0 clips none.")] = 0.0,
    ema: Annotated[float, panels.what(help="Average the weights with this decay; 0 averages none.")] = 0.0,
    augment: Annotated[
        str | None,
        panels.data(help="Augment by none, crop_flip (small images) or resized_crop (folders).", show_default="none"),
    ] = None,
    hold_out: Annotated[
        str | None, panels.data(help="Hold out training inputs: a share, a number or an .npz of index.")
    ] = None,
    seed: Annotated[int, panels.draws(help="Seed the weights, the order and the noise.")] = 0,
    seeds: Annotated[
        str | None, panels.draws(help="Train one network per seed (0-4 or 0,3,7), each in OUT/seed-N.")
    ] = None,
    start: Annotated[str | None, panels.what("--from", help="Start from the weights of this checkpoint.")] = None,
    labels: Annotated[
        str | None, panels.data(help="Learn the labels of this .npz file (index, label) instead.")
    ] = None,
    sigma_per_example: Annotated[
        bool, panels.noise("--sigma-per-example", help="Adapt the noise level to each example.")
    ] = False,
    sigma_warmup: Annotated[
        int | None, panels.noise(help="Train at the common sigma for this many epochs first.", show_default="50")
    ] = None,
    sigma_step: Annotated[
        float | None, panels.noise(help="Change an example's sigma by this step, once an epoch.", show_default="0.0001")
    ] = None,
    sigma_draws: Annotated[
        int | None, panels.noise(help="Draw this many noisy copies for such a step.", show_default="1")
    ] = None,
    describe: Annotated[bool, panels.means("--describe", help="Describe what would be trained, and stop.")] = False,
    range: o.Range = None,
    image_size: o.ImageSize = None,
    precision: Annotated[str, panels.means(help="Compute in float32 or bfloat16; weights stay float32.")] = "float32",
    device: Annotated[str, panels.means(help="Train on cpu, cuda, …; auto takes a GPU if there is one.")] = "auto",
    threads: o.Threads = None,
    workers: Annotated[
        int | None,
        panels.means(help="Decode a folder's images in this many processes.", show_default="one per core, at most 8"),
    ] = None,
    set_: Annotated[
        list[str] | None, panels.what("--set", help="Set another option of arch, objective or noise, as name=value.")
    ] = None,
) -> None:
    """Train a network under noise.

    If training is interrupted, the same command resumes from the last epoch.

    Recipes: cohen, ens, macer, smoothadv, consistency, smoothmix, esb, dds. Objectives: gaussian, smoothadv, macer,
    consistency, smoothmix, advmacer, denoise, stability.

    On several devices, run `torchrun --nproc-per-node N -m smoothcert train …`.

    smoothcert train --data cifar10 --arch resnet20 --sigma 0.25 --out models/a
    smoothcert train --data cifar10 --recipe cohen --sigma 0.5 --seeds 0-2 --out models/cohen
    smoothcert train --data cifar10 --recipe macer --sigma 0.25 --describe
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
        "precision": precision,
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
