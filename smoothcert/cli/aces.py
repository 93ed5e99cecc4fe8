"""`smoothcert aces`: a certified network and an accurate one, with a selection between them.

`certify` and `select` make the draws that every threshold is computed from; `combine` makes no forward pass.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli import panels
from smoothcert.cli.console import Json, print_json, say, wrote
from smoothcert.cli.drawing import Drawing, draws
from smoothcert.cli.report import LAYOUTS, parse_radii, print_table
from smoothcert.errors import OptionError, unknown
from smoothcert.progress import remark

if TYPE_CHECKING:
    from smoothcert.runs.components import Components

app = typer.Typer(help="Select between a certified and an accurate network.")

Draws = Annotated[int, panels.draws("--n", "--N", help="Make this many draws for each test.")]
Look = Annotated[int, panels.draws(help="Predict, for natural accuracy, by this many first draws of the test.")]
Theta = Annotated[float, panels.what(help="Store rows at this threshold; `aces combine` gives any other.")]
OtherCore = Annotated[Path | None, panels.data(help="Read the core's run on those inputs, as for --core.")]


@app.command("certify")
@draws
def certify(
    drawing: Drawing,
    certify: Annotated[str, panels.what(help="Certify with this network, named as MODEL of certify.")],
    core: Annotated[str, panels.what(help="Call this accurate network once per input, without noise.")],
    select: Annotated[
        str | None, panels.what(help="Select with this network.", show_default="the entropy of the certified one")
    ] = None,
    sigma: o.Sigma = None,
    noise: o.NoiseName = "gaussian",
    arithmetic: o.Arithmetic = None,
    theta: Theta = 0.3,
    n: Draws = 100_000,
    n0: o.N0 = 100,
    look: Look = 10_000,
    alpha: o.Alpha = o.ALPHA,
    set_: o.NoiseSet = None,
) -> None:
    """Certify a composition of two networks and a selection.

    The certified network answers where it is selected, else the core. One pass serves all thresholds.

    smoothcert aces certify --certify models/a --core models/b --data cifar10 --skip 20 --sigma 0.25 --out runs/aces
    """
    from smoothcert.procedures.aces import AcesProcedure
    from smoothcert.report.aces import TENTHS, by_threshold, notes, table
    from smoothcert.runs.components import components
    from smoothcert.runs.start import Networks, RoleNetwork

    around = o.only_noise(noise, sigma, set_, "aces")
    selecting = () if select is None else (RoleNetwork("select", select, around),)
    members = (RoleNetwork("certify", certify, around), RoleNetwork("core", core, None), *selecting)
    networks = Networks("aces", members, {"theta": theta})
    procedure, about = AcesProcedure(theta, n0, n, alpha, look), f"two tests at {alpha / 2:g} each"
    drawing.run(networks, around, procedure, arithmetic, "aces", about)
    found = components(drawing.out, None)
    print_table(table(by_threshold(found.at(TENTHS)), notes(found)), "text")
    next_ = f"smoothcert aces combine --certify {drawing.out} --plots pictures"
    say(f"kept in {drawing.out}, rows at theta {theta:g}; next: {next_}")


@app.command("select")
@draws
def select(
    drawing: Drawing,
    model: o.Model,
    sigma: o.Sigma = None,
    noise: o.NoiseName = "gaussian",
    arithmetic: o.Arithmetic = None,
    theta: Theta = 0.5,
    n: Draws = 100_000,
    n0: o.N0 = 100,
    look: Look = 10_000,
    alpha: o.Alpha = o.ALPHA,
    set_: o.NoiseSet = None,
) -> None:
    """Draw a selection network alone, to combine it later.

    `smoothcert aces combine` takes it with any certified network and core.

    smoothcert aces select models/a-select --data cifar10 --skip 20 --sigma 0.25 --out runs/a-select
    """
    from smoothcert.procedures.select import Select
    from smoothcert.runs.store import read

    around = o.only_noise(noise, sigma, set_, "select")
    procedure = Select(theta, n0, n, alpha, look)
    drawing.run(model, around, procedure, arithmetic, "select", f"a test at {alpha / 2:g}")
    rows = read(drawing.out).rows
    chosen, left = (sum(row.predicted == label for row in rows) for label in (1, 0))
    say(
        f"at theta {theta:g}, of {len(rows)} inputs: {chosen} selected, {left} left to the core, "
        f"{len(rows) - chosen - left} uncertain"
    )
    say(f"kept in {drawing.out}; next: smoothcert aces combine --certify RUN --core RUN --select {drawing.out}")


@app.command("combine")
def combine(
    certify: Annotated[Path, panels.what(help="Read the certified network's run, or logs with this prefix.")],
    core: Annotated[Path | None, panels.what(help="Read the core's run, or a table of idx and predict.")] = None,
    select: Annotated[
        str | None, panels.what(help="Select by this run, or by entropy.", show_default="as in --certify")
    ] = None,
    theta: Annotated[
        str | None, panels.what(help="Combine at these thresholds, such as 0.1,0.3, or at all.", show_default="tenths")
    ] = None,
    theta_for: Annotated[
        str | None, panels.what(help="Choose theta on hold-out inputs: natural-accuracy=0.9 or acr=0.4.")
    ] = None,
    holdout: Annotated[Path | None, panels.data(help="Read the certified network's run on hold-out inputs.")] = None,
    holdout_core: OtherCore = None,
    holdout_select: Annotated[
        str | None, panels.data(help="Select on those inputs by this run, as for --select.")
    ] = None,
    alpha: Annotated[float | None, panels.draws(help="Use this significance instead of that of --certify.")] = None,
    radii: o.ReportRadii = None,
    as_json: Json = False,
    tables: Annotated[str, panels.means(help="Lay out the table as text, md or latex.")] = "text",
    plots: Annotated[Path | None, panels.means(help="Write pictures to this folder, as .svg and .png.")] = None,
    baseline: Annotated[list[Path] | None, panels.data(help="Compare with this run of one smoothed network.")] = None,
    log: Annotated[Path | None, panels.means(help="Write the rows at one theta to this Cohen-style log.")] = None,
) -> None:
    """Combine stored runs into a composition at any threshold.

    smoothcert aces combine --certify runs/aces --theta all --plots pictures
    smoothcert aces combine --certify runs/a --core runs/accurate --select runs/a-select --theta 0.5
    """
    if tables not in LAYOUTS:
        raise unknown("--tables", tables, LAYOUTS)
    o.check_place("--log", log)
    wanted = None if radii is None else parse_radii(radii)
    if alpha is not None:
        from smoothcert.bounds import check_alpha

        check_alpha(alpha, "a combination")
    from smoothcert.report import aces
    from smoothcert.report.sections.aces import save_all
    from smoothcert.runs.components import as_run, components, single
    from smoothcert.runs.exchange import open_run, write_cohen

    _hint_at_prefix(certify)
    found = components(certify, core, select, alpha)
    thetas = _thetas(theta, found)
    if theta_for is not None:
        if theta is not None:
            raise OptionError("give --theta or --theta-for, not both")
        if holdout is None:
            raise OptionError("--theta-for needs --holdout, a run on inputs that are not those of --certify")
        thetas = [_chosen(theta_for, found, components(holdout, holdout_core, holdout_select, alpha))]
    if log is not None and len(thetas) != 1:
        raise OptionError(f"--log needs one theta; got {len(thetas)}")
    _print(found, thetas, wanted, as_json, tables)
    if log is not None:
        write_cohen(as_run(found, thetas[0], log.name), log, full=True)
        wrote(log)
    singles = [single(open_run(place)) for place in baseline or []]
    if singles and tables == "text" and not as_json:
        every = aces.by_threshold(found.at(found.thetas), [0.0])
        say(f"\n{aces.verdict(every, [aces.point(one) for one in singles])}")
    if plots is not None:
        known = wanted or aces.default_radii(found.at(found.thetas))
        wrote(*save_all(plots, found, known[len(known) // 2], singles))


def _hint_at_prefix(certify: Path) -> None:
    """Of published logs the common beginning of their names is meant; say so to who names one of them, or a folder."""
    from smoothcert.errors import RunError
    from smoothcert.foreign import is_folder, is_regular
    from smoothcert.runs.component_logs import CERTIFICATION, CORE, ENTROPIES, SELECTION, is_prefix

    if is_prefix(certify):
        return
    logs = [certify] if is_regular(certify) else sorted(certify.glob(f"*{CERTIFICATION}")) if is_folder(certify) else []
    endings = f"({CERTIFICATION}|{CORE}|{ENTROPIES}|{SELECTION}.*)"
    if logs and (named := re.fullmatch(rf"(.+?){endings}", logs[0].name)):
        meant = logs[0].parent / named[1]
        raise RunError(f"--certify must be a run, or how the names of its logs begin: {meant}; got {certify}")


def _thetas(text: str | None, found: Components) -> list[float]:
    """The thresholds that are asked for."""
    from smoothcert.report.aces import TENTHS

    if text not in (None, "all"):
        return o.numbers(str(text), float, "--theta must be all, or numbers with commas between")
    tenths = [theta for theta in TENTHS if any(abs(found.thetas - theta) < 1e-9)] if text is None else []
    return tenths or [float(theta) for theta in found.thetas]


def _chosen(demand: str, found: Components, other: Components) -> float:
    """The threshold for a demand, found on hold-out inputs only; says so."""
    from smoothcert.report.aces import theta_for
    from smoothcert.report.tables import decimal, percent

    found.refuse_holdout(other)
    theta, line = theta_for(other, demand)
    remark(
        f"theta {theta:g} was found for {demand} on {line.natural.of} hold-out inputs ({other.name}), where it has "
        f"natural accuracy {percent(line.natural)} % and ACR {decimal(line.acr)}; on the inputs of {found.name}:"
    )
    return theta


def _print(found: Components, thetas: list[float], radii: list[float] | None, as_json: bool, layout: str) -> None:
    from smoothcert.report import aces

    shown = aces.by_threshold(found.at(thetas), radii)
    if as_json:
        print_json(aces.as_json(shown))
    else:
        print_table(aces.table(shown, aces.notes(found)), layout)


@app.command("labels")
def labels(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Read a predict or certify run over the training split.")],
    out: o.Labels,
    eta: Annotated[float, typer.Option(help="Label 1 where the share of right answers exceeds this.")] = 0.5,
) -> None:
    """Label inputs by whether a network is right under noise.

    smoothcert predict models/a --data cifar10 --split train --sigma 0.25 --n 1000 --out runs/a-train
    smoothcert aces labels runs/a-train --eta 0.5 --out labels.npz
    smoothcert train --data cifar10 --arch resnet20 --sigma 0.25 --labels labels.npz --out models/a-select
    """
    o.check_file(out, ".npz", there=False)
    from smoothcert.runs.components import right_votes
    from smoothcert.runs.store import read
    from smoothcert.training.selection import selection_labels, write_labels

    record = read(run)
    spec, (indices, right, draws) = record.asked, right_votes(record)
    found = selection_labels(right, draws, eta)
    write_labels(out, indices, found, eta=eta, draws=draws, model=spec.model_digest, data=spec.data_digest)
    rows, chosen = len(found), int(found.sum())
    unfinished = f" of {record.inputs:,}: the run is unfinished" if record.inputs and rows < record.inputs else ""
    say(f"{out}: {rows:,} inputs{unfinished}; label 1 (more than {eta:g} of {draws:,} draws right): {chosen:,}")
    say(f"a network that learns nothing would be right about {max(chosen, rows - chosen) / rows:.1%} of them")
