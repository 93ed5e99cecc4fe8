"""`smoothcert demo`: the whole story on embedded data, in minutes on a laptop."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.console import put, say

NETWORKS = 3
SIGMA = 0.25
FAR, NEAR = 0.5, 0.25  # the radius that the end tells about, and the one that is asked for alone
TRAINING = ("--sigma", SIGMA, "--epochs", 40, "--batch", 64, "--schedule", "one_cycle")


def command(
    out: Annotated[Path, typer.Option(help="Write networks, runs and the report to this folder.")] = Path(
        "smoothcert-demo"
    ),
    n: Annotated[int, typer.Option("--n", "--N", help="Make this many draws for each certificate.")] = 10_000,
    max: Annotated[int, typer.Option(help="Certify this many test inputs.")] = 100,
    threads: o.Threads = None,
) -> None:
    """Train, certify, verify and report three small networks.

    It takes minutes on handwritten digits, and certifies the ensemble of the three as well. Each step is an
    ordinary command, printed before it runs: repeat any of them with your own model.

    smoothcert demo
    smoothcert demo --n 1000 --max 20 --out quick-demo
    """
    from smoothcert.cli.main import run
    from smoothcert.data import Subset
    from smoothcert.sampling.fixed import Fixed

    Fixed(n), Subset("digits", max=max)  # what certify would refuse is refused before minutes of training
    by = () if threads is None else ("--threads", threads)
    question = ("--data", "digits", "--sigma", SIGMA, "--max", max, *by)

    def certify(network: Path, certified: Path, *how: object) -> Path:
        _step(run, "certify", network, *question, *how, "--out", certified)
        _step(run, "verify", certified, *by)
        return certified

    networks = [out / "networks" / f"digits-{seed}" for seed in range(NETWORKS)]
    runs = []
    for seed, network in enumerate(networks):
        training = ("--data", "digits", "--arch", "digits_cnn", *TRAINING, *(by or ("--threads", 1)), "--seed", seed)
        _step(run, "train", *training, "--out", network)
        runs.append(certify(network, out / "runs" / network.name, "--n", n))
    together = out / "networks" / "ensemble"
    _step(run, "ensemble", *networks, "--out", together)
    runs.append(certify(together, out / "runs" / "ensemble", "--n", n))
    known = certify(together, out / "runs" / f"ensemble-at-{NEAR}", "--radius", NEAR)
    page = out / "report.html"
    _step(run, "report", *runs, "--html", page)
    put("")
    for line in _found(runs, known):
        say(line)
    put(f"The report, with curves and pictures: {page.resolve()}")


def _step(run: Callable[[list[str]], int], *arguments: object) -> None:
    """Show a command, run it, and stop if it fails."""
    words = [str(argument) for argument in arguments]
    put(f"\n$ smoothcert {shlex.join(words)}")
    if code := run(words):
        raise typer.Exit(code)


def _found(folders: Sequence[Path], asked: Path) -> Iterator[str]:
    """What all this showed, in plain words: the runs of the networks, that of the ensemble, and at one radius."""
    from smoothcert.report.metrics import certified_accuracy, figures
    from smoothcert.runs.store import read

    *members, together = (read(folder) for folder in folders)
    known, alpha = read(asked), together.asked.alpha
    best = max(certified_accuracy(member, FAR).hits for member in members)
    yield f"What was found, on {len(together.rows)} handwritten digits that no network had seen:"
    yield (
        f"- Proven to stay right under every change up to l2 distance {FAR}: {best} digits by the best network, "
        f"{certified_accuracy(together, FAR).hits} by all three as an ensemble. "
        f"Each of these statements is wrong with probability {alpha:g} at most."
    )
    full, few = figures(together).mean_draws, figures(known).mean_draws
    if full and few:
        saved = f", {full / few:.2g} times fewer" if few < full else ""
        yield (
            f"- At distance {NEAR} the ensemble stays right on {certified_accuracy(together, NEAR).hits}, found with "
            f"{full:,.0f} draws a digit. Asked about {NEAR} alone: {certified_accuracy(known, NEAR).hits}, with "
            f"{few:,.0f} draws{saved}."
        )
    yield "- Every certificate was recomputed from its counts, and some were drawn again: all as recorded."
