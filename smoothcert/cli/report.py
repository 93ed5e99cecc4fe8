"""`smoothcert report`: the figures of runs and logs, side by side, as a table, JSON, curves or a page."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from smoothcert.cli import options as o
from smoothcert.cli import panels
from smoothcert.cli.console import Json, console, print_json, put, wrote
from smoothcert.errors import OptionError, unknown
from smoothcert.progress import remark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothcert.contracts import Norm
    from smoothcert.report.families import Found
    from smoothcert.report.indices import GammaIndex
    from smoothcert.report.section import Section, Table
    from smoothcert.runs.run import Run

LAYOUTS = ("text", "md", "latex")
PAPERS = ("ens", "sween", "esb", "dds", "aces")
NORMS = ("l0", "l1", "l2", "linf", "patch")
LogNorm = Annotated[str | None, panels.data(help="Read logs without a norm as l0, l1, l2, linf or patch.")]


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Report these run folders or Cohen-style logs.")],
    as_json: Json = False,
    radii: Annotated[
        str | None, panels.what(help="Show these radii, such as 0,0.25,0.5.", show_default="as far as the runs reach")
    ] = None,
    tables: Annotated[str | None, panels.means(help="Lay out the table as text, md or latex.")] = None,
    transpose: Annotated[bool, panels.means("--transpose", help="Show radii as rows and runs as columns.")] = False,
    paper: Annotated[
        str | None, panels.what(help="Shape the table as in a paper: ens, sween, esb, dds or aces.")
    ] = None,
    index: Annotated[
        str | None, panels.what(help="Show only γ-indices: identity, indicator:R, power:P or volume.")
    ] = None,
    html: Annotated[Path | None, panels.means(help="Write a self-contained page to this file.")] = None,
    plot: Annotated[Path | None, panels.means(help="Write the curves to this file, as .svg and .png.")] = None,
    names: Annotated[str | None, panels.means(help="Call the runs by these names, such as a,b.")] = None,
    norm: LogNorm = None,
    ensemble: Annotated[
        str | None, panels.data(metavar="RUN", help="Take this run as the ensemble's, if its folder does not say so.")
    ] = None,
    members: Annotated[
        str | None, panels.data(metavar="RUN,…", help="Take these runs as its members'.", show_default="all other runs")
    ] = None,
) -> None:
    """Report certified accuracy and radii of runs, side by side.

    An ensemble among its members is compared with them.

    smoothcert report runs/a --radii 0,0.25,0.5,0.75
    smoothcert report runs/a runs/b --html report.html
    """
    _check_layout(as_json, tables, transpose, paper)
    o.check_place("--html", html)
    o.check_place("--plot", plot)
    chosen = None if radii is None else parse_radii(radii)
    gammas = _gammas(index, paper, html, plot)
    opened = open_named(runs, names, norm)
    if gammas:
        _print_indices(opened, gammas, as_json, tables or "text", transpose)
        return

    from smoothcert.report import report
    from smoothcert.report.metrics import default_radii

    at = chosen or (default_radii(opened) if paper is None else _paper_radii(paper, opened))
    found = _families(opened, runs, ensemble, members)
    sections = report(opened, at, found)
    _write_files(opened, at, html, plot, sections)
    for note in found.notes:
        remark(note)
    if paper is not None:
        print_table(_paper_table(paper, opened, found, at), tables or "text", transpose)
    elif as_json:
        _print_json(sections, len(opened))
    elif transpose or tables not in (None, "text"):
        print_table(sections[0].tables[0], tables or "text", transpose)
    else:
        _print_text(sections)


def _gammas(index: str | None, paper: str | None, html: Path | None, plot: Path | None) -> list[GammaIndex]:
    from smoothcert.report.indices import parse

    if index is None:
        return []
    for option, given in (("--paper", paper), ("--html", html), ("--plot", plot)):
        if given is not None:
            raise OptionError(f"give --index or {option}, not both")
    return parse(index)


def _print_indices(
    runs: Sequence[Run], gammas: Sequence[GammaIndex], as_json: bool, layout: str, transpose: bool
) -> None:
    from smoothcert.report.indices import table, values

    if as_json:
        print_json(values(runs, gammas))
    else:
        print_table(table(runs, gammas), layout, transpose)


def print_table(table: Table, layout: str, transpose: bool = False) -> None:
    """A table in one of LAYOUTS on stdout; a terminal's width, or 100 where there is none."""
    from smoothcert.report import render, section

    shown = section.transposed(table) if transpose else table
    if layout == "text":
        page = console(100)
        page.print(render.text(shown, page.width))
    else:
        put({"md": render.markdown, "latex": render.latex}[layout](shown), end="")


def _families(runs: Sequence[Run], paths: Sequence[Path], ensemble: str | None, members: str | None) -> Found:
    """As the options say; without them, whatever the ensembles' folders tell."""
    from smoothcert.report import families

    if ensemble is None and members is None:
        return families.find(runs)

    def run(word: str, option: str) -> Run:
        for one, path in zip(runs, paths, strict=True):
            if word.strip() == one.name or Path(word.strip()).resolve() == path.resolve():
                return one
        names = ", ".join(one.name for one in runs)
        raise OptionError(f"{option} must name runs of this report ({names}); got '{word.strip()}'")

    listed = None if members is None else [run(word, "--members") for word in members.split(",")]
    return families.named(runs, None if ensemble is None else run(ensemble, "--ensemble"), listed)


def _paper_table(paper: str, runs: Sequence[Run], found: Found, radii: Sequence[float]) -> Table:
    from smoothcert.report.ensembles import compare
    from smoothcert.report.papers import table

    return table(paper, runs, compare(found.families, radii), radii)


def _paper_radii(paper: str, runs: Sequence[Run]) -> list[float]:
    from smoothcert.report.papers import default_radii

    return default_radii(paper, runs)


def _check_layout(as_json: bool, tables: str | None, transpose: bool, paper: str | None) -> None:
    for option, given in (("--tables", tables), ("--transpose", transpose), ("--paper", paper)):
        if as_json and given:
            raise OptionError(f"give --json or {option}, not both")
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
    """The runs, under the names given, or else under as much of their paths as tells them apart."""
    from dataclasses import replace

    from smoothcert.foreign import one_line
    from smoothcert.runs.exchange import open_run

    if norm not in (None, *NORMS):
        raise unknown("--norm", str(norm), NORMS)
    given = names.split(",") if names is not None else None
    if given is not None and (len(given) != len(paths) or not all(name.strip() for name in given)):
        raise OptionError(f"--names must be {len(paths)} names with commas between, one a run; got '{names}'")
    called = [name.strip() for name in given] if given else distinct(paths)
    opened = [open_run(path, cast("Norm | None", norm)) for path in paths]
    return [replace(run, name=one_line(name)) for run, name in zip(opened, called, strict=True)]


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


def _write_files(
    runs: Sequence[Run], radii: Sequence[float], html: Path | None, plot: Path | None, sections: Sequence[Section]
) -> None:
    written: list[Path] = []
    if plot is not None:
        from smoothcert.report import plots

        written += plots.save(plots.curve_figure(runs), plot)
    if html is not None:
        from smoothcert.report.html import page, save

        save(page(runs, radii, sections=sections), html)
        written.append(html)
    wrote(*written)


def _print_json(sections: Sequence[Section], runs: int) -> None:
    from smoothcert.report import render

    objects = [render.json(sections, number) for number in range(runs)]
    print_json(objects[0] if runs == 1 else objects)


def _print_text(sections: Sequence[Section]) -> None:
    from smoothcert.report import render

    page = console(100)
    for section in sections:
        if not section.empty:
            page.print(render.text(section, page.width))
