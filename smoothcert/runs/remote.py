"""A recipe carried out by workers elsewhere: what is sent to each of them, and what they build of it.

A worker loads the model of the recipe from its own disk, once, and refuses one that is not the driver's. Inputs come
with their draws, so that the data need to be in one place only. A worker writes nothing: rows are the driver's.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.classifiers import Ready, digest, load, ready
from smoothcert.classifiers.composed import parts
from smoothcert.classifiers.module import trusting
from smoothcert.contracts import Classifier, Noise, Stream
from smoothcert.engine import executor
from smoothcert.engine.cluster import LOCAL, Cluster, import_ray
from smoothcert.engine.ray import Ray
from smoothcert.engine.worker import Workbench
from smoothcert.errors import ModelError, SmoothcertError
from smoothcert.runs.certify import prepared_by
from smoothcert.spec import Recipe, versions

if TYPE_CHECKING:
    from torch import Tensor


def remote_executor(cluster: Cluster, recipe: Recipe, example: Tensor, classifier: Classifier) -> Ray:
    """What has draws of this recipe carried out on a connected cluster."""
    folders = tuple(str(Path(folder).resolve()) for folder in sys.path)
    return Ray(cluster, Station(recipe, cluster.threads, example.numpy(), folders), parts(classifier))


@dataclass(frozen=True, eq=False)
class Station:
    """What a worker needs to set itself up; small enough to be sent to all."""

    recipe: Recipe
    threads: int
    example: Any  # one input, float32 [*shape]
    folders: tuple[str, ...]  # where the driver looks for `package.module:callable`

    def __call__(self) -> Workbench:
        """Set up, on the worker: the same steps as on the command line."""
        import torch

        sys.path += [folder for folder in self.folders if folder not in sys.path]
        try:
            prepared = self._load()
        except SmoothcertError as error:
            raise type(error)(f"on {socket.gethostname()}: {error}") from error
        spec = self.recipe.spec
        prepare = prepared_by(spec, torch.tensor(self.example), prepared.classifier)

        def choose(items: Sequence[tuple[Tensor, Stream]]) -> list[Noise]:
            xs, streams = zip(*items, strict=True)
            return [] if prepare is None else prepare(spec.noise, torch.stack(xs), streams)

        made = executor(prepared.engine, self.recipe.means.batch or None, prepared.workers)
        made.notes += [*([prepared.note] if prepared.note else []), *self._other_versions()]
        return Workbench(made, parts(prepared.classifier), choose)

    def _load(self) -> Ready:
        import torch

        spec, engine = self.recipe.spec, self.recipe.means.engine
        with trusting():  # the driver has loaded it already
            loaded = load(spec.model)
        if digest(spec.model).hex != spec.model_digest:
            raise ModelError(f"model {spec.model} must be the driver's; its hash differs")
        # The driver has chosen the engine: two of them may differ in the last bits of a score. A worker's GPU is used.
        ray = import_ray(LOCAL)  # asked for GPUs outside of a cluster, it would start one
        gpus = ray.is_initialized() and ray.get_gpu_ids()
        chosen = "torch:cuda" if gpus else "auto" if engine == "callable" else engine
        return ready(loaded, torch.tensor(self.example), chosen, self.threads)

    def _other_versions(self) -> list[str]:
        here, theirs = versions(), self.recipe.means.versions
        differing = [f"{name} {here.get(name)} ≠ {theirs[name]}" for name in theirs if here.get(name) != theirs[name]]
        return [f"a worker's versions differ from the driver's: {', '.join(differing)}"] if differing else []
