"""`smoothcert aces`: a certified network and an accurate one, with a selection between them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import aces_certify, aces_combine
from smoothcert.errors import OptionError, RunError

if TYPE_CHECKING:
    from smoothcert.data import Array
    from smoothcert.runs.run import Run

app = typer.Typer(help="Compositional architectures: a certified network, an accurate one, a selection between them.")

app.command("certify")(aces_certify.certify)
app.command("select")(aces_certify.select)
app.command("combine")(aces_combine.combine)

_EVIDENCE = ("predict", "test")  # purposes of draws that did not choose what they are counted for


@app.command("labels")
def labels(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A predict or certify run over the training split.")],
    out: Annotated[Path, typer.Option(help="The .npz file to write, for `smoothcert train --labels`.")],
    eta: Annotated[float, typer.Option(help="Label 1 where the share of right answers is above this.")] = 0.5,
) -> None:
    """Label training inputs by whether the network of a run is right about them under noise.

    smoothcert predict models/a --data cifar10 --split train --sigma 0.25 --n 1000 --out runs/a-train
    smoothcert aces labels runs/a-train --eta 0.5 --out labels.npz
    smoothcert train --data cifar10 --arch resnet20 --sigma 0.25 --labels labels.npz --out models/a-select
    """
    if out.suffix != ".npz":
        raise OptionError(f"--out must be a file name that ends in .npz; got '{out}'")
    from smoothcert.runs.store import read

    record = read(run)
    indices, right, draws = _votes(record, run)

    from smoothcert.training.selection import selection_labels, write_labels

    found = selection_labels(right, draws, eta)
    question = record.settings["question"]
    write_labels(
        out, indices, found, eta=eta, draws=draws, model=question["model_digest"], data=question["data_digest"]
    )
    rows, chosen = len(found), int(found.sum())
    unfinished = f" of {record.inputs:,}: the run is unfinished" if record.inputs and rows < record.inputs else ""
    typer.echo(f"{out}: {rows:,} inputs{unfinished}; label 1 (more than {eta:g} of {draws:,} draws right): {chosen:,}")
    typer.echo(f"a network that learns nothing would be right about {max(chosen, rows - chosen) / rows:.1%} of them")


def _votes(record: Run, run: Path) -> tuple[Array, Array, int]:
    """Indices [N], votes for each input's own class [N], and the draws behind them."""
    import numpy as np

    if not record.rows:
        raise RunError(f"run {run} must hold at least one finished input; got none")
    split = record.settings["question"]["split"]
    if split != "train":
        raise RunError(f"run {run} must be over the training inputs (--split train); got split '{split}'")
    evidence = [[answer for answer in row.answers if answer.purpose in _EVIDENCE] for row in record.rows]
    draws = sorted({sum(answer.draws for answer in answers) for answers in evidence})
    if len(draws) > 1:
        raise RunError(
            f"run {run} must have equally many draws for every input, as predict and certify without a radius "
            f"have; got {draws[0]:,} to {draws[-1]:,}"
        )
    right = [
        sum(answer.counts[0][row.label] for answer in answers)
        for row, answers in zip(record.rows, evidence, strict=True)
    ]
    return np.array([row.index for row in record.rows]), np.array(right), draws[0]
