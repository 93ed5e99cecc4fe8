"""`certus report`: the figures of runs and logs, side by side, as a table, JSON, curves or a page."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from certus.errors import OptionError, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from certus.report._family import Family
    from certus.report.ensemble import Comparison
    from certus.report.metrics import Figures
    from certus.runs.rows import Record

LAYOUTS = ("text", "md", "latex")


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders, or Cohen-style logs.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: an object for one run, else a list.")] = False,
    radii: Annotated[str | None, typer.Option(help="Radii, as in 0,0.25,0.5; default: every 0.25.")] = None,
    tables: Annotated[str | None, typer.Option(help="Layout of the table: text, md or latex.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the curves here, as .svg and as .png.")] = None,
    names: Annotated[str | None, typer.Option(help="What to call the runs, as in a,b.")] = None,
    ensemble: Annotated[
        str | None, typer.Option(metavar="RUN", help="The run of an ensemble, where its folder does not tell.")
    ] = None,
    members: Annotated[
        str | None, typer.Option(metavar="RUN,…", help="The runs of its members; default: all others.")
    ] = None,
) -> None:
    """Certified accuracy, average certified radius and abstentions of runs, side by side.

    An ensemble among its members is compared with them. certus report runs/a runs/b --html report.html
    """
    if as_json and tables is not None:
        raise OptionError("--json and --tables must not be given together; got both")
    if tables not in (None, *LAYOUTS):
        raise unknown("--tables", str(tables), LAYOUTS)
    chosen = None if radii is None else parse_radii(radii)
    records = open_named(runs, names)

    from certus.cli._family import find
    from certus.report.metrics import default_radii, figures

    at = default_radii(records) if chosen is None else chosen
    found = [figures(record, at) for record in records]
    families, notes = find(records, runs, ensemble, members)
    kin = _compared(families, at)
    _write_files(records, at, html, plot, kin, notes)
    for note in notes:
        typer.echo(f"certus: {note}", err=True)
    _print(records, at, found, kin, as_json, tables or "text")


def parse_radii(text: str) -> list[float]:
    """`0,0.25,0.5` → the radii, ascending, each once."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = [math.nan]
    if not all(math.isfinite(value) and value >= 0.0 for value in values):
        raise OptionError(f"--radii must be numbers ≥ 0 with commas between, as in 0,0.25; got '{text}'")
    return sorted({abs(value) for value in values})  # abs: −0 is 0


def open_named(paths: Sequence[Path], names: str | None) -> list[Record]:
    """The records, under the names given, or else under as much of their paths as tells them apart."""
    from dataclasses import replace

    from certus.runs.exchange import open_record

    given = names.split(",") if names is not None else None
    if given is not None and (len(given) != len(paths) or not all(name.strip() for name in given)):
        raise OptionError(f"--names must be {len(paths)} names with commas between, one a run; got '{names}'")
    called = [name.strip() for name in given] if given else distinct(paths)
    return [replace(open_record(path), name=name) for path, name in zip(paths, called, strict=True)]


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
    from certus.report.ensemble import compare

    return compare(families, radii)


def _write_files(
    records: Sequence[Record],
    radii: Sequence[float],
    html: Path | None,
    plot: Path | None,
    kin: Sequence[Comparison],
    notes: Sequence[str],
) -> None:
    written: list[Path] = []
    if plot is not None:
        from certus.report import plots

        written += plots.save(plots.curve_figure(records), plot)
    if html is not None:
        from certus.report.html import page, save

        save(page(records, radii, ensembles=kin, notes=notes), html)
        written.append(html)
    for path in written:
        typer.echo(f"certus: wrote {path}", err=True)


def _print(
    records: Sequence[Record],
    radii: Sequence[float],
    found: Sequence[Figures],
    kin: Sequence[Comparison],
    as_json: bool,
    layout: str,
) -> None:
    from certus.report import economy, metrics, tables

    spent = economy.economies(records, radii) if as_json or layout == "text" else []
    if as_json:
        import json

        from certus.report._ensemble_json import as_json as compared

        shown = {id(part.family.ensemble): compared(part) for part in kin}
        objects = [
            {**metrics.as_json(figure), **economy.as_json(run), "ensemble": shown.get(id(record))}
            for record, figure, run in zip(records, found, spent, strict=True)
        ]
        answer = objects[0] if len(objects) == 1 else objects
        typer.echo(json.dumps(answer, indent=2, ensure_ascii=False, allow_nan=False))
    elif layout == "text":
        from rich.console import Console

        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = 100
        console.print(tables.text(found, console.width))
        if (table := economy.text(spent)) is not None:
            console.print(table)
        if kin:
            from certus.report import _ensemble_words

            console.print(_ensemble_words.text(kin, console.width))
    else:
        typer.echo({"md": tables.markdown, "latex": tables.latex}[layout](found), nl=False)
