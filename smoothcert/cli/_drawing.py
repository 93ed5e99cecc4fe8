"""What every command that draws takes beside its own: which inputs, where to, and by which means. One list for all."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from smoothcert.cli import _options as o
from smoothcert.errors import OptionError

if TYPE_CHECKING:
    from smoothcert.classifiers import Ready
    from smoothcert.contracts import Noise
    from smoothcert.data import Inputs, Subset
    from smoothcert.engine.ray import Cluster
    from smoothcert.preparation.per_input_sigma import PerInputSigma
    from smoothcert.runs.remember import Remember
    from smoothcert.spec import Spec

Ray = Annotated[str | None, typer.Option(help="local, or HOST:PORT of a Ray cluster: its workers make the draws.")]
RayWorkers = Annotated[int | None, typer.Option(help="Ray workers; default: as many as there are cores.")]


class Drawing(NamedTuple):
    """The options, and the steps that they are for."""

    data: o.Data
    out: Annotated[Path, typer.Option(help="Folder of the run; an unfinished one is continued.")]
    skip: o.Skip = 1
    max: o.Max = -1
    start: o.Start = 0
    split: o.Split = "test"
    seed: o.Seed = 0
    batch: Annotated[
        int | None, typer.Option(help="Rows a forward pass.  [default: 64; small images 256, large ones 8]")
    ] = None
    range: o.Range = None
    image_size: o.ImageSize = None
    engine: o.Engine = "auto"
    threads: o.Threads = None
    ray: Ray = None
    ray_workers: RayWorkers = None

    def check(self) -> None:
        """Refuse, before anything is loaded, what can never be."""
        from smoothcert.bounds import check_draws
        from smoothcert.streams import check_seed

        check_seed(self.seed)
        if self.batch is not None:
            check_draws(self.batch, "batch", "the engine")
        self.cluster()

    def cluster(self) -> Cluster | None:
        """Where the draws are made, if not here."""
        from smoothcert.engine.ray import Cluster

        if self.ray is None:
            if self.ray_workers is not None:
                raise OptionError("--ray-workers needs --ray")
            return None
        return Cluster(self.ray, self.ray_workers, 1 if self.threads is None else self.threads)

    def subset(self) -> Subset:
        return o.subset(self.data, self.split, self.skip, self.max, self.range, self.image_size, self.start)

    def load(self) -> Inputs:
        return self.subset().load()

    def prepare(self, model: str, inputs: Inputs) -> Ready:
        return o.prepare(model, inputs, self.engine, self.threads)

    def question(
        self, model: str, inputs: Inputs, noise: Noise, procedure: Any, preparation: PerInputSigma | None = None
    ) -> Spec:
        """What is asked of every input."""
        from smoothcert import catalog
        from smoothcert.classifiers import digest
        from smoothcert.spec import Spec

        def place(spec: str) -> str:
            return str(Path(spec).resolve()) if Path(spec).exists() else spec

        subset, hashed = self.subset(), digest(model)
        if self.data not in catalog.names("data"):
            subset = replace(subset, spec=place(self.data))
        return Spec(
            place(model), hashed.hex, subset, inputs.digest, len(inputs), tuple(inputs.shape), noise, procedure,
            self.seed, preparation, hashed.covers,
        )  # fmt: skip

    def carry_out(
        self, spec: Spec, inputs: Inputs, prepared: Ready, title: str, remember: Remember | None = None
    ) -> None:
        """Answer it for every input under a progress bar; a memory beside the run is closed afterwards."""
        import contextlib
        import shlex

        from smoothcert.cli._progress import run_bar
        from smoothcert.contracts import batch_rows
        from smoothcert.runs.certify import carry_out
        from smoothcert.spec import Means, Recipe, now, versions

        command = shlex.join(["smoothcert", *sys.argv[1:]])
        notes = (prepared.note,) if prepared.note else ()
        rows = self.batch or batch_rows(inputs.shape)
        means = Means(rows, prepared.engine, command, self.threads, prepared.workers, versions(), notes, started=now())
        shown = run_bar(f"{title} {inputs.name}")
        with remember.memory if remember else contextlib.nullcontext(), shown as watcher:
            recipe = Recipe(spec, means)
            left = carry_out(recipe, self.out, inputs, prepared.classifier, watcher, self.cluster(), remember)
        if left == 0:
            print(f"smoothcert: {self.out} was complete: nothing was drawn", file=sys.stderr)


def draws(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first argument is a Drawing, as one that has all these options behind its own."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    kinds, defaults = get_type_hints(Drawing, include_extras=True), Drawing._field_defaults
    shared = [
        inspect.Parameter(
            name, own[0].kind, default=defaults.get(name, inspect.Parameter.empty), annotation=kinds[name]
        )
        for name in Drawing._fields
    ]
    # A signature has what is required first.
    every = sorted([*own, *shared], key=lambda option: option.default is not inspect.Parameter.empty)

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        command(Drawing(**{name: given.pop(name) for name in Drawing._fields}), **given)

    with_options.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    with_options.__annotations__ = {option.name: option.annotation for option in every}
    return with_options
