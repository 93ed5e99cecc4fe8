"""`smoothcert export`: a run in the format of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.errors import OptionError, RunError, unknown

COHEN = ("cohen", "tsv")
FORMATS = (*COHEN, "csv", "parquet", "tensorboard", "hf")


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or a log.")],
    out: Annotated[Path, typer.Option(help="File to write; for tensorboard a folder.")],
    to: Annotated[
        str,
        typer.Option(
            help="cohen or tsv (the log of Cohen et al.), csv, parquet, tensorboard (scalars), hf (model-index of a "
            "model card)."
        ),
    ] = "cohen",
    full: Annotated[bool, typer.Option("--full", help="Radii in full precision, not 3 decimals rounded down.")] = False,
) -> None:
    """Write a run for another tool: a log, a table, scalars, or the metadata of a model card.

    smoothcert export runs/a --to cohen --out a.tsv
    """
    if to not in FORMATS:
        raise unknown("--to", to, FORMATS)
    if full and to not in COHEN:
        raise OptionError(f"--full belongs to --to cohen; {to} is in full precision always")

    from smoothcert.runs.exchange import open_run

    record = open_run(run)
    if not record.rows:
        raise RunError(f"run {run} must hold at least one finished input; got none")
    written = out
    if to in COHEN:
        from smoothcert.runs.exchange import write_cohen

        write_cohen(record, out, full)
    elif to == "csv":
        from smoothcert.runs.sheets import write_csv

        write_csv(record, out)
    elif to == "parquet":
        from smoothcert.runs.sheets import write_parquet

        write_parquet(record, out)
    elif to == "tensorboard":
        from smoothcert.report.scalars import write_scalars

        written = write_scalars(record, out)
    else:
        from smoothcert.files import write_whole
        from smoothcert.report.model_index import block

        write_whole(out, block(record).encode())
    rows = len(record.rows)
    unfinished = f" of {record.inputs}: the run is unfinished" if record.inputs and rows < record.inputs else ""
    typer.echo(f"smoothcert: wrote {written} ({rows} inputs{unfinished})", err=True)
