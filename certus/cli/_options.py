"""Options that several commands share, with one wording, and what they become."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from certus.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from certus.classifiers import Ready
    from certus.data import Inputs
    from certus.engine.cluster import Cluster
    from certus.recipe import Part, Question, Recipe
    from certus.runs.remember import Remember

Model = Annotated[
    str, typer.Argument(help="Checkpoint or ensemble folder, file.onnx, zoo name, or package.module:callable.")
]
Data = Annotated[str, typer.Option(help="Data set's name, file.npz, or a folder of class folders.")]
Sigma = Annotated[float, typer.Option(help="Standard deviation of the Gaussian noise, inputs in [0,1].")]
AnySigma = Annotated[float | None, typer.Option("--sigma", help="Standard deviation of the noise, inputs in [0,1].")]
NoiseName = Annotated[
    str, typer.Option("--noise", help="gaussian, gaussian_grid (l2), uniform, splitting (l1), discrete (l0).")
]
NoiseSet = Annotated[list[str] | None, typer.Option("--set", help="name=value, another option of the noise.")]
Alpha = Annotated[float, typer.Option(help="Probability that one answer is wrong.")]
Skip = Annotated[int, typer.Option(help="Take every SKIP-th input.")]
Max = Annotated[int, typer.Option(help="Stop before this index; -1: never.")]
Start = Annotated[int, typer.Option(help="Begin at this index.")]
Split = Annotated[str, typer.Option(help="Which split of the data.")]
Batch = Annotated[int | None, typer.Option(help="Rows a forward pass.  [default: 64; small images 256, large ones 8]")]
Seed = Annotated[int, typer.Option(help="Key of all noise; the same seed gives the same counts.")]
Range = Annotated[str | None, typer.Option(help="lo,hi of the data's values, when not 0,1.")]
ImageSize = Annotated[int | None, typer.Option(help="Resize and crop images of a folder to this size.")]
Engine = Annotated[str, typer.Option(help="auto, onnxruntime, torch or torch:DEVICE.")]
Threads = Annotated[int | None, typer.Option(help="Threads of a forward pass; default: all cores.")]

Ray = Annotated[str | None, typer.Option(help="local, or HOST:PORT of a Ray cluster: its workers make the draws.")]
RayWorkers = Annotated[int | None, typer.Option(help="Ray workers; default: as many as there are cores.")]


class Subset(NamedTuple):
    """Which inputs: the data options of a command, as one value."""

    data: str
    split: str
    skip: int
    max: int
    value_range: str | None
    image_size: int | None
    start: int = 0

    def load(self) -> Inputs:
        from certus.data import load

        value_range = parse_range(self.value_range)
        return load(self.data, self.split, self.skip, self.max, value_range, self.image_size, self.start)


def parse_range(text: str | None, option: str = "--range") -> tuple[float, float] | None:
    """`lo,hi` → two numbers."""
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError as error:
        raise OptionError(f"{option} must be two numbers lo,hi; got '{text}'") from error
    return low, high


def question_of(
    model: str, subset: Subset, inputs: Inputs, noise: Part, procedure: Part, sampling: Part | None, seed: int
) -> Question:
    """The question that these options ask."""
    from pathlib import Path

    from certus.classifiers import digest
    from certus.recipe import Question

    def place(spec: str) -> str:
        return str(Path(spec).resolve()) if Path(spec).exists() else spec

    return Question(
        model=place(model),
        model_digest=digest(model),
        data=place(subset.data) if subset.data != inputs.name else subset.data,
        split=subset.split,
        skip=subset.skip,
        max=subset.max,
        data_digest=inputs.digest,
        inputs=len(inputs),
        noise=noise,
        procedure=procedure,
        sampling=sampling,
        seed=seed,
        value_range=parse_range(subset.value_range),
        image_size=subset.image_size,
        start=subset.start,
    )


def prepare(model: str, inputs: Inputs, engine: str, threads: int | None) -> Ready:
    """Load a model and make it ready for these inputs; say so in one line when it is not the fastest way."""
    from certus.classifiers import load, ready
    from certus.ensembles.holdout import refuse_used

    loaded = load(model)
    refuse_used(model, inputs)
    prepared = ready(loaded, inputs.tensor(0), engine, threads)
    if prepared.note:
        print(f"certus: {prepared.note}", file=sys.stderr)
    return prepared


def recipe_of(question: Question, prepared: Ready, batch: int | None, inputs: Inputs, threads: int | None) -> Recipe:
    """The question with the means of this process."""
    import shlex

    from certus.contracts import batch_rows
    from certus.recipe import Means, Recipe, now, versions

    command = shlex.join(["certus", *sys.argv[1:]])
    notes = (prepared.note,) if prepared.note else ()
    rows = batch or batch_rows(inputs.shape)
    means = Means(rows, prepared.engine, command, threads, prepared.workers, versions(), notes, started=now())
    return Recipe(question, means)


def carry_out_shown(
    recipe: Recipe,
    folder: Path,
    inputs: Inputs,
    prepared: Ready,
    title: str,
    cluster: Cluster | None,
    remember: Remember | None = None,
) -> None:
    """Carry out a recipe under a progress bar; a memory beside it is closed afterwards."""
    import contextlib

    from certus.cli._progress import run_bar
    from certus.runs.certify import carry_out

    with remember.memory if remember else contextlib.nullcontext(), run_bar(title) as watcher:
        carry_out(recipe, folder, inputs, prepared.classifier, watcher, cluster, remember)


def cluster_of(ray: str | None, workers: int | None, threads: int | None) -> Cluster | None:
    """Where the draws are made, if not here."""
    from certus.engine.cluster import Cluster

    if ray is None:
        if workers is not None:
            raise OptionError("--ray-workers needs --ray")
        return None
    return Cluster(ray, workers, 1 if threads is None else threads)


def check_batch(batch: int | None) -> None:
    """Refused here already, before anything is loaded."""
    from certus.bounds import check_draws

    if batch is not None:
        check_draws(batch, "batch", "the engine")


def say_summary(folder: Path) -> None:
    """What a finished run found, and where to look next."""
    from certus.report.metrics import figures
    from certus.report.tables import text_table
    from certus.runs.store import read

    record = read(folder)
    print(text_table([figures(record)]))
    asked = record.settings["means"].get("asked")
    if asked and asked["early"]:
        share = f"{asked['asked'] / asked['rows']:.2f} of {asked['members']}"
        print(f"members asked a draw: {share}; {asked['early'] / asked['rows']:.1%} of draws did not need all")
    print(f"kept in {folder}; next: certus verify {folder}, certus report {folder} --html report.html")
