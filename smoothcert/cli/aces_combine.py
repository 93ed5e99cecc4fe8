"""`smoothcert aces combine`: any threshold, core and pair of component runs, from what was stored: no forward pass."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import _json
from smoothcert.cli.report import LAYOUTS, parse_radii
from smoothcert.errors import OptionError, unknown

if TYPE_CHECKING:
    from smoothcert.runs.components import Parts, Single


def combine(
    certify: Annotated[Path, typer.Option(help="Run of the certified network, or the prefix of published logs.")],
    core: Annotated[
        Path | None, typer.Option(help="Run of the core, or a table of idx and predict; default: that of --certify.")
    ] = None,
    select: Annotated[
        str | None, typer.Option(help="Run that selects, or entropy; default: as --certify was made.")
    ] = None,
    theta: Annotated[str | None, typer.Option(help="Thresholds, as in 0.1,0.3, or all.  [default: tenths]")] = None,
    theta_for: Annotated[
        str | None, typer.Option(help="Find it on hold-out inputs: natural-accuracy=0.9 or acr=0.4.")
    ] = None,
    holdout: Annotated[Path | None, typer.Option(help="Run of the certified network on other inputs.")] = None,
    holdout_core: Annotated[Path | None, typer.Option(help="The core there, as --core.")] = None,
    holdout_select: Annotated[str | None, typer.Option(help="What selects there, as --select.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Another alpha than that of --certify.")] = None,
    radii: Annotated[str | None, typer.Option(help="Radii, as in 0,0.25,0.5; default: every 0.25.")] = None,
    as_json: _json.Option = False,
    tables: Annotated[str, typer.Option(help="Layout of the table: text, md or latex.")] = "text",
    plots: Annotated[Path | None, typer.Option(help="Folder to write pictures into, as SVG and PNG.")] = None,
    baseline: Annotated[
        list[Path] | None, typer.Option(help="Run of a single smoothed network, for the pictures; may be repeated.")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="Write the rows at the one theta, as a Cohen-style log.")] = None,
) -> None:
    """Combine stored component runs into a composition at any threshold.

    smoothcert aces combine --certify runs/aces --theta all --plots pictures
    smoothcert aces combine --certify runs/a --core runs/accurate --select runs/a-select --theta 0.5
    """
    if tables not in LAYOUTS:
        raise unknown("--tables", tables, LAYOUTS)
    wanted = None if radii is None else parse_radii(radii)
    if alpha is not None:
        from smoothcert.bounds import check_alpha

        check_alpha(alpha, "a combination")
    from smoothcert.report.aces import lines
    from smoothcert.report.aces_frontier import point, verdict
    from smoothcert.runs.components import parts, single
    from smoothcert.runs.exchange import open_run

    found = parts(certify, core, select, alpha)
    thetas = _thetas(theta, found)
    if theta_for is not None:
        if theta is not None:
            raise OptionError("--theta and --theta-for must not be given together; got both")
        other = None if holdout is None else parts(holdout, holdout_core, holdout_select, alpha)
        thetas = [_chosen(theta_for, found, other)]
    _print(found, thetas, wanted, as_json, tables)
    if log is not None:
        _write_log(found, thetas, log)
    singles = [single(open_run(place)) for place in baseline or []]
    if singles and tables == "text" and not as_json:
        every = lines(found.at(found.thetas), [0.0])
        typer.echo(f"\n{verdict(every, [point(one) for one in singles])}")
    if plots is not None:
        _draw(found, plots, wanted, singles)


def _thetas(text: str | None, found: Parts) -> list[float]:
    """The thresholds that are asked for."""
    from smoothcert.report.aces import TENTHS

    if text == "all":
        return [float(theta) for theta in found.thetas]
    if text is None:
        known = [theta for theta in TENTHS if any(abs(found.thetas - theta) < 1e-9)]
        return known or [float(theta) for theta in found.thetas]
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise OptionError(f"--theta must be all, or numbers with commas between; got '{text}'") from error


def _chosen(demand: str, found: Parts, other: Parts | None) -> float:
    """The threshold for a demand, found on hold-out inputs only; says so."""
    from smoothcert.report.aces import theta_for
    from smoothcert.report.tables import decimal, percent

    if other is None:
        raise OptionError("--theta-for needs --holdout, a run on inputs that are not those of --certify")
    if len(shared := found.shared(other)):
        raise OptionError(
            f"inputs of --holdout must not be those of --certify; got {len(shared)} of them, first index {shared[0]}"
        )
    if found.settings.get("networks") != other.settings.get("networks"):
        raise OptionError("networks and noise of --holdout must be those of --certify; got others")
    theta, line = theta_for(other, demand)
    typer.echo(
        f"theta {theta:g} was found for {demand} on {line.natural.of} hold-out inputs ({other.name}), where it has "
        f"natural accuracy {percent(line.natural)} % and ACR {decimal(line.acr)}; on the inputs of {found.name}:",
        err=True,
    )
    return theta


def _print(found: Parts, thetas: list[float], radii: list[float] | None, as_json: bool, layout: str) -> None:
    from smoothcert.report import aces

    table = aces.lines(found.at(thetas), radii)
    if as_json:
        _json.say(aces.as_json(table))
        return
    typer.echo({"text": aces.text, "md": aces.markdown, "latex": aces.latex}[layout](table))
    if layout == "text" and (note := aces.note(found)):
        typer.echo(f"\n{note}")


def _write_log(found: Parts, thetas: list[float], path: Path) -> None:
    from smoothcert.runs.exchange import write_cohen
    from smoothcert.runs.run import Claim, Row, Run

    if len(thetas) != 1:
        raise OptionError(f"--log needs one theta; got {len(thetas)}")
    answers = found.at(thetas).answers
    columns = zip(found.indices, found.labels, answers.label[0], answers.radius[0], strict=True)
    rows = tuple(Row(int(index), int(label), int(said), float(radius)) for index, label, said, radius in columns)
    claim = Claim(found.norm, "smoothing", "guess", found.settings.get("alpha"))
    write_cohen(Run(name=path.name, kind="certify", rows=rows, norm=found.norm, claim=claim), path, full=True)
    typer.echo(f"smoothcert: wrote {path}", err=True)


def _draw(found: Parts, folder: Path, radii: list[float] | None, singles: list[Single]) -> None:
    from smoothcert.report.aces import default_radii
    from smoothcert.report.aces_plots import save_all

    known = default_radii(found.at(found.thetas)) if radii is None else radii
    radius = known[len(known) // 2]
    for path in save_all(folder, found, radius, singles):
        typer.echo(f"smoothcert: wrote {path}", err=True)
