"""`smoothcert compare`: one run held against another; `smoothcert history`: what each version of a model reached."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.console import Json, print_json, put, say, wrote
from smoothcert.cli.report import LAYOUTS, LogNorm, open_named, parse_radii, print_table
from smoothcert.errors import OptionError, RunError, unknown
from smoothcert.progress import remark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothcert.runs.run import Run

NAMED = ("acr", "accuracy")  # figures that --fail-below takes besides radii


def command(
    first: Annotated[Path, typer.Argument(metavar="A", help="Compare with this run or Cohen-style log.")],
    others: Annotated[list[Path], typer.Argument(metavar="B", help="Compare these runs or logs.")],
    radii: o.ReportRadii = None,
    fail_below: Annotated[
        str | None, typer.Option(help="Exit 1 if B − A is below these limits: acr=-0.01,0.5=-0.02.")
    ] = None,
    as_json: Json = False,
    tables: o.Tables = None,
    names: Annotated[str | None, typer.Option(help="Call the runs by these names, such as old,new.")] = None,
    norm: LogNorm = None,
) -> None:
    """Compare runs with run A, on the inputs that both have.

    Runs that were asked something else are refused. With several runs B, each is compared with A, and intervals and
    tests are corrected for their number.

    smoothcert compare runs/a runs/b --radii 0.25,0.5
    smoothcert compare runs/old runs/new --fail-below acr=-0.01,0.5=-0.02
    """
    _check_layout(as_json, tables)
    limits = {} if fail_below is None else parse_limits(fail_below)
    chosen = None if radii is None else parse_radii(radii)
    runs = open_named([first, *others], names, norm)
    if limits:
        _refuse_unfinished(runs)

    from smoothcert.report import several
    from smoothcert.report.metrics import default_radii

    asked = {float(name) for name in limits if name not in NAMED}
    radii_ = sorted({*(default_radii(runs) if chosen is None else chosen), *asked})
    found = several.against(runs[0], runs[1:], radii_)
    failed = several.too_low(found, limits)
    if as_json:
        print_json({**several.as_json(found), "failed": [line for _, lines in failed for line in lines]})
    else:
        print_table(several.table(found), tables or "text")
    for name, lines in failed:
        remark(f"{name} is below {runs[0].name}: {'; '.join(lines)}")
    if failed:
        raise typer.Exit(1)


def _refuse_unfinished(runs: Sequence[Run]) -> None:
    """Whoever leaves out the worst inputs passes every limit."""
    for run in runs:
        if run.unfinished:
            got = f"{len(run.rows)} of {run.inputs} inputs"
            raise RunError(f"run {run.name} must be finished to be held against a limit; got {got}")


def _check_layout(as_json: bool, tables: str | None) -> None:
    if as_json and tables is not None:
        raise OptionError("give --json or --tables, not both")
    if tables not in (None, *LAYOUTS):
        raise unknown("--tables", str(tables), LAYOUTS)


def parse_limits(text: str) -> dict[str, float]:
    """`acr=-0.01,0.5=-0.02` → the least change of each figure; a radius by its short name."""
    from smoothcert.report.metrics import radius_name

    limits: dict[str, float] = {}
    for pair in text.split(","):
        name, _, value = (part.strip() for part in pair.partition("="))
        try:
            least = float(value)
            radius = 0.0 if name in NAMED else float(name)
        except ValueError:
            least = radius = math.nan
        known = name if name in NAMED else radius_name(abs(radius))
        if not math.isfinite(least) or not 0.0 <= radius < math.inf or known in limits:
            raise OptionError(
                f"--fail-below must be acr, accuracy or radii with the least difference of each, as in "
                f"acr=-0.01,0.5=-0.02; got '{text}'"
            )
        limits[known] = least
    return limits


def history(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Read every run below this folder.")],
    radii: o.ReportRadii = None,
    as_json: Json = False,
    tables: o.Tables = None,
    plot: Annotated[Path | None, typer.Option(help="Write the curves to this file, as .svg and .png.")] = None,
) -> None:
    """Show the figures of every version of a model over time.

    Runs that were asked the same stand together.

    smoothcert history runs --plot history.svg
    """
    _check_layout(as_json, tables)
    o.check_place("--plot", plot)
    chosen = None if radii is None else parse_radii(radii)

    from smoothcert.report import history, plots, render

    lines, notes = history.history(folder, chosen)
    for note in notes:
        remark(note)
    if plot is not None:
        wrote(*plots.save(history.figure(lines), plot))
    if as_json:
        print_json([history.as_json(line) for line in lines])
        return
    layout = tables or "text"
    tell = say if layout == "text" else put
    for number, line in enumerate(lines):
        tell(f"{chr(10) * (number > 0)}{render.remark(line.words, layout)}{chr(10) * (layout == 'md')}")
        print_table(history.table(line), layout)
    for note in history.chosen(lines):
        tell(f"\n{render.remark(note, layout)}")
