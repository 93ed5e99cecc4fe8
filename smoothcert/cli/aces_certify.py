"""`smoothcert aces certify` and `smoothcert aces select`: the draws that every threshold is computed from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import _arithmetic as a
from smoothcert.cli import _compositions as c
from smoothcert.cli import _options as o
from smoothcert.cli import _parts as p
from smoothcert.cli._drawing import Drawing, draws

Draws = Annotated[int, typer.Option("--n", "--N", help="Draws that test.")]
Choosing = Annotated[int, typer.Option("--n0", "--N0", help="Draws that choose what is tested.")]
Look = Annotated[int, typer.Option(help="The first draws of the test, which also predict: natural accuracy.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="name=value, another option of the noise.")]


@draws
def certify(
    drawing: Drawing,
    certify: Annotated[str, typer.Option(help="The certified network: a model as everywhere.")],
    core: Annotated[str, typer.Option(help="The accurate one; it is asked once an input, without noise.")],
    select: Annotated[
        str | None, typer.Option(help="A selection network; without it the certified one's entropy selects.")
    ] = None,
    sigma: o.AnySigma = None,
    noise: o.NoiseName = "gaussian",
    arithmetic: a.Option = None,
    theta: Annotated[float, typer.Option(help="Threshold of the rows kept; all others are had by `combine`.")] = 0.3,
    n: Draws = 100_000,
    n0: Choosing = 100,
    look: Look = 10_000,
    alpha: o.Alpha = 0.001,
    set_: Settings = None,
) -> None:
    """Certify a composition: the certified network where it is selected, else the core. All thresholds from one pass.

    smoothcert aces certify --certify models/a --core models/b --data cifar10 --skip 20 --sigma 0.25 --out runs/aces
    """
    from smoothcert.procedures.aces import AcesProcedure

    # Everything that can be refused is refused before anything is loaded or written.
    around = p.only_noise(noise, sigma, set_, "aces")
    a.check(arithmetic, around)
    procedure = AcesProcedure(theta, n0, n, alpha, look)
    drawing.check()
    networks: list[c.Network] = [("certify", certify, around), ("core", core, None)]
    if select is not None:
        networks.append(("select", select, around))
    about = f"two tests at {alpha / 2:g} each"
    c.carry_out(drawing, networks, procedure, "aces", {"theta": theta}, around, arithmetic, about)
    _say(drawing.out, theta)


@draws
def select(
    drawing: Drawing,
    model: o.Model,
    sigma: o.AnySigma = None,
    noise: o.NoiseName = "gaussian",
    arithmetic: a.Option = None,
    theta: Annotated[float, typer.Option(help="Threshold of the rows kept; all others are had by `combine`.")] = 0.5,
    n: Draws = 100_000,
    n0: Choosing = 100,
    look: Look = 10_000,
    alpha: o.Alpha = 0.001,
    set_: Settings = None,
) -> None:
    """Draw a selection network alone, to be combined with any certified network and core afterwards.

    smoothcert aces select models/a-select --data cifar10 --skip 20 --sigma 0.25 --out runs/a-select
    """
    from smoothcert.procedures.select import Select

    around = p.only_noise(noise, sigma, set_, "select")
    a.check(arithmetic, around)
    procedure = Select(theta, n0, n, alpha, look)
    drawing.check()
    inputs = drawing.load()
    around = a.settled(around, arithmetic, inputs, drawing.out).noise
    print(f"smoothcert: {p.say_noise(around)}: a test at {alpha / 2:g}", file=sys.stderr)
    prepared = drawing.prepare(model, inputs)
    drawing.carry_out(drawing.question(model, inputs, around, procedure), inputs, prepared, "select")
    _say_selected(drawing.out, theta)


def _say(out: Path, theta: float) -> None:
    """The table over thresholds of a finished run, and where to look next."""
    from smoothcert.report.aces import TENTHS, lines, note, text
    from smoothcert.runs.components import parts

    found = parts(out, None)
    typer.echo(text(lines(found.at(TENTHS))))
    typer.echo(note(found))
    typer.echo(
        f"kept in {out}, rows at theta {theta:g}; next: smoothcert aces combine --certify {out} --plots pictures"
    )


def _say_selected(out: Path, theta: float) -> None:
    from smoothcert.runs.store import read

    rows = read(out).rows
    chosen, left = (sum(row.predicted == label for row in rows) for label in (1, 0))
    typer.echo(
        f"at theta {theta:g}, of {len(rows)} inputs: {chosen} selected, {left} left to the core, "
        f"{len(rows) - chosen - left} uncertain"
    )
    typer.echo(f"kept in {out}; next: smoothcert aces combine --certify RUN --core RUN --select {out}")
