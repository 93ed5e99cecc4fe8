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
from smoothcert.contracts import Outcome, Source
from smoothcert.data import Inputs
from smoothcert.engine.cluster import Cluster
from smoothcert.engine.local import Local
from smoothcert.engine.ray import Ray
from smoothcert.errors import ModelError, SmoothcertError
from smoothcert.recipe import Recipe, build, build_procedure, versions
from smoothcert.runs.certify import jobs, prepared_by

if TYPE_CHECKING:
    from torch import Tensor


def run_remotely(
    cluster: Cluster, recipe: Recipe, inputs: Inputs, done: set[int], advance: Callable[[int], None]
) -> tuple[list[str], Iterator[Outcome]]:
    """Notes, and outcomes of the inputs that have no row yet, from the workers of a connected cluster."""
    places = {index: at for at, index in enumerate(inputs.indices.tolist()) if index not in done}

    def payload(index: int) -> Payload:
        return inputs.tensor(places[index]).numpy(), int(inputs.labels[places[index]])

    engine = Ray(cluster, advance)
    folders = tuple(str(Path(folder).resolve()) for folder in sys.path)
    station = Station(recipe, cluster.threads, inputs.tensor(0).numpy(), folders)
    return engine.notes, engine.run(station, list(places), payload)


Payload = tuple[Any, int]  # an input, float32 [*shape] in [0,1], and its label


@dataclass(frozen=True, eq=False)
class Station:
    """What a worker needs to set itself up; small enough to be sent to all."""

    recipe: Recipe
    threads: int
    example: Any  # one input, float32 [*shape]
    folders: tuple[str, ...]  # where the driver looks for `package.module:callable`

    def __call__(self) -> Answering:
        """Set up, on the worker: the same steps as on the command line."""
        import torch

        sys.path += [folder for folder in self.folders if folder not in sys.path]
        try:
            prepared = self._load()
        except SmoothcertError as error:
            raise type(error)(f"on {socket.gethostname()}: {error}") from error
        notes = [prepared.note] if prepared.note else []
        return Answering(self.recipe, prepared, torch.tensor(self.example), [*notes, *self._other_versions()])

    def _load(self) -> Ready:
        import torch

        question, engine = self.recipe.question, self.recipe.means.engine
        loaded = load(question.model)
        if digest(question.model).hex != question.model_digest:
            raise ModelError(f"model {question.model} must be the driver's; its hash differs")
        # The driver has chosen the engine: two of them may differ in the last bits of a score.
        chosen = "auto" if engine == "callable" else engine
        return ready(loaded, torch.tensor(self.example), chosen, self.threads)

    def _other_versions(self) -> list[str]:
        here, theirs = versions(), self.recipe.means.versions
        differing = [f"{name} {here.get(name)} ≠ {theirs[name]}" for name in theirs if here.get(name) != theirs[name]]
        return [f"a worker's versions differ from the driver's: {', '.join(differing)}"] if differing else []


class Answering:
    """A worker that is set up: the ordinary engine on the inputs of its units."""

    def __init__(self, recipe: Recipe, prepared: Ready, example: Tensor, notes: list[str]) -> None:
        question = recipe.question
        self.procedure = build_procedure(question)
        self.source = Source(prepared.classifier, build("noise", question.noise))
        self.engine = Local(recipe.means.batch, question.seed, workers=prepared.workers, notes=notes)
        self.notes = self.engine.notes
        self.prepare, self.seed = prepared_by(question, example, prepared.classifier), question.seed

    def run(self, items: Sequence[tuple[int, Payload]], advance: Callable[[int], None]) -> Iterator[Outcome]:
        import torch

        self.engine.advance = advance
        # A copy: what Ray hands over is read-only, and torch warns of that.
        given = [(index, torch.tensor(x), label) for index, (x, label) in items]
        return self.engine.run(jobs(self.procedure, self.source, given, self.prepare, self.seed))
