"""A recipe carried out by workers elsewhere: what is sent to each of them, and what they do with it.

A worker loads the model of the recipe from its own disk, once, and refuses one that is not the driver's. Inputs come
with their units, so that the data need to be in one place only. A worker writes nothing: rows are the driver's.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.classifiers import Ready, digest, load, ready
from smoothcert.classifiers.module import trusting
from smoothcert.contracts import Job, Source
from smoothcert.engine.local import Local
from smoothcert.engine.ray import Cluster, Item, Ray, Workbench
from smoothcert.errors import ModelError, SmoothcertError
from smoothcert.runs.certify import jobs, prepared_by
from smoothcert.spec import Recipe, versions

if TYPE_CHECKING:
    from torch import Tensor


def remote_engine(
    cluster: Cluster, recipe: Recipe, example: Tensor, inputs: int, advance: Callable[[int], None]
) -> Ray:
    """The engine whose workers, on a connected cluster, answer so many inputs of this recipe."""
    folders = tuple(str(Path(folder).resolve()) for folder in sys.path)
    return Ray(cluster, Station(recipe, cluster.threads, example.numpy(), folders), inputs, advance)


@dataclass(frozen=True, eq=False)
class Station:
    """What a worker needs to set itself up; small enough to be sent to all."""

    recipe: Recipe
    threads: int
    example: Any  # one input, float32 [*shape]
    folders: tuple[str, ...]  # where the driver looks for `package.module:callable`

    def __call__(self, advance: Callable[[int], None]) -> Workbench:
        """Set up, on the worker: the same steps as on the command line."""
        import torch

        sys.path += [folder for folder in self.folders if folder not in sys.path]
        try:
            prepared = self._load()
        except SmoothcertError as error:
            raise type(error)(f"on {socket.gethostname()}: {error}") from error
        notes = [*([prepared.note] if prepared.note else []), *self._other_versions()]
        spec = self.recipe.spec
        source = Source(prepared.classifier, spec.noise)
        prepare = prepared_by(spec, torch.tensor(self.example), prepared.classifier)

        def made(items: Sequence[Item]) -> Iterator[Job]:
            # A copy: what Ray hands over is read-only, and torch warns of that.
            given = [(index, torch.tensor(x), truth) for index, x, truth in items]
            return jobs(spec.procedure, source, given, prepare, spec.seed)

        engine = Local(self.recipe.means.batch, spec.seed, advance, prepared.workers, notes)
        return Workbench(engine, made)

    def _load(self) -> Ready:
        import torch

        spec, engine = self.recipe.spec, self.recipe.means.engine
        with trusting():  # the driver has loaded it already
            loaded = load(spec.model)
        if digest(spec.model).hex != spec.model_digest:
            raise ModelError(f"model {spec.model} must be the driver's; its hash differs")
        # The driver has chosen the engine: two of them may differ in the last bits of a score.
        chosen = "auto" if engine == "callable" else engine
        return ready(loaded, torch.tensor(self.example), chosen, self.threads)

    def _other_versions(self) -> list[str]:
        here, theirs = versions(), self.recipe.means.versions
        differing = [f"{name} {here.get(name)} ≠ {theirs[name]}" for name in theirs if here.get(name) != theirs[name]]
        return [f"a worker's versions differ from the driver's: {', '.join(differing)}"] if differing else []
