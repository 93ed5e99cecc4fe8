"""`certus export`: a run in the format of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certus.errors import RunError, unknown

FORMATS = ("cohen",)


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or a log.")],
    out: Annotated[Path, typer.Option(help="File to write.")],
    to: Annotated[str, typer.Option(help="Format: cohen (the tab-separated log of Cohen et al.).")] = "cohen",
    full: Annotated[bool, typer.Option("--full", help="Radii in full precision, not 3 decimals rounded down.")] = False,
) -> None:
    """Write a run as the log other tools of the field read.

    certus export runs/a --to cohen --out a.tsv
    """
    if to not in FORMATS:
        raise unknown("--to", to, FORMATS)

    from certus.runs.exchange import open_record, write_cohen

    record = open_record(run)
    if not record.rows:
        raise RunError(f"run {run} must hold at least one finished input; got none")
    write_cohen(record, out, full)
    rows = len(record.rows)
    unfinished = f" of {record.inputs}: the run is unfinished" if record.inputs and rows < record.inputs else ""
    typer.echo(f"certus: wrote {out} ({rows} inputs{unfinished})", err=True)
