"""`smoothcert report`: the figures of runs and logs, side by side, as a table, JSON, curves or a page."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from smoothcert.cli.console import Json, console, print_json
from smoothcert.errors import OptionError, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothcert.report._family import Family
    from smoothcert.report._layout import Table
    from smoothcert.report.ensemble import Comparison
    from smoothcert.report.metrics import Figures
    from smoothcert.runs.run import Run

LAYOUTS = ("text", "md", "latex")
LogNorm = Annotated[str | None, typer.Option(help="Norm of logs that do not state one: l0, l1, l2 or linf.")]
PAPERS = ("ens", "sween", "esb", "dds", "aces")


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders, or Cohen-style logs.")],
    as_json: Json = False,
    radii: Annotated[str | None, typer.Option(help="Radii, as in 0,0.25,0.5; default: every 0.25.")] = None,
    tables: Annotated[str | None, typer.Option(help="Layout of the table: text, md or latex.")] = None,
    transpose: Annotated[bool, typer.Option("--transpose", help="Radii as rows, runs as columns.")] = False,
    paper: Annotated[
        str | None, typer.Option(help="The table in the shape of a paper: ens, sween, esb, dds or aces.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the curves here, as .svg and as .png.")] = None,
    names: Annotated[str | None, typer.Option(help="What to call the runs, as in a,b.")] = None,
    ensemble: Annotated[
        str | None, typer.Option(metavar="RUN", help="The run of an ensemble, where its folder does not tell.")
    ] = None,
    members: Annotated[
        str | None, typer.Option(metavar="RUN,…", help="The runs of its members; default: all others.")
    ] = None,
    norm: LogNorm = None,
) -> None:
    """Certified accuracy, average certified radius and abstentions of runs, side by side.

    An ensemble among its members is compared with them.

    smoothcert report runs/a runs/b --html report.html
    """
    _check_layout(as_json, tables, transpose, paper)
    chosen = None if radii is None else parse_radii(radii)
    records = open_named(runs, names, norm)

    from smoothcert.cli._family import find
    from smoothcert.report.metrics import default_radii, figures

    at = chosen or (default_radii(records) if paper is None else _paper_radii(paper, records))
    found = [figures(record, at) for record in records]
    families, notes = find(records, runs, ensemble, members)
    kin = _compared(families, at)
    _write_files(records, at, html, plot, kin, notes)
    for note in notes:
        typer.echo(f"smoothcert: {note}", err=True)
    if paper is not None:
        from smoothcert.report.papers import table

        print_table(table(paper, records, kin, at), tables or "text", transpose)
    elif as_json:
        _print_json(records, at, found, kin)
    elif transpose or tables not in (None, "text"):
        from smoothcert.report.tables import table as side_by_side

        print_table(side_by_side(found), tables or "text", transpose)
    else:
        _print_text(records, at, found, kin)


def print_table(table: Table, layout: str, transpose: bool = False) -> None:
    """A table in one of LAYOUTS on stdout; a terminal's width, or 100 where there is none."""
    from smoothcert.report import _layout

    shown = _layout.transposed(table) if transpose else table
    if layout == "text":
        page = console(100)
        page.print(_layout.text(shown, page.width))
    else:
        typer.echo({"md": _layout.markdown, "latex": _layout.latex}[layout](shown), nl=False)


def _paper_radii(paper: str, records: Sequence[Run]) -> list[float]:
    from smoothcert.report.papers import default_radii

    return default_radii(paper, records)


def _check_layout(as_json: bool, tables: str | None, transpose: bool, paper: str | None) -> None:
    for option, given in (("--tables", tables), ("--transpose", transpose), ("--paper", paper)):
        if as_json and given:
            raise OptionError(f"--json and {option} must not be given together; got both")
    if tables not in (None, *LAYOUTS):
        raise unknown("--tables", str(tables), LAYOUTS)
    if paper not in (None, *PAPERS):
        raise unknown("--paper", str(paper), PAPERS)


def parse_radii(text: str) -> list[float]:
    """`0,0.25,0.5` → the radii, ascending, each once."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = [math.nan]
    if not all(math.isfinite(value) and value >= 0.0 for value in values):
        raise OptionError(f"--radii must be numbers ≥ 0 with commas between, as in 0,0.25; got '{text}'")
    return sorted({abs(value) for value in values})  # abs: −0 is 0


def open_named(paths: Sequence[Path], names: str | None, norm: str | None = None) -> list[Run]:
    """The records, under the names given, or else under as much of their paths as tells them apart."""
    from dataclasses import replace

    from smoothcert.contracts import Norm
    from smoothcert.runs.exchange import open_run

    if norm is not None and norm not in get_args(Norm):
        raise unknown("--norm", norm, get_args(Norm))
    of_logs = cast("Norm | None", norm)
    given = names.split(",") if names is not None else None
    if given is not None and (len(given) != len(paths) or not all(name.strip() for name in given)):
        raise OptionError(f"--names must be {len(paths)} names with commas between, one a run; got '{names}'")
    called = [name.strip() for name in given] if given else distinct(paths)
    return [replace(open_run(path, of_logs), name=name) for path, name in zip(paths, called, strict=True)]


def distinct(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that differ; the same path again gets a number."""
    whole = [path.resolve().parts for path in paths]
    deepest = max(len(parts) for parts in whole)
    ends = [["/".join(parts[-depth:]) for parts in whole] for depth in range(1, deepest + 1)]
    best = next((end for end in ends if len(set(end)) == len(set(whole))), ends[-1])
    seen: Counter[str] = Counter()
    named = []
    for name in best:
        seen[name] += 1
        named.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return named


def _compared(families: Sequence[Family], radii: Sequence[float]) -> list[Comparison]:
    if not families:
        return []
    from smoothcert.report.ensemble import compare

    return compare(families, radii)


def _write_files(
    records: Sequence[Run],
    radii: Sequence[float],
    html: Path | None,
    plot: Path | None,
    kin: Sequence[Comparison],
    notes: Sequence[str],
) -> None:
    written: list[Path] = []
    if plot is not None:
        from smoothcert.report import plots

        written += plots.save(plots.curve_figure(records), plot)
    if html is not None:
        from smoothcert.report.html import page, save

        save(page(records, radii, ensembles=kin, notes=notes), html)
        written.append(html)
    for path in written:
        typer.echo(f"smoothcert: wrote {path}", err=True)


def _print_json(
    records: Sequence[Run], radii: Sequence[float], found: Sequence[Figures], kin: Sequence[Comparison]
) -> None:
    from smoothcert.report import economy, metrics
    from smoothcert.report._ensemble_json import as_json as compared
    from smoothcert.report.sections import memory

    shown = {id(part.family.ensemble): compared(part) for part in kin}
    kept = {id(one.run): {"memory": memory.as_json(one, radii)} for one in memory.own_levels(records)}
    objects = [
        {
            **metrics.as_json(figure),
            **economy.as_json(run),
            "ensemble": shown.get(id(record)),
            **kept.get(id(record), {}),
        }
        for record, figure, run in zip(records, found, economy.economies(records, radii), strict=True)
    ]
    answer = objects[0] if len(objects) == 1 else objects
    print_json(answer)


def _print_text(
    records: Sequence[Run], radii: Sequence[float], found: Sequence[Figures], kin: Sequence[Comparison]
) -> None:
    from smoothcert.report import _ensemble_words, economy, tables
    from smoothcert.report.sections import memory

    page = console(100)
    page.print(tables.text(found, page.width))
    if (table := economy.text(economy.economies(records, radii))) is not None:
        page.print(table)
    if kin:
        page.print(_ensemble_words.text(kin, page.width))
    for one in memory.own_levels(records):
        for line in memory.words(one):
            page.print(f"{one.run.name}: {line}")
