"""`smoothcert train`: a base classifier, trained under noise."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert import catalog, progress
from smoothcert.cli import console
from smoothcert.cli import options as o
from smoothcert.errors import OptionError

if TYPE_CHECKING:
    from smoothcert.training import Settings

WHOSE = {"architectures": "arch", "training.objectives": "objective", "noise": "noise"}  # in --set arch.width=8
SEVERAL = 10_000  # numbers in a list; an ensemble has dozens of members


def command(
    out: Annotated[Path | None, typer.Option(help="Folder of the checkpoint; continued if unfinished.")] = None,
    data: o.Data = "digits",
    arch: Annotated[str, typer.Option(help="Network: digits_cnn, lenet, mlp, resnet20, resnet110, …")] = "digits_cnn",
    objective: Annotated[
        str, typer.Option(help="gaussian, smoothadv, macer, consistency, smoothmix, advmacer; denoise, stability.")
    ] = "gaussian",
    sigma: Annotated[float | None, typer.Option(help="Noise level, inputs in [0,1].  [default: 0.25]")] = None,
    noise: o.NoiseName = "gaussian",
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 150,
    batch: Annotated[int, typer.Option(help="Inputs in a step.")] = 256,
    optimiser: Annotated[str, typer.Option(help="sgd (Nesterov momentum 0.9) or adamw.")] = "sgd",
    lr: Annotated[float | None, typer.Option(help="Highest learning rate.  [default: 0.1; adamw: 0.001]")] = None,
    schedule: Annotated[str, typer.Option(help="step (÷10 after each third, or at --drops) or one_cycle.")] = "step",
    drops: Annotated[str | None, typer.Option(help="Epochs after which the rate is divided by 10: 200,400.")] = None,
    warmup: Annotated[int, typer.Option(help="Epochs in which the rate rises to the schedule's.")] = 0,
    clip: Annotated[float, typer.Option(help="Greatest length of a gradient; 0: any.")] = 0.0,
    ema: Annotated[float, typer.Option(help="Decay of a running average of the weights; 0: none.")] = 0.0,
    augment: Annotated[str, typer.Option(help="none, or crop_flip for small images.")] = "none",
    seed: Annotated[int, typer.Option(help="Decides weights, order and noise.")] = 0,
    seeds: Annotated[str | None, typer.Option(help="Several trainings: 0-4 or 0,3,7, each in OUT/seed-N.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="Checkpoint whose weights to begin with.")] = None,
    labels: Annotated[str | None, typer.Option(help="An .npz of index and label to learn instead.")] = None,
    sigma_per_example: Annotated[
        bool, typer.Option("--sigma-per-example", help="Adapt each example's noise level.")
    ] = False,
    sigma_warmup: Annotated[int, typer.Option(help="Epochs before that, at the common sigma.")] = 50,
    sigma_step: Annotated[float, typer.Option(help="Length of an example's one step an epoch.")] = 1e-4,
    sigma_draws: Annotated[int, typer.Option(help="Noisy copies behind such a step.")] = 1,
    describe: Annotated[bool, typer.Option("--describe", help="Say what would be trained; stop.")] = False,
    range: o.Range = None,
    image_size: o.ImageSize = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, … ; auto takes a GPU if there is one.")] = "auto",
    threads: o.Threads = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="name=value, of arch, objective or noise.")] = None,
) -> None:
    """Train a network under noise. Stopped at any moment, it goes on from the last epoch when called again.

    On several devices: `torchrun --nproc-per-node N -m smoothcert train …`.
    """
    from smoothcert.training import Settings

    options = _options(set_ or [], arch, objective, noise)
    settings = Settings(
        data=data, arch=arch, objective=objective, sigma=sigma, epochs=epochs, batch=batch, optimiser=optimiser,
        lr=lr, schedule=schedule, drops=_whole_numbers("drops", drops), warmup=warmup, clip=clip,
        ema=ema, augment=augment, seed=seed, start=start, labels=labels, sigma_per_example=sigma_per_example,
        sigma_warmup=sigma_warmup, sigma_step=sigma_step, sigma_draws=sigma_draws, value_range=o.parse_range(range),
        image_size=image_size, arch_options=options["architectures"], objective_options=options["training.objectives"],
        noise=noise, noise_options=options["noise"],
    )  # fmt: skip
    if describe:
        from smoothcert.training.setup import describe_training

        for line in describe_training(settings, o.say_noise(settings.build_noise())):
            console.say(line)
        return
    if out is None:
        raise OptionError("out of training must be a folder for the checkpoint (--out); got none")
    trainings = [(settings, out)]
    if (numbers := _whole_numbers("seeds", seeds)) is not None:
        trainings = [(dataclasses.replace(settings, seed=each), out / f"seed-{each}") for each in numbers]
    for each, folder in trainings:
        each.refuse_others(folder)  # before torch is imported, which takes seconds
    _train(trainings, threads, device)


def _train(trainings: Sequence[tuple[Settings, Path]], threads: int | None, device: str) -> None:
    from smoothcert.training.loop import train
    from smoothcert.training.setup import torch_device, use_threads

    use_threads(threads)
    for settings, out in trainings:
        with contextlib.ExitStack() as stack:
            config = train(settings, out, _watch(stack, out), torch_device(device))
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
            progress.remark(f"--set {name}={text} is of the {WHOSE[owners[-1]]}; {others} would be another")
        chosen[owners[-1]][name] = o.parse_value(text)
    return chosen


def _watch(stack: contextlib.ExitStack, out: Path) -> Any:
    """The loop's reports as a bar: time left, loss by term at each step, accuracy under noise after each epoch."""
    from smoothcert.training.loop import Watch

    class TrainingBar(Watch):
        def started(self, done: int, epochs: int, steps: int) -> None:
            # The bar opens here and not before, so that bad settings leave one line and nothing else.
            self.update = stack.enter_context(progress.bar("training", "epochs"))
            self.done, self.epochs, self.steps, self.found = done * steps, epochs, steps, ""
            self.log: Any = None

        def stepped(self, terms: Mapping[str, float]) -> None:
            self.done += 1
            self._show(terms)

        def finished(self, epoch: int, terms: Mapping[str, float], found: Mapping[str, float]) -> None:
            self.done = epoch * self.steps
            self.found = "".join(f", {name.replace('_', ' ')} {value:.3g}" for name, value in found.items())
            self._show(terms)
            self.log = self.log or _event_log(stack, out)
            for name, value in {**terms, **found}.items() if self.log is not None else ():
                self.log.add_scalar(name, value, epoch)

        def _show(self, terms: Mapping[str, float]) -> None:
            told = ", ".join(f"{name} {value:.3g}" for name, value in terms.items())
            epoch = math.ceil(self.done / self.steps)
            self.update(self.done, self.epochs * self.steps, f"epoch {epoch}/{self.epochs}, {told}{self.found}")

    return TrainingBar()


def _event_log(stack: contextlib.ExitStack, out: Path) -> Any:
    """TensorBoard's, in the checkpoint folder, where TensorBoard is installed."""
    import importlib.util

    if importlib.util.find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    log = SummaryWriter(str(out / "tensorboard"))
    stack.callback(log.close)
    return log
