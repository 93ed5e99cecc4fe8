"""`smoothcert route`: a smoothed selector between branches, each with its own network and noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.console import say
from smoothcert.cli.drawing import Drawing, draws
from smoothcert.errors import OptionError

if TYPE_CHECKING:
    from smoothcert.runs.start import RoleNetwork

app = typer.Typer(help="Routing: a smoothed selector chooses among branches with noise levels of their own.")

CORE = "core"


@app.command("labels")
def labels(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Certify run of each branch.")],
    out: o.Labels,
) -> None:
    """Label training inputs by the branch that certifies the right class with the largest radius.

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
    branch: Annotated[list[str], typer.Option(help="MODEL@SIGMA, or MODEL@core; in the selector's order.")],
    select: Annotated[str, typer.Option(help="The selector: a network with a class for every branch.")],
    sigma: Annotated[float, typer.Option(help="Standard deviation of the selector's noise, inputs in [0,1].")],
    arithmetic: o.Arithmetic = None,
    radius: o.Radius = None,
    sampling: Annotated[str | None, typer.Option(help="fixed, runner_up; with a radius: spending, anytime.")] = None,
    n: Annotated[int | None, typer.Option("--n", "--N", help="Draws of each test.  [default: 100000]")] = None,
    n0: o.N0 = 100,
    alpha: o.Alpha = o.ALPHA,
    set_: Annotated[list[str] | None, typer.Option("--set", help="name=value, another option of the sampling.")] = None,
) -> None:
    """Certify a route: the selected branch answers, as far as selection and branch both hold.

    smoothcert route certify --branch models/a@0.25 --branch models/b@1.0 --select models/selector --sigma 0.5
    --data cifar10 --skip 20 --out runs/route
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
def show(run: Annotated[Path, typer.Argument(metavar="RUN", help="A run of smoothcert route certify.")]) -> None:
    """Which branch the inputs of a run were sent to, and whether selector or branch bound their radius.

    smoothcert route show runs/route
    """
    from smoothcert.cli.report import print_table
    from smoothcert.report.sections.route import routed, table
    from smoothcert.runs.recompute import composition
    from smoothcert.runs.store import read

    print_table(table(routed(composition(read(run), "route"))), "text")
