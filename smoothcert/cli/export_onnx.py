"""`smoothcert export-onnx`: a model, a whole ensemble, or a classifier with its denoiser, as one ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import _options as o
from smoothcert.cli import _parts as p
from smoothcert.errors import OptionError

if TYPE_CHECKING:
    from torch import Tensor


def command(
    model: o.Model,
    out: Annotated[Path, typer.Option(help="The .onnx file to write.")],
    data: Annotated[str | None, typer.Option(help="Data whose inputs it takes; or --shape.")] = None,
    shape: Annotated[str | None, typer.Option(help="Shape of an input, as in 3,32,32; or --data.")] = None,
    image_size: o.ImageSize = None,
    range: o.Range = None,
) -> None:
    """Write a network, an ensemble that always asks all of its members, or a denoised classifier as one ONNX graph.

    smoothcert export-onnx models/abc --data cifar10 --out abc.onnx
    """
    if out.suffix != ".onnx":
        raise OptionError(f"--out must be a file name that ends in .onnx; got '{out}'")
    if not out.parent.is_dir():
        raise OptionError(f"--out must be in a folder that exists; got '{out}'")
    example = _example(data, shape, image_size, range)

    from smoothcert.classifiers import load, try_once
    from smoothcert.classifiers.onnx import from_network
    from smoothcert.ensembles import as_network
    from smoothcert.files import write_whole

    loaded = load(model)
    network = as_network(loaded)
    try_once(loaded, example)
    content = from_network(network, example).content or b""
    write_whole(out, content)
    typer.echo(f"{out}: {len(content):,} bytes, inputs [batch, {', '.join(map(str, example.shape))}] in [0,1] → scores")


def _example(data: str | None, shape: str | None, image_size: int | None, value_range: str | None) -> Tensor:
    """An input of the right shape."""
    import torch

    if (data is None) == (shape is None):
        raise OptionError(f"give one of --data and --shape; got {'both' if data else 'neither'}")
    if data is not None:
        return o.subset(data, "test", 1, 1, value_range, image_size).load().tensor(0)
    sizes = p.parse_value(shape or "")
    listed = sizes if isinstance(sizes, list) else [sizes]
    if not all(isinstance(size, int) and size > 0 for size in listed):
        raise OptionError(f"--shape must be whole numbers above 0, as in 3,32,32; got '{shape}'")
    return torch.full(listed, 0.5)
