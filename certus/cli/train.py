"""`certus train`: a base classifier, trained under noise."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from certus.cli._options import ImageSize, Range, Threads, parse_range, parse_value


def command(
    out: Annotated[Path, typer.Option(help="Folder for the checkpoint; an unfinished training there is continued.")],
    data: Annotated[str, typer.Option(help="Data set, .npz file or folder of images.")] = "digits",
    arch: Annotated[str, typer.Option(help="Network: digits_cnn, lenet, mlp, resnet20, resnet110, …")] = "digits_cnn",
    objective: Annotated[str, typer.Option(help="Training loss.")] = "gaussian",
    sigma: Annotated[float, typer.Option(help="Standard deviation of the noise, for inputs in [0,1].")] = 0.25,
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 150,
    batch: Annotated[int, typer.Option(help="Inputs in a step.")] = 256,
    lr: Annotated[float, typer.Option(help="Learning rate, the highest of the schedule.")] = 0.1,
    schedule: Annotated[str, typer.Option(help="step (÷10 after each third) or one_cycle.")] = "step",
    augment: Annotated[str, typer.Option(help="none, or crop_flip for small images.")] = "none",
    seed: Annotated[int, typer.Option(help="Decides weights, order and noise.")] = 0,
    range: Range = None,
    image_size: ImageSize = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, … ; auto takes a GPU if there is one.")] = "auto",
    threads: Threads = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="name=value, an option of arch or objective.")] = None,
) -> None:
    """Train a network under noise. Stopped at any moment, it goes on from the last epoch when called again."""
    from certus.training.loop import train
    from certus.training.settings import Settings

    arch_options, objective_options = _options(set_ or [], arch, objective)
    settings = Settings(
        data=data, arch=arch, objective=objective, sigma=sigma, epochs=epochs, batch=batch, lr=lr, schedule=schedule,
        augment=augment, seed=seed, value_range=parse_range(range), image_size=image_size,
        arch_options=arch_options, objective_options=objective_options,
    )  # fmt: skip
    _use_threads(threads)
    with contextlib.ExitStack() as stack:
        config = train(settings, out, _watch(stack), _device(device))
    typer.echo(f"{out}: epoch {config['epoch']}, accuracy under noise {config['noisy_accuracy']:.3f}")


def _options(settings: list[str], arch: str, objective: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """`name=value` settings of the command line, sorted into options of the architecture and of the objective."""
    import dataclasses

    from certus import catalog
    from certus.errors import OptionError

    known = {
        folder: {field.name for field in dataclasses.fields(catalog.find(folder, part)[0])}
        for folder, part in (("architectures", arch), ("training.objectives", objective))
    }
    chosen: dict[str, dict[str, Any]] = {folder: {} for folder in known}
    for setting in settings:
        name, equals, text = setting.partition("=")
        owners = [folder for folder, fields in known.items() if name in fields]
        if not equals or not owners:
            every = ", ".join(sorted(set().union(*known.values())))
            raise OptionError(f"set of training must be name=value with a name of {every}; got '{setting}'")
        for owner in owners:
            chosen[owner][name] = parse_value(text)
    return chosen["architectures"], chosen["training.objectives"]


def _use_threads(threads: int | None) -> None:
    import torch

    from certus.errors import OptionError

    if threads is not None and threads < 1:
        raise OptionError(f"threads of training must be at least 1; got {threads}")
    if threads is not None:
        torch.set_num_threads(threads)


def _device(name: str) -> str:
    import torch

    from certus.errors import OptionError

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise OptionError(f"device of training must be one torch has here; got '{name}'") from error
    return name


def _watch(stack: contextlib.ExitStack) -> Any:
    """The loop's reports as a bar: time left, loss by term at each step, accuracy under noise after each epoch."""
    from certus.cli._progress import bar
    from certus.training.loop import Watch

    class Bar(Watch):
        def started(self, done: int, epochs: int, steps: int) -> None:
            # The bar opens here and not before, so that bad settings leave one line and nothing else.
            self.update = stack.enter_context(bar("training", "epochs"))
            self.done, self.epochs, self.share, self.accuracy = float(done), epochs, 1 / steps, ""

        def stepped(self, terms: Mapping[str, float]) -> None:
            self.done += self.share
            self._show(terms)

        def finished(self, epoch: int, terms: Mapping[str, float], accuracy: float) -> None:
            self.done, self.accuracy = float(epoch), f", noisy accuracy {accuracy:.3f}"
            self._show(terms)

        def _show(self, terms: Mapping[str, float]) -> None:
            told = ", ".join(f"{name} {value:.3f}" for name, value in terms.items())
            self.update(self.done, self.epochs, f"epoch {math.ceil(self.done)}/{self.epochs}, {told}{self.accuracy}")

    return Bar()
