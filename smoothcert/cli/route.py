"""`smoothcert route`: a smoothed selector between branches, each with its own network and noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import _arithmetic as a
from smoothcert.cli import _compositions as c
from smoothcert.cli import _options as o
from smoothcert.cli import _parts as p
from smoothcert.cli._drawing import Drawing, draws
from smoothcert.errors import DataError, OptionError, RunError

if TYPE_CHECKING:
    from smoothcert.data import Array
    from smoothcert.runs.run import Run

app = typer.Typer(help="Routing: a smoothed selector chooses among branches with noise levels of their own.")

CORE = "core"


@app.command("labels")
def labels(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Certify runs over the same training inputs, branch by branch."),
    ],
    out: Annotated[Path, typer.Option(help="The .npz file to write, for `smoothcert train --labels`.")],
) -> None:
    """Label training inputs by the branch that certifies the right class with the largest radius.

    smoothcert certify models/a --data cifar10 --split train --skip 10 --sigma 0.25 --n 1000 --out runs/a-train
    smoothcert certify models/b --data cifar10 --split train --skip 10 --sigma 1.0 --n 1000 --out runs/b-train
    smoothcert route labels runs/a-train runs/b-train --out labels.npz
    smoothcert train --data cifar10 --arch resnet20 --sigma 0.5 --labels labels.npz --out models/selector
    """
    if out.suffix != ".npz":
        raise OptionError(f"--out must be a file name that ends in .npz; got '{out}'")
    if len(runs) < 2:
        raise OptionError(f"RUN must be given for every branch, at least two; got {len(runs)}")
    import numpy as np

    from smoothcert.runs.store import read
    from smoothcert.training.selection import branch_labels, write_labels

    records = [read(run) for run in runs]
    indices, gains = _gains(records)
    kept, best = branch_labels(gains)
    questions = [record.settings["question"] for record in records]
    write_labels(out, indices[kept], best, models=" ".join(question["model_digest"] for question in questions),
                 data=questions[0]["data_digest"])  # fmt: skip
    counts = np.bincount(best, minlength=len(runs)).tolist()
    typer.echo(
        f"{out}: {len(kept):,} of {len(indices):,} inputs, those that some branch certifies rightly; best branch: "
        + ", ".join(f"{number} for {count:,}" for number, count in enumerate(counts))
    )
    typer.echo(f"a network that learns nothing would be right about {max(counts) / len(kept):.1%} of them")


def _gains(records: list[Run]) -> tuple[Array, Array]:
    """Indices [N], and radius·[correct] [branches, N]."""
    import numpy as np

    for record in records:
        question = record.settings["question"]
        if record.kind != "certify" or not record.rows:
            raise RunError(f"run {record.name} must be a certify run with finished inputs; it is not")
        if question["split"] != "train":
            raise RunError(f"run {record.name} must be over the training inputs (--split train); "
                           f"got split '{question['split']}'")  # fmt: skip
    if len({record.norm for record in records}) > 1:
        raise RunError("runs of a route's branches must have one norm; got several")
    first = [(row.index, row.label) for row in records[0].rows]
    for record in records[1:]:
        if [(row.index, row.label) for row in record.rows] != first:
            raise DataError(f"inputs of run {record.name} must be those of run {records[0].name}; got others")
    gains = np.array([[row.radius if row.correct else 0.0 for row in record.rows] for record in records])
    return np.array([index for index, _ in first]), gains


@app.command("certify")
@draws
def certify(
    drawing: Drawing,
    branch: Annotated[
        list[str],
        typer.Option(help="MODEL@SIGMA, or MODEL@core without noise; in the order of the selector's classes."),
    ],
    select: Annotated[str, typer.Option(help="The selector: a network with a class for every branch.")],
    sigma: Annotated[float, typer.Option(help="Standard deviation of the selector's noise, inputs in [0,1].")],
    arithmetic: a.Option = None,
    radius: Annotated[
        float | None, typer.Option(help="Certify this radius only, with as few draws as possible.")
    ] = None,
    sampling: Annotated[str | None, typer.Option(help="fixed, runner_up; with a radius: spending, anytime.")] = None,
    n: Annotated[int | None, typer.Option("--n", "--N", help="Draws of each test.  [default: 100000]")] = None,
    n0: Annotated[int, typer.Option("--n0", "--N0", help="Draws that choose what is tested.")] = 100,
    alpha: o.Alpha = 0.001,
    set_: Annotated[list[str] | None, typer.Option("--set", help="name=value, another option of the sampling.")] = None,
) -> None:
    """Certify a route: the selected branch answers, as far as selection and branch both hold.

    smoothcert route certify --branch models/a@0.25 --branch models/b@1.0 --select models/selector --sigma 0.5
    --data cifar10 --skip 20 --out runs/route
    """
    from smoothcert.noise.gaussian import Gaussian
    from smoothcert.procedures.route import RouteProcedure

    # Everything that can be refused is refused before anything is loaded or written.
    around, branches = Gaussian(sigma), [_branch(number, text) for number, text in enumerate(branch)]
    a.check(arithmetic, around)
    if len(branches) < 2:
        raise OptionError(f"--branch must be given at least twice; got {len(branches)}")
    procedure = RouteProcedure(n0, p.sampling_of(sampling, n, alpha, radius, None, set_))
    drawing.check()
    about = f"{len(branches)} branches and their selector: two tests at {alpha / 2:g} each"
    networks = [*branches, ("select", select, around)]
    c.carry_out(drawing, networks, procedure, "route", {}, around, arithmetic, about)
    o.say_summary(drawing.out)
    show(drawing.out)


def _branch(number: int, text: str) -> c.Network:
    """`MODEL@SIGMA` → role, model and noise."""
    from smoothcert.noise.gaussian import Gaussian

    model, mark, level = text.rpartition("@")
    try:
        noise = None if level == CORE else Gaussian(float(level))
    except ValueError:
        mark = ""
    if not mark or not model:
        raise OptionError(f"--branch must be MODEL@SIGMA or MODEL@{CORE}; got '{text}'")
    return f"branch {number}", model, noise


@app.command("show")
def show(run: Annotated[Path, typer.Argument(metavar="RUN", help="A run of smoothcert route certify.")]) -> None:
    """Which branch the inputs of a run were sent to, and whether selector or branch bound their radius.

    smoothcert route show runs/route
    """
    from smoothcert.report.route import taken, text

    typer.echo(text(taken(run)))
