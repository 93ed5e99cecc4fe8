"""`smoothcert certify`: a label and a proven radius for every input."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, cast

import typer

from smoothcert.cli import _arithmetic as a
from smoothcert.cli import _memory as m
from smoothcert.cli import _options as o
from smoothcert.cli import _parts as p
from smoothcert.cli._drawing import Drawing, draws

if TYPE_CHECKING:
    from smoothcert.contracts import TestClass


@draws
def command(
    drawing: Drawing,
    model: o.Model,
    sigma: o.AnySigma = None,
    noise: o.NoiseName = "gaussian",
    arithmetic: a.Option = None,
    radius: Annotated[
        float | None, typer.Option(help="Certify this radius only, with as few draws as possible.")
    ] = None,
    radii: Annotated[str | None, typer.Option(help="Or several: r1,r2,… from one stream of draws.")] = None,
    sampling: Annotated[
        str | None, typer.Option(help="fixed, runner_up, pilot, exhaustive; with a radius: spending, staged, anytime.")
    ] = None,
    n: Annotated[int | None, typer.Option("--n", "--N", help="Draws that prove the radius.  [default: 100000]")] = None,
    n0: Annotated[int, typer.Option("--n0", "--N0", help="Draws that choose the class.")] = 100,
    against: Annotated[
        str, typer.Option(help="Test the class of a guess (n0 draws), the leader, or the labels.")
    ] = "guess",
    alpha: o.Alpha = 0.001,
    sigma_per_input: Annotated[
        bool, typer.Option("--sigma-per-input", help="Choose each input's own noise level first, from --sigma on.")
    ] = False,
    steps: Annotated[int | None, typer.Option(help="Steps of that search.  [default: 900]")] = None,
    draws: Annotated[int | None, typer.Option(help="Noisy copies a step.  [default: 1]")] = None,
    step_size: Annotated[float | None, typer.Option(help="Length of a step.  [default: 0.0001]")] = None,
    sigma_bounds: Annotated[str | None, typer.Option(help="lo,hi of levels.  [default: sigma/4 to 4·sigma]")] = None,
    sigma_search: Annotated[
        str | None, typer.Option(help="ascent; grid; votes (needs no gradients, and no sure network).")
    ] = None,
    evaluations: Annotated[
        int | None, typer.Option(help="Noisy copies in all of grid and votes.  [default: 200]")
    ] = None,
    memory: m.File = None,
    order: m.Order = None,
    frozen: m.Frozen = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="name=value, another option of the noise or the sampling.")
    ] = None,
) -> None:
    """Certify every input: its label cannot change within the radius found, except with probability alpha.

    With --memory the radius is the memory's promise: every later query inside it gets this label from this memory.

    smoothcert certify models/a --data cifar10 --skip 20 --sigma 0.25 --out runs/a
    """
    from smoothcert.procedures.certify import Certify

    # Everything that can be refused is refused before anything is loaded or written.
    chosen, rest = p.noise_of(noise, sigma, set_)
    a.check(arithmetic, chosen)
    scheme = p.sampling_of(sampling, n, alpha, radius, radii, rest)
    procedure = Certify(n0, scheme, cast("TestClass", against))  # which refuses any other word
    search = {"steps": steps, "draws": draws, "step_size": step_size, "evaluations": evaluations}
    preparation = p.preparation_of(sigma_per_input, chosen, search, sigma_bounds, sigma_search)
    m.check(memory, order, frozen, chosen, sigma_per_input, against)
    drawing.check()
    promise = "nothing is drawn" if frozen else scheme.check(chosen, 0)
    inputs = drawing.load()
    chosen = a.settled(chosen, arithmetic, inputs, drawing.out).noise
    print(f"smoothcert: {p.say_noise(chosen)}: {promise}", file=sys.stderr)
    prepared = drawing.prepare(model, inputs)
    question = drawing.question(model, inputs, chosen, procedure, preparation)
    if frozen:
        remember = m.recall(memory, question, inputs, chosen, alone=True)
    else:
        remember = m.remember(memory, question, inputs, chosen, order)
    drawing.carry_out(question, inputs, prepared, "certify", remember)
    o.say_summary(drawing.out)
