"""Options that several commands share, with one wording, and what they become."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.data import Subset
from smoothcert.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from smoothcert.classifiers import Ready
    from smoothcert.data import Inputs

Model = Annotated[
    str, typer.Argument(help="Checkpoint or ensemble folder, file.onnx, zoo name, or package.module:callable.")
]
Data = Annotated[str, typer.Option(help="Data set's name, file.npz, or a folder of class folders.")]
Sigma = Annotated[float, typer.Option(help="Standard deviation of the Gaussian noise, inputs in [0,1].")]
AnySigma = Annotated[float | None, typer.Option("--sigma", help="Standard deviation of the noise, inputs in [0,1].")]
NoiseName = Annotated[
    str, typer.Option("--noise", help="gaussian, gaussian_grid (l2), uniform, splitting (l1), discrete (l0).")
]
NoiseSet = Annotated[list[str] | None, typer.Option("--set", help="name=value, another option of the noise.")]
Alpha = Annotated[float, typer.Option(help="Probability that one answer is wrong.")]
Skip = Annotated[int, typer.Option(help="Take every SKIP-th input.")]
Max = Annotated[int, typer.Option(help="Stop before this index; -1: never.")]
Start = Annotated[int, typer.Option(help="Begin at this index.")]
Split = Annotated[str, typer.Option(help="Which split of the data.")]
Seed = Annotated[int, typer.Option(help="Key of all noise; the same seed gives the same counts.")]
Range = Annotated[str | None, typer.Option(help="lo,hi of the data's values, when not 0,1.")]
ImageSize = Annotated[int | None, typer.Option(help="Resize and crop images of a folder to this size.")]
Engine = Annotated[str, typer.Option(help="auto, onnxruntime, torch or torch:DEVICE.")]
Threads = Annotated[int | None, typer.Option(help="Threads of a forward pass; default: all cores.")]


def subset(
    data: str, split: str, skip: int, max: int, range: str | None, image_size: int | None, start: int = 0
) -> Subset:
    """The data options of a command as one value; the text of --range is read here."""
    return Subset(data, split, skip, max, start, parse_range(range), image_size)


def parse_range(text: str | None, option: str = "--range") -> tuple[float, float] | None:
    """`lo,hi` → two numbers."""
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError as error:
        raise OptionError(f"{option} must be two numbers lo,hi; got '{text}'") from error
    return low, high


def prepare(model: str, inputs: Inputs, engine: str, threads: int | None) -> Ready:
    """Load a model and make it ready for these inputs; say so in one line when it is not the fastest way."""
    from smoothcert.classifiers import load, ready
    from smoothcert.ensembles.holdout import refuse_used

    loaded = load(model)
    refuse_used(model, inputs)
    prepared = ready(loaded, inputs.tensor(0), engine, threads)
    if prepared.note:
        print(f"smoothcert: {prepared.note}", file=sys.stderr)
    return prepared


def say_summary(folder: Path) -> None:
    """What a finished run found, and where to look next."""
    from smoothcert.report.metrics import figures
    from smoothcert.report.tables import text_table
    from smoothcert.runs.store import read

    record = read(folder)
    print(text_table([figures(record)]))
    calls = record.means.member_calls if record.means else None
    if calls and calls.early:
        share = f"{calls.asked / calls.rows:.2f} of {calls.members}"
        print(f"members asked a draw: {share}; {calls.early / calls.rows:.1%} of draws did not need all")
    print(f"kept in {folder}; next: smoothcert verify {folder}, smoothcert report {folder} --html report.html")
