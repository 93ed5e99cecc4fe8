"""`smoothcert export`: a run in another tool's format; `smoothcert export-onnx`: a model as one ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.console import say, wrote
from smoothcert.cli.report import open_named
from smoothcert.errors import OptionError, RunError, unknown

if TYPE_CHECKING:
    from smoothcert.runs.run import Run

COHEN = ("cohen", "tsv")
FORMATS = (*COHEN, "csv", "parquet", "tensorboard", "hf")


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Read this run folder or log.")],
    out: Annotated[Path, typer.Option(help="Write to this file, or folder for tensorboard.")],
    to: Annotated[
        str, typer.Option(help="Write cohen (or tsv), csv, parquet, tensorboard or hf (model card).")
    ] = "cohen",
    full: Annotated[
        bool, typer.Option("--full", help="Write radii in full precision, not to 3 decimals rounded down.")
    ] = False,
) -> None:
    """Write a run in the format of another tool.

    smoothcert export runs/a --to csv --out a.csv
    smoothcert export runs/a --to cohen --out a.tsv
    """
    if to not in FORMATS:
        raise unknown("--to", to, FORMATS)
    if full and to not in COHEN:
        raise OptionError(f"--full needs --to cohen; {to} always has full precision")

    record = open_named([run], None)[0]
    if not record.rows:
        raise RunError(f"run {run} must hold at least one finished input; got none")
    rows = len(record.rows)
    unfinished = f" of {record.inputs}: the run is unfinished" if record.unfinished else ""
    wrote(f"{_write(record, out, to, full)} ({rows} inputs{unfinished})")


def _write(run: Run, out: Path, to: str, full: bool) -> Path:
    """In this format; where it went."""
    from smoothcert.files import write_whole
    from smoothcert.report import exports
    from smoothcert.runs import exchange

    if to in COHEN:
        exchange.write_cohen(run, out, full)
    elif to == "csv":
        exchange.write_csv(run, out)
    elif to == "parquet":
        exchange.write_parquet(run, out)
    elif to == "tensorboard":
        return exports.write_scalars(run, out)
    else:
        write_whole(out, exports.model_index(run).encode())
    return out


def export_onnx(
    model: o.Model,
    out: o.OnnxOut,
    data: Annotated[
        str | None, typer.Option(help="Take the shape of inputs from this data, in place of --shape.")
    ] = None,
    shape: Annotated[
        str | None, typer.Option(help="Give the shape of one input, such as 3,32,32, in place of --data.")
    ] = None,
    image_size: o.ImageSize = None,
    range: o.Range = None,
) -> None:
    """Write a model as one ONNX graph.

    It may be a network, an ensemble that always asks all of its members, or a denoised classifier.

    smoothcert export-onnx models/abc --data cifar10 --out abc.onnx
    """
    import torch

    from smoothcert.classifiers import load, try_once
    from smoothcert.classifiers.onnx import from_network
    from smoothcert.ensembles import as_network
    from smoothcert.files import write_whole

    o.check_file(out, ".onnx")
    if (data is None) == (shape is None):
        raise OptionError(f"give one of --data and --shape; got {'both' if data else 'neither'}")
    if data is not None:
        example = o.subset(data, "test", 1, 1, range, image_size).load().tensor(0)
    else:
        example = torch.full(o.parse_shape(shape or ""), 0.5)
    loaded = load(model)
    network = as_network(loaded)
    try_once(loaded, example)
    content = from_network(network, example).content or b""
    write_whole(out, content)
    say(f"{out}: {len(content):,} bytes, inputs [batch, {', '.join(map(str, example.shape))}] in [0,1] → scores")
