"""`smoothcert certify`: a label and a proven radius for every input; `smoothcert predict`: the label alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from smoothcert.cli import options as o
from smoothcert.cli.drawing import Drawing, draws

if TYPE_CHECKING:
    from smoothcert.contracts import TestClass


@draws
def command(
    drawing: Drawing,
    model: o.Model,
    sigma: o.Sigma = None,
    noise: o.NoiseName = "gaussian",
    arithmetic: o.Arithmetic = None,
    radius: o.Radius = None,
    radii: Annotated[str | None, typer.Option(help="Or several: r1,r2,… from one stream of draws.")] = None,
    patch: o.Patch = None,
    sampling: Annotated[
        str | None, typer.Option(help="fixed, runner_up, pilot, exhaustive; with a radius: spending, staged, anytime.")
    ] = None,
    n: Annotated[int | None, typer.Option("--n", "--N", help="Draws that test the class.  [default: 100000]")] = None,
    n0: o.N0 = 100,
    against: Annotated[str, typer.Option(help="Class to test: guess (by n0 draws), leader or labels.")] = "guess",
    alpha: o.Alpha = o.ALPHA,
    sigma_per_input: Annotated[
        bool, typer.Option("--sigma-per-input", help="First search each input's own noise level, from --sigma on.")
    ] = False,
    steps: o.SearchSteps = None,
    draws: o.SearchDraws = None,
    step_size: o.SearchStepSize = None,
    sigma_bounds: o.SigmaBounds = None,
    sigma_search: o.SigmaSearch = None,
    evaluations: o.SearchEvaluations = None,
    follow: Annotated[bool, typer.Option("--follow", help="Search for the class that leads at each level.")] = False,
    steps_in: Annotated[
        str | None, typer.Option(help="What an ascent steps in: sigma or lam.  [default: lam for uniform noise]")
    ] = None,
    memory: o.Memory = None,
    order: o.MemoryOrder = None,
    frozen: o.Frozen = False,
    set_: Annotated[list[str] | None, typer.Option("--set", help="name=value, of the noise or the sampling.")] = None,
) -> None:
    """Certify every input: its label cannot change within the radius found, except with probability alpha.

    With --memory the radius is the memory's promise: every later query inside it gets this label from this memory.

    smoothcert certify models/a --data cifar10 --skip 20 --sigma 0.25 --out runs/a
    """
    from smoothcert.procedures.certify import Certify
    from smoothcert.runs.remember import MemoryUse

    chosen, rest = o.noise_of(noise, sigma, set_)
    chosen, asked = o.patched(chosen, patch, o.parse_radii(radius, radii))
    scheme = o.sampling_of(sampling, n, alpha, asked, rest, chosen)
    procedure = Certify(n0, scheme, cast("TestClass", against))  # which refuses any other word
    search: dict[str, Any] = {"steps": steps, "draws": draws, "step_size": step_size, "evaluations": evaluations}
    search |= {"steps_in": steps_in, "follow": follow or None}
    preparation = o.preparation_of(sigma_per_input, chosen, search, sigma_bounds, sigma_search)
    o.check_memory(memory, order, frozen, chosen, sigma_per_input, against)
    use = None if memory is None else MemoryUse(memory, None if frozen else order or "index", alone=frozen)
    promise = "nothing is drawn" if frozen else scheme.check(chosen, 0) if chosen.complete else ""
    drawing.run(model, chosen, procedure, arithmetic, "certify", promise, preparation, use)
    drawing.say_summary()


@draws
def predict(
    drawing: Drawing,
    model: o.Model,
    sigma: o.Sigma = None,
    noise: o.NoiseName = "gaussian",
    arithmetic: o.Arithmetic = None,
    n: Annotated[int, typer.Option("--n", "--N", help="Draws for each input.")] = 1000,
    alpha: o.Alpha = o.ALPHA,
    memory: o.AskedMemory = None,
    set_: o.NoiseSet = None,
) -> None:
    """Predict with the smoothed classifier; abstain where n draws cannot tell the two leading classes apart.

    smoothcert predict models/a --data cifar10 --skip 20 --sigma 0.25 --out runs/a-predict
    """
    from smoothcert.procedures.predict import Predict
    from smoothcert.runs.remember import MemoryUse

    chosen = o.only_noise(noise, sigma, set_, "predict")
    procedure = Predict(n, alpha)
    o.check_memory(memory, None, memory is not None, chosen, False, "guess")
    use = None if memory is None else MemoryUse(memory)
    drawing.run(model, chosen, procedure, arithmetic, "predict", memory=use)
    drawing.say_summary()
