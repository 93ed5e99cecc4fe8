"""`smoothcert quantise`: a network in 8-bit integers, to be certified as what it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import _options as o
from smoothcert.cli import _parts as p
from smoothcert.errors import DataError, OptionError

if TYPE_CHECKING:
    from torch import Tensor

    from smoothcert.classifiers.quantise import QuantisedAccuracy, Speedup
    from smoothcert.contracts import Noise
    from smoothcert.data import Inputs

SIGMA = 0.25  # of gaussian noise, unless told


def command(
    model: Annotated[str, typer.Argument(help="Checkpoint folder or file.onnx.")],
    data: o.Data,
    out: Annotated[Path, typer.Option(help="The .onnx file to write.")],
    split: Annotated[str, typer.Option(help="Split whose inputs show the ranges of values.")] = "train",
    max: Annotated[int, typer.Option(help="Stop before this index of that split; -1: never.")] = 512,
    skip: o.Skip = 1,
    sigma: Annotated[
        float | None, typer.Option(help="Noise on these inputs: that of the certification.  [default: 0.25]")
    ] = None,
    noise: o.NoiseName = "gaussian",
    held_out: Annotated[str, typer.Option(help="Split on which both networks are compared.")] = "test",
    compare: Annotated[int, typer.Option(help="The most inputs of that comparison.")] = 500,
    seed: o.Seed = 0,
    range: o.Range = None,
    image_size: o.ImageSize = None,
    threads: o.Threads = None,
    set_: o.NoiseSet = None,
) -> None:
    """Quantise a network to 8-bit integers. FILE.onnx is another network: certify it, not the one it was made of.

    smoothcert quantise models/a --data cifar10 --sigma 0.25 --out a-int8.onnx
    """
    from smoothcert.streams import check_seed

    plain = sigma is None and noise == "gaussian"
    chosen = p.only_noise(noise, SIGMA if plain else sigma, set_, "quantise")
    check_seed(seed)
    _check(model, out, compare, threads)
    calibration = o.subset(data, split, skip, max, range, image_size).load()
    others = o.subset(data, held_out, skip, -1, range, image_size).load()

    from smoothcert.classifiers import digest, load
    from smoothcert.classifiers import quantise as q
    from smoothcert.files import write_whole

    before = q.as_onnx(load(model), calibration.tensor(0))
    clean, labels = _held_out(calibration, others, compare)
    origin = (
        f"int8 quantisation of {digest(model)}, calibrated on {len(calibration)} inputs of "
        f"{Path(calibration.name).name} ({split}, {calibration.digest[:12]}) with {p.say_noise(chosen)}, seed {seed}"
    )
    after = q.quantise(before, _noisy(calibration.tensors(), chosen, seed, "calibrate"), origin)
    found = q.compare(before, after, _noisy(clean, chosen, seed, "compare"), labels)
    speed = q.speedup(before, after, clean[0], threads)
    write_whole(out, after.content or b"")
    typer.echo(f"{out}: {origin}")
    _say(found, speed, p.say_noise(chosen), others)


def _check(model: str, out: Path, compare: int, threads: int | None) -> None:
    """What can be refused before anything is loaded."""
    if out.suffix != ".onnx":
        raise OptionError(f"--out must be a file name that ends in .onnx; got '{out}'")
    if not out.parent.is_dir():
        raise OptionError(f"--out must be in a folder that exists; got '{out}'")
    if out.exists() and Path(model).exists() and out.samefile(model):
        raise OptionError(f"--out must not be the model itself; got '{out}'")
    for name, value in (("--compare", compare), ("--threads", threads)):
        if value is not None and value < 1:
            raise OptionError(f"{name} must be a positive whole number; got {value}")


def _held_out(calibration: Inputs, others: Inputs, most: int) -> tuple[Tensor, Tensor]:
    """Inputs that were not calibrated on; by value, since a file or a plain folder has one split only."""
    import numpy as np
    import torch

    seen = {values.tobytes() for values in calibration.tensors().numpy()}
    few = np.arange(len(others))[: most + len(calibration)]
    values = others.tensors(few)
    fresh = [position for position in few if values[position].numpy().tobytes() not in seen][:most]
    if not fresh:
        raise DataError(f"{others.name} must hold inputs that were not calibrated on; got none (take a smaller --max)")
    return values[fresh], torch.from_numpy(others.labels[fresh])


def _noisy(clean: Tensor, noise: Noise, seed: int, purpose: str) -> Tensor:
    """One noisy copy of each input [N, ...]."""
    import torch

    from smoothcert.contracts import Stream

    out = torch.empty(clean.shape)
    for number, x in enumerate(clean):
        noise.fill(out[number : number + 1], x, Stream(seed, number, purpose), 0)
    return out


def _say(found: QuantisedAccuracy, speed: Speedup, noise: str, others: Inputs) -> None:
    """What changed, in both directions."""
    change = 100 * (found.after - found.before)
    typer.echo(
        f"on {found.inputs} inputs of {Path(others.name).name} ({others.split}), {noise}: accuracy float "
        f"{found.before:.3f}, int8 {found.after:.3f} ({change:+.1f} points); the same class on {found.same:.1%}"
    )
    slower = "; SLOWER than float on this machine: nothing gained but a smaller file" if speed.middle < 1 else ""
    typer.echo(
        f"images a second, int8 ÷ float: {speed.middle:.2f} (from {speed.least:.2f} to {speed.most:.2f}, measured in "
        f"turn){slower}"
    )
