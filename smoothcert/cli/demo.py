"""`smoothcert demo`: the whole story on embedded data, in minutes on a laptop."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli.console import say

NETWORKS = 3
SIGMA = 0.25
TRAINING = ("--sigma", SIGMA, "--epochs", 40, "--batch", 64, "--schedule", "one_cycle", "--threads", 1)


def command(
    out: Annotated[Path, typer.Option(help="Folder for networks, runs and the report.")] = Path("smoothcert-demo"),
    n: Annotated[int, typer.Option("--n", "--N", help="Draws for each certificate.")] = 10_000,
    max: Annotated[int, typer.Option(help="How many test inputs to certify.")] = 100,
) -> None:
    """Train three small networks on handwritten digits, certify them, verify the certificates, write a report.

    Everything is an ordinary command, printed before it runs: repeat any of them with your own model.
    """
    from smoothcert.cli.main import run
    from smoothcert.data import Subset
    from smoothcert.sampling.fixed import Fixed

    Fixed(n), Subset("digits", max=max)  # what certify would refuse is refused before minutes of training
    runs = []
    for seed in range(NETWORKS):
        network, certified = out / "networks" / f"digits-{seed}", out / "runs" / f"digits-{seed}"
        _step(run, "train", "--data", "digits", "--arch", "digits_cnn", *TRAINING, "--seed", seed, "--out", network)
        question = ("--data", "digits", "--sigma", SIGMA, "--n", n, "--max", max)
        _step(run, "certify", network, *question, "--out", certified)
        _step(run, "verify", certified)
        runs.append(certified)
    page = out / "report.html"
    _step(run, "report", *runs, "--html", page)
    say(f"\nThe report: {page.resolve()}")


def _step(run: Callable[[list[str]], int], *arguments: object) -> None:
    """Show a command, run it, and stop if it fails."""
    words = [str(argument) for argument in arguments]
    say(f"\n$ smoothcert {shlex.join(words)}")
    if code := run(words):
        raise typer.Exit(code)
