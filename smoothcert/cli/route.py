"""`smoothcert route`: a smoothed selector between branches, each with its own network and noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli import panels
from smoothcert.cli.console import say
from smoothcert.cli.drawing import Drawing, draws
from smoothcert.errors import OptionError

if TYPE_CHECKING:
    from smoothcert.runs.start import RoleNetwork

app = typer.Typer(help="Select among branches, each with its own noise level.")

CORE = "core"


@app.command("labels")
def labels(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Read the certify run of each branch, in order.")
    ],
    out: o.Labels,
) -> None:
    """Label inputs by the branch that certifies them best.

    That is the branch that certifies the right class with the largest radius.

    smoothcert certify models/a --data cifar10 --split train --skip 10 --sigma 0.25 --n 1000 --out runs/a-train
    smoothcert certify models/b --data cifar10 --split train --skip 10 --sigma 1.0 --n 1000 --out runs/b-train
    smoothcert route labels runs/a-train runs/b-train --out labels.npz
    smoothcert train --data cifar10 --arch resnet20 --sigma 0.5 --labels labels.npz --out models/selector
    """
    o.check_file(out, ".npz", there=False)
    if len(runs) < 2:
        raise OptionError(f"RUN must be given for every branch, at least two; got {len(runs)}")
    import numpy as np

    from smoothcert.runs.components import gains
    from smoothcert.runs.store import read
    from smoothcert.training.selection import branch_labels, write_labels

    found = [read(run) for run in runs]
    indices, radii = gains(found)
    kept, best = branch_labels(radii)
    models = " ".join(run.asked.model_digest for run in found)
    write_labels(out, indices[kept], best, models=models, data=found[0].asked.data_digest)
    counts = np.bincount(best, minlength=len(runs)).tolist()
    say(
        f"{out}: {len(kept):,} of {len(indices):,} inputs, those that some branch certifies rightly; best branch: "
        + ", ".join(f"{number} for {count:,}" for number, count in enumerate(counts))
    )
    say(f"a network that learns nothing would be right about {max(counts) / len(kept):.1%} of them")


@app.command("certify")
@draws
def certify(
    drawing: Drawing,
    branch: Annotated[list[str], panels.what(help="Add a branch MODEL@SIGMA or MODEL@core, in the selector's order.")],
    select: Annotated[str, panels.what(help="Select by this network, which has one class per branch.")],
    sigma: Annotated[float, panels.noise(help="Set the selector's noise level sigma, for inputs in [0,1].")],
    arithmetic: o.Arithmetic = None,
    radius: o.Radius = None,
    sampling: Annotated[
        str | None, panels.draws(help="Draw by fixed or runner_up; with a radius by spending or anytime.")
    ] = None,
    n: Annotated[
        int | None, panels.draws("--n", "--N", help="Make this many draws for each test.", show_default="100000")
    ] = None,
    n0: o.N0 = 100,
    alpha: o.Alpha = o.ALPHA,
    set_: Annotated[
        list[str] | None, panels.draws("--set", help="Set another option of the sampling, as name=value.")
    ] = None,
) -> None:
    """Certify a route: the selected branch answers.

    Its radius reaches as far as selection and branch both hold.

    smoothcert route certify --branch a@0.25 --branch b@1.0 --select s --sigma 0.5 --data cifar10 --out runs/route
    """
    from smoothcert.noise.gaussian import Gaussian
    from smoothcert.procedures.route import RouteProcedure
    from smoothcert.runs.start import Networks, RoleNetwork

    around, branches = Gaussian(sigma), [_branch(number, text) for number, text in enumerate(branch)]
    if len(branches) < 2:
        raise OptionError(f"--branch must be given at least twice; got {len(branches)}")
    procedure = RouteProcedure(n0, o.sampling_of(sampling, n, alpha, o.parse_radii(radius, None), set_, around))
    about = f"{len(branches)} branches and their selector: two tests at {alpha / 2:g} each"
    networks = Networks("route", (*branches, RoleNetwork("select", select, around)))
    drawing.run(networks, around, procedure, arithmetic, "route", about)
    drawing.say_summary()
    show(drawing.out)


def _branch(number: int, text: str) -> RoleNetwork:
    """`MODEL@SIGMA` → role, model and noise."""
    from smoothcert.noise.gaussian import Gaussian
    from smoothcert.runs.start import RoleNetwork

    model, mark, level = text.rpartition("@")
    try:
        noise = None if level == CORE else Gaussian(float(level))
    except ValueError:
        mark = ""
    except OptionError as error:
        raise OptionError(f"--branch '{text}': {error}") from error
    if not mark or not model:
        raise OptionError(f"--branch must be MODEL@SIGMA or MODEL@{CORE}; got '{text}'")
    return RoleNetwork(f"branch {number}", model, noise)


@app.command("show")
def show(run: Annotated[Path, typer.Argument(metavar="RUN", help="Read a run of `smoothcert route certify`.")]) -> None:
    """Show which branch answered, and what bounded the radius.

    smoothcert route show runs/route
    """
    from smoothcert.cli.report import print_table
    from smoothcert.report.sections.route import routed, table
    from smoothcert.runs.recompute import composition
    from smoothcert.runs.store import read

    print_table(table(routed(composition(read(run), "route"))), "text")
