"""`smoothcert history`: what each version of a model reached, from the runs below a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import _json
from smoothcert.cli.report import LAYOUTS, parse_radii, print_table
from smoothcert.errors import OptionError, unknown


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with runs somewhere below it.")],
    radii: Annotated[str | None, typer.Option(help="Radii, as in 0,0.25,0.5; default: every 0.25.")] = None,
    as_json: _json.Option = False,
    tables: Annotated[str | None, typer.Option(help="Layout of the tables: text, md or latex.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it, as SVG and PNG.")] = None,
) -> None:
    """The figures of every version of a model, in time order: runs that were asked the same stand together.

    smoothcert history runs --plot history.svg
    """
    if as_json and tables is not None:
        raise OptionError("--json and --tables must not be given together; got both")
    if tables not in (None, *LAYOUTS):
        raise unknown("--tables", str(tables), LAYOUTS)
    chosen = None if radii is None else parse_radii(radii)

    from smoothcert.report import history

    lines, notes = history.history(folder, chosen)
    for note in notes:
        typer.echo(f"smoothcert: {note}", err=True)
    if plot is not None:
        from smoothcert.report import history_plots, plots

        for path in plots.save(history_plots.figure(lines), plot):
            typer.echo(f"smoothcert: wrote {path}", err=True)
    if as_json:
        _json.say([history.as_json(line) for line in lines])
        return
    comment = "% " if tables == "latex" else ""
    for number, line in enumerate(lines):
        typer.echo(f"{'' if number == 0 else chr(10)}{comment}{line.words}" + ("\n" if tables == "md" else ""))
        print_table(history.table(line), tables or "text")
