"""`smoothcert compare`: what one run has more than another, on the same inputs, with intervals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import _json
from smoothcert.cli.report import LAYOUTS, open_named, parse_radii, print_table
from smoothcert.errors import OptionError, unknown

if TYPE_CHECKING:
    from smoothcert.report.compare import Compared

NAMED = ("acr", "accuracy")  # figures that --fail-below takes besides radii


def command(
    first: Annotated[Path, typer.Argument(metavar="A", help="Run or Cohen-style log that is the measure.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Run or log that is held against it.")],
    radii: Annotated[str | None, typer.Option(help="Radii, as in 0,0.25,0.5; default: every 0.25.")] = None,
    fail_below: Annotated[
        str | None, typer.Option(help="Exit 1 where B − A is below, as in acr=-0.01,0.5=-0.02.")
    ] = None,
    as_json: _json.Option = False,
    tables: Annotated[str | None, typer.Option(help="Layout of the table: text, md or latex.")] = None,
    names: Annotated[str | None, typer.Option(help="What to call the runs, as in old,new.")] = None,
) -> None:
    """Hold run B against run A, input by input. Runs on other inputs, or asked something else, are refused.

    smoothcert compare runs/old runs/new --fail-below acr=-0.01,0.5=-0.02
    """
    if as_json and tables is not None:
        raise OptionError("--json and --tables must not be given together; got both")
    if tables not in (None, *LAYOUTS):
        raise unknown("--tables", str(tables), LAYOUTS)
    limits = {} if fail_below is None else parse_limits(fail_below)
    chosen = None if radii is None else parse_radii(radii)
    records = open_named([first, second], names)

    from smoothcert.report.compare import compare, too_low
    from smoothcert.report.metrics import default_radii

    wanted = {*(default_radii(records) if chosen is None else chosen), *map(float, _radii(limits))}
    found = compare(records[0], records[1], sorted(wanted))
    failed = too_low(found, limits)
    _print(found, as_json, tables or "text", failed)
    if failed:
        typer.echo(f"smoothcert: {found.after.name} is below {found.before.name}: {'; '.join(failed)}", err=True)
        raise typer.Exit(1)


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


def _radii(limits: dict[str, float]) -> list[str]:
    return [name for name in limits if name not in NAMED]


def _print(found: Compared, as_json: bool, layout: str, failed: list[str]) -> None:
    from smoothcert.report import _compare_words

    if as_json:
        _json.say({**_compare_words.as_json(found), "failed": failed})
    else:
        print_table(_compare_words.table(found), layout)
