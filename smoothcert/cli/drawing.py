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

from smoothcert.cli import options as o
from smoothcert.cli import panels
from smoothcert.cli.console import columns, put, say
from smoothcert.errors import OptionError, require_room
from smoothcert.progress import remark, run_bar

if TYPE_CHECKING:
    from smoothcert.contracts import Noise, Procedure
    from smoothcert.data import Subset
    from smoothcert.engine.cluster import Cluster
    from smoothcert.preparation.per_input_sigma import PerInputSigma
    from smoothcert.runs.remember import MemoryUse
    from smoothcert.runs.start import Networks


class Drawing(NamedTuple):
    """The options, and the run that they are for."""

    data: o.Data
    out: Annotated[Path, panels.means(help="Write the run to this folder, or resume an unfinished one.")]
    skip: o.Skip = 1
    max: o.Max = -1
    start: o.Start = 0
    split: o.Split = "test"
    seed: o.RunSeed = "0"
    batch: Annotated[
        int | None,
        panels.means(
            help="Send this many rows through the model at once.", show_default="64; small images 256, large ones 8"
        ),
    ] = None
    range: o.Range = None
    image_size: o.ImageSize = None
    layout: o.Layout = None
    classes: o.Classes = None
    scale: o.ScaleKind = None
    scale_data: o.ScaleData = None
    output: o.Output = None
    model_layout: o.ModelLayout = None
    binary: o.Binary = None
    precision: o.Precision = "float32"
    engine: o.Engine = "auto"
    threads: o.Threads = None
    ray: Annotated[str | None, panels.means(help="Draw on a Ray cluster: local or HOST:PORT.")] = None
    ray_workers: Annotated[
        int | None, panels.means(help="Start this many Ray workers.", show_default="one per core")
    ] = None

    def cluster(self) -> Cluster | None:
        """Where the draws are made, if not here."""
        from smoothcert.engine.cluster import Cluster

        if self.ray is None:
            if self.ray_workers is not None:
                raise OptionError("--ray-workers needs --ray")
            return None
        gpus = None if self.engine == "auto" else self.engine.startswith("torch:cuda")
        return Cluster(self.ray, self.ray_workers, 1 if self.threads is None else self.threads, gpus)

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
        data = self._subset(noise, memory is not None)
        called = self._called(model, data)
        inputs = data.load()
        remark(_about_values(data, inputs.shape))
        self._require_room(math.prod(inputs.shape), preparation)
        ask = RunRequest(called, data, noise, procedure, seed, preparation, memory)
        ask, reason = settled(ask, inputs, self.out, arithmetic)
        remark(reason)
        if not noise.complete and procedure.sampling is not None:  # what could not be said before it was fitted
            about = procedure.sampling.check(ask.noise, math.prod(inputs.shape))
        remark(o.say_noise(ask.noise) + (f": {about}" if about else ""))
        if not start(ask, inputs, self.out, resources, run_bar(f"{title} {inputs.name}"), remark):
            remark(f"{self.out} was complete: nothing was drawn")

    def _subset(self, noise: Noise, memory: bool) -> Subset:
        found = o.subset(self.data, self.split, self.skip, self.max, self.range, self.image_size, self.start)
        return o.on_scale(o.as_given(found, self.layout, self.classes), self.scale, self.scale_data, noise, memory)

    def _called(self, model: str | Networks, data: Subset) -> str | Networks:
        """The model, called as these options say, in its own units; a composition's networks are called as they are."""
        from smoothcert.classifiers.adapted import Adaptation
        from smoothcert.data import Scale
        from smoothcert.runs.start import adapted_model

        precision = None if self.precision == "float32" else self.precision
        given = {
            "output": self.output,
            "model-layout": self.model_layout,
            "binary": self.binary,
            "precision": precision,
        }
        if empty := [name for name, value in given.items() if value == ""]:
            raise OptionError(f"--{empty[0]} must have a value; got nothing")
        scale = data.scale or Scale("none")
        output, layout, binary, precision = (cast("Any", value or "") for value in given.values())
        asked = Adaptation(output, layout, scale.offset, scale.width, binary, precision)
        if not asked.options:
            return model
        if not isinstance(model, str):
            options = {"layout": "model-layout", "offset": "scale"}
            name = next(iter(asked.options))
            raise OptionError(f"--{options.get(name, name)} must be of one model; got a composition of several")
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
        put(plain_text(table([figures(run)]), columns() or 100))
        calls = run.means.member_calls if run.means else None
        if calls and calls.early:
            share = f"{calls.asked / calls.rows:.2f} of {calls.members}"
            say(f"members asked a draw: {share}; {calls.early / calls.rows:.1%} of draws did not need all")
        out, place = self.out, shlex.quote(str(self.out))
        say(f"kept in {out}; next:")
        for command in (f"verify {place}", f"report {place} --html report.html"):
            put(f"  smoothcert {command}")  # in one line each, to be copied


def _about_values(data: Subset, shape: tuple[int, ...]) -> str:
    """What is done to values, or seems to be needed, in a line; nothing where they are taken as they are."""
    said = []
    if data.value_range is not None:
        low, high = data.value_range
        less = f"(x − {low:g})" if low >= 0 else f"(x + {-low:g})"
        said.append(
            f"the model receives {less}/{high - low:g}, in [0,1]; σ and radii are on that scale (--scale keeps the "
            "model's own units)"
        )
    if data.scale is not None:
        said.append(f"σ and radii are {data.scale.words}; the model receives its own units")
    if data.layout is None and len(shape) == 3 and min(shape[:2]) > 4 >= shape[2] != 2:
        said.append(
            f"inputs of shape {list(shape)} seem to have channels last: --layout nhwc puts them first, --layout nchw "
            "says that they are"
        )
    return "; ".join(said)


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
