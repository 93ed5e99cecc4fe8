"""`smoothcert quantise`: a network in 8-bit integers, to be certified as what it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli import panels
from smoothcert.cli.console import say
from smoothcert.errors import OptionError

if TYPE_CHECKING:
    from smoothcert.classifiers.quantise import QuantisedAccuracy, Speedup
    from smoothcert.data import Inputs

SIGMA = 0.25  # of gaussian noise, unless told


def command(
    model: Annotated[str, typer.Argument(help="Quantise the network in this checkpoint folder or .onnx file.")],
    data: o.Data,
    out: o.OnnxOut,
    split: Annotated[str, panels.data(help="Measure the ranges of values on this split.")] = "train",
    max: Annotated[int, panels.data(help="Stop before this index of that split; -1 reads to the end.")] = 512,
    skip: o.Skip = 1,
    sigma: Annotated[
        float | None, panels.noise(help="Set the noise level sigma at which you will certify.", show_default="0.25")
    ] = None,
    noise: o.NoiseName = "gaussian",
    held_out: Annotated[str, panels.data(help="Compare both networks on this split.")] = "test",
    compare: Annotated[int, panels.data(help="Compare them on at most this many inputs.")] = 500,
    seed: o.Seed = 0,
    range: o.Range = None,
    image_size: o.ImageSize = None,
    threads: o.Threads = None,
    set_: o.NoiseSet = None,
) -> None:
    """Quantise a network to 8-bit integers.

    The file written is another network: certify it, not the one it was made from.

    smoothcert quantise models/a --data cifar10 --sigma 0.25 --out a-int8.onnx
    """
    from smoothcert.classifiers.quantise import make
    from smoothcert.files import write_whole
    from smoothcert.streams import check_seed

    plain = sigma is None and noise == "gaussian"
    chosen = o.only_noise(noise, SIGMA if plain else sigma, set_, "quantise")
    check_seed(seed)
    _check(model, out, compare, threads)
    calibration = o.subset(data, split, skip, max, range, image_size).load()
    others = o.subset(data, held_out, skip, -1, range, image_size).load()
    words = o.say_noise(chosen)
    made = make(model, calibration, others, chosen, seed, compare, threads, f"{words}, seed {seed}")
    write_whole(out, made.content)
    say(f"{out}: {made.origin}")
    _say(made.comparison, made.speed, words, others)


def _check(model: str, out: Path, compare: int, threads: int | None) -> None:
    """What can be refused before anything is loaded."""
    o.check_file(out, ".onnx")
    if out.exists() and Path(model).exists() and out.samefile(model):
        raise OptionError(f"--out must not be the model itself; got '{out}'")
    for name, value in (("--compare", compare), ("--threads", threads)):
        if value is not None and value < 1:
            raise OptionError(f"{name} must be a positive whole number; got {value}")


def _say(found: QuantisedAccuracy, speed: Speedup, noise: str, others: Inputs) -> None:
    """What changed, in both directions."""
    change = 100 * (found.after - found.before)
    say(
        f"on {found.inputs} inputs of {Path(others.name).name} ({others.split}), {noise}: accuracy float "
        f"{found.before:.3f}, int8 {found.after:.3f} ({change:+.1f} points); the same class on {found.same:.1%}"
    )
    slower = "; SLOWER than float on this machine: nothing gained but a smaller file" if speed.middle < 1 else ""
    say(
        f"images a second, int8 ÷ float: {speed.middle:.2f} (from {speed.least:.2f} to {speed.most:.2f}, measured in "
        f"turn){slower}"
    )
