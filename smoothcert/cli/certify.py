"""`smoothcert certify`: a label and a proven radius for every input; `smoothcert predict`: the label alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

from smoothcert.cli import options as o
from smoothcert.cli import panels
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
    radii: Annotated[str | None, panels.what(help="Certify several radii r1,r2,… with the same draws.")] = None,
    patch: o.Patch = None,
    sampling: Annotated[
        str | None,
        panels.draws(
            help="Choose how many draws are made, by the name of a scheme.",
            show_default="fixed; spending for a radius; exhaustive for a noise of few cases",
        ),
    ] = None,
    n: Annotated[
        int | None, panels.draws("--n", "--N", help="Test the class with this many draws.", show_default="100000")
    ] = None,
    n0: o.N0 = 100,
    against: Annotated[str, panels.what(help="Test the guess (by n0 draws), the leader or the labels.")] = "guess",
    alpha: o.Alpha = o.ALPHA,
    sigma_per_input: Annotated[
        bool, panels.noise("--sigma-per-input", help="First search for each input's own noise level, from --sigma on.")
    ] = False,
    steps: o.SearchSteps = None,
    draws: o.SearchDraws = None,
    step_size: o.SearchStepSize = None,
    sigma_bounds: o.SigmaBounds = None,
    sigma_search: o.SigmaSearch = None,
    evaluations: o.SearchEvaluations = None,
    follow: Annotated[
        bool, panels.noise("--follow", help="Follow the class that leads at each noise level of the search.")
    ] = False,
    steps_in: Annotated[
        str | None, panels.noise(help="Let an ascent step in sigma or in lam.", show_default="lam for uniform noise")
    ] = None,
    memory: o.Memory = None,
    order: o.MemoryOrder = None,
    frozen: o.Frozen = False,
    set_: Annotated[
        list[str] | None, panels.noise("--set", help="Set another option of the noise or the sampling, as name=value.")
    ] = None,
) -> None:
    """Certify each input: its label holds within the radius found.

    Each certificate is wrong with probability at most alpha. With --memory (a file or
    postgresql://…, made if missing) the radius is the memory's promise: every later query inside it gets this label
    from this memory.

    MODEL is a checkpoint folder, hf:FOLDER, an .onnx, .pt2 or .joblib file, a zoo name, or module:callable.

    Noises: gaussian, gaussian_grid (l2); uniform, splitting (l1); discrete (l0); band, block (patches).

    Samplings: fixed, runner_up, pilot, exhaustive; for a given radius: spending, staged, anytime.

    smoothcert certify models/a --data cifar10 --skip 20 --sigma 0.25 --out runs/a
    smoothcert certify model.onnx --data mine.npz --sigma 0.5 --radius 0.5 --out runs/b
    smoothcert certify models/a --data cifar10 --sigma 0.25 --memory m.sqlite --out runs/c
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
    n: Annotated[int, panels.draws("--n", "--N", help="Make this many draws for each input.")] = 1000,
    alpha: o.Alpha = o.ALPHA,
    memory: o.AskedMemory = None,
    set_: o.NoiseSet = None,
) -> None:
    """Predict with the smoothed classifier, or abstain.

    It abstains where n draws cannot tell the two leading classes apart.

    smoothcert predict cifar10-resnet8-gaussian-0 --data cifar10 --max 100 --sigma 0.25 --n 100 --out runs/quick
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
