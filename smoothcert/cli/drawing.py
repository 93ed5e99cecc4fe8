"""What every command that draws takes beside its own: which inputs, where to, and by which means. One list for all."""

from __future__ import annotations

import functools
import inspect
import math
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast, get_type_hints

import typer

from smoothcert.cli import options as o
from smoothcert.cli.console import remark, run_bar, say
from smoothcert.errors import OptionError, require_room

if TYPE_CHECKING:
    from smoothcert.contracts import Noise, Procedure
    from smoothcert.engine.ray import Cluster
    from smoothcert.preparation.per_input_sigma import PerInputSigma
    from smoothcert.runs.remember import MemoryUse
    from smoothcert.runs.start import Networks


class Drawing(NamedTuple):
    """The options, and the run that they are for."""

    data: o.Data
    out: Annotated[Path, typer.Option(help="Folder of the run; an unfinished one is continued.")]
    skip: o.Skip = 1
    max: o.Max = -1
    start: o.Start = 0
    split: o.Split = "test"
    seed: o.RunSeed = "0"
    batch: Annotated[
        int | None, typer.Option(help="Rows of a forward pass.  [default: 64; small images 256, large ones 8]")
    ] = None
    range: o.Range = None
    image_size: o.ImageSize = None
    output: o.Output = None
    model_layout: o.ModelLayout = None
    binary: o.Binary = None
    engine: o.Engine = "auto"
    threads: o.Threads = None
    ray: Annotated[str | None, typer.Option(help="Draw on a Ray cluster: local, or HOST:PORT.")] = None
    ray_workers: Annotated[int | None, typer.Option(help="Ray workers; default: as many as there are cores.")] = None

    def cluster(self) -> Cluster | None:
        """Where the draws are made, if not here."""
        from smoothcert.engine.ray import Cluster

        if self.ray is None:
            if self.ray_workers is not None:
                raise OptionError("--ray-workers needs --ray")
            return None
        return Cluster(self.ray, self.ray_workers, 1 if self.threads is None else self.threads)

    def run(
        self,
        model: str | Networks,
        noise: Noise,
        procedure: Procedure,
        arithmetic: str | None,
        title: str,
        about: str = "",
        preparation: PerInputSigma | None = None,
        memory: MemoryUse | None = None,
    ) -> None:
        """Answer for every input under a progress bar. What can be refused is refused before anything is loaded."""
        from smoothcert.arithmetic import check
        from smoothcert.bounds import check_draws
        from smoothcert.runs.start import Resources, RunRequest, settled, start

        check(arithmetic, noise, "--arithmetic")
        seed = o.parse_seed(self.seed)
        if self.batch is not None:
            check_draws(self.batch, "batch", "the engine")
        command = shlex.join(["smoothcert", *sys.argv[1:]])
        resources = Resources(self.batch, self.engine, self.threads, self.cluster(), command)
        data = o.subset(self.data, self.split, self.skip, self.max, self.range, self.image_size, self.start)
        inputs = data.load()
        self._require_room(math.prod(inputs.shape), preparation)
        ask = RunRequest(self._called(model), data, noise, procedure, seed, preparation, memory)
        ask, reason = settled(ask, inputs, self.out, arithmetic)
        remark(reason)
        remark(o.say_noise(ask.noise) + (f": {about}" if about else ""))
        if not start(ask, inputs, self.out, resources, run_bar(f"{title} {inputs.name}"), remark):
            remark(f"{self.out} was complete: nothing was drawn")

    def _called(self, model: str | Networks) -> str | Networks:
        """The model, called as these options say; a composition's networks are called as they are."""
        from smoothcert.classifiers.adapted import Adaptation
        from smoothcert.runs.start import adapted_model

        given = {"output": self.output, "model-layout": self.model_layout, "binary": self.binary}
        first = next((name for name, value in given.items() if value is not None), None)
        if first is None:
            return model
        if empty := [name for name, value in given.items() if value == ""]:
            raise OptionError(f"--{empty[0]} must say something; got nothing")
        if not isinstance(model, str):
            raise OptionError(f"--{first} must be of one model; got a composition of several")
        output, layout, binary = (cast("Any", value or "") for value in given.values())
        asked = Adaptation(output, layout, binary=binary)
        return adapted_model(model, asked)

    def _require_room(self, values: int, preparation: PerInputSigma | None) -> None:
        """Refuse what would fill the memory before a network is loaded or a run begun."""
        from smoothcert.runs.certify import CHUNK

        if self.batch is not None:
            require_room("the engine", self.batch * values, batch=self.batch)
        if preparation is not None:
            require_room("per_input_sigma", preparation.draws * CHUNK * values, draws=preparation.draws)

    def say_summary(self) -> None:
        """What the finished run found, and where to look next."""
        from smoothcert.report.metrics import figures
        from smoothcert.report.render import plain_text
        from smoothcert.report.tables import table
        from smoothcert.runs.store import read

        run = read(self.out)
        say(plain_text(table([figures(run)])))
        calls = run.means.member_calls if run.means else None
        if calls and calls.early:
            share = f"{calls.asked / calls.rows:.2f} of {calls.members}"
            say(f"members asked a draw: {share}; {calls.early / calls.rows:.1%} of draws did not need all")
        out = self.out
        say(f"kept in {out}; next: smoothcert verify {out}, smoothcert report {out} --html report.html")


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
