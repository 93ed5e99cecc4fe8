"""Begin a run, or continue it: everything between what is asked and the first draw. The commands that draw use it too.

>>> ask = RunRequest("models/a", Subset("cifar10", skip=20), Gaussian(0.25), Certify(100, Fixed(100_000, 0.001)))
>>> inputs = ask.data.load()
>>> ask, _ = settled(ask, inputs, Path("runs/a"))
>>> start(ask, inputs, Path("runs/a"))
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smoothcert import arithmetic, catalog, foreign
from smoothcert.classifiers import composite, digest, ready, try_once
from smoothcert.classifiers.adapted import Adaptation
from smoothcert.classifiers.composed import Bundle
from smoothcert.classifiers.digests import ModelDigest
from smoothcert.contracts import Classifier, Noise, Procedure, batch_rows
from smoothcert.data import Inputs, Subset
from smoothcert.engine.batch_check import classes
from smoothcert.ensembles.holdout import load_unused
from smoothcert.errors import ModelError
from smoothcert.progress import Watcher, slowly
from smoothcert.runs import look
from smoothcert.runs.certify import carry_out
from smoothcert.runs.commit import with_secret_seed
from smoothcert.runs.remember import MemoryUse
from smoothcert.runs.store import MODEL, is_complete, refuse_strangers
from smoothcert.spec import Means, Recipe, Spec, now, versions

if TYPE_CHECKING:
    from smoothcert.engine.cluster import Cluster
    from smoothcert.preparation.per_input_sigma import PerInputSigma


class RoleNetwork(NamedTuple):
    """One network of a composition; a core has no noise."""

    role: str
    model: str
    noise: Noise | None


@dataclass(frozen=True)
class Networks:
    """The networks that aces or route compose, or one that is adapted; described in the run's folder."""

    kind: composite.Kind
    members: tuple[RoleNetwork, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ModelObject:
    """A model that the caller holds, and that no file stands for; to verify its run it has to be given again."""

    classifier: Classifier
    place: str
    digest: ModelDigest
    options: Mapping[str, Any] = field(default_factory=dict)  # of how it is called, inside the classifier already


def adapted_model(model: str, adaptation: Adaptation) -> Networks:
    """A model and how it is called, kept in the run's folder."""
    return Networks("adapted", (RoleNetwork("model", model, None),), adaptation.options)


@dataclass(frozen=True)
class RunRequest:
    """What is asked of every input of a data set."""

    model: str | Networks | ModelObject
    data: Subset
    noise: Noise
    procedure: Procedure
    seed: int | None = 0  # None: drawn in secret, and committed to
    preparation: PerInputSigma | None = None
    memory: MemoryUse | None = None
    note: str = ""  # why its arithmetic is not the exact one


@dataclass(frozen=True)
class Resources:
    """By which means draws are made; they change how fast rows come, not what they say."""

    batch: int | None = None
    engine: str = "auto"
    threads: int | None = None
    cluster: Cluster | None = None
    command: str = ""

    @property
    def own_engine(self) -> str:
        """Of this process. Where workers with GPUs draw, it only looks at the network."""
        import torch

        elsewhere = self.cluster is not None and self.cluster.gpus and not torch.cuda.is_available()
        return "torch" if elsewhere else self.engine


def settled(ask: RunRequest, inputs: Inputs, out: Path, how: str | None = None) -> tuple[RunRequest, str]:
    """The same with noises fitted to the inputs, Gaussian ones in one arithmetic, and why that is not the exact one.

    A run that was begun in floats goes on in floats.
    """
    recipe = out / "recipe.toml"
    if how is None and recipe.exists() and Recipe.read(recipe).spec.noise == ask.noise:
        how = "float"
    networks = ask.model.members if isinstance(ask.model, Networks) else ()
    numbered = ((int(index), inputs.tensor(place)) for place, index in enumerate(inputs.indices))
    found = arithmetic.choose(ask.noise, how, numbered, [network.noise for network in networks], "--arithmetic")
    if isinstance(ask.model, Networks):
        fitted = [noise and noise.fitted(inputs.shape) for noise in found.others]
        members = tuple(part._replace(noise=noise) for part, noise in zip(networks, fitted, strict=True))
        ask = replace(ask, model=replace(ask.model, members=members))
    return replace(ask, noise=found.noise.fitted(inputs.shape), note=found.reason), found.reason


def start(
    ask: RunRequest,
    inputs: Inputs,
    out: Path,
    resources: Resources | None = None,
    watch: AbstractContextManager[Watcher] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> int:
    """Answer for every input, continuing what an earlier attempt left: how many inputs were left.

    Nothing is made fast, and nothing written, where the run is complete or of another question.
    """
    resources = resources or Resources()
    refuse_strangers(out)
    look.require_scale(ask.data, {} if isinstance(ask.model, str) else ask.model.options)
    loaded, whole = _loaded(ask.model, inputs, out)
    if ask.procedure.labelled:
        data, inputs = look.by_name(ask.data, inputs, loaded, say)
        ask = replace(ask, data=data)
    spec = make_spec(ask, inputs, out, whole)
    say(spec.uncovered)
    if spec.commitment is not None and not (out / "recipe.toml").exists():
        say(f"committed to a secret seed, attempt {spec.commitment.attempt} at this question: {spec.commitment.digest}")
    if is_complete(out, spec) and ask.memory is None:
        return 0
    with slowly("making the network fast: exporting it to ONNX, measuring threads (once)", say):
        prepared = ready(loaded, inputs.tensor(0), resources.own_engine, resources.threads)
    say(prepared.note)
    _refuse_low_bits(prepared.classifier, spec.noise, inputs)
    if ask.procedure.labelled and not (out / "recipe.toml").exists():
        say(look.chance(prepared.classifier, inputs))
    notes = tuple(note for note in (prepared.note, ask.note) if note)
    batch = resources.batch or (0 if prepared.engine.startswith("torch:") else batch_rows(inputs.shape))
    means = Means(
        batch, prepared.engine, resources.command, resources.threads,
        prepared.workers, versions(), notes, started=now(),
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        remember = stack.enter_context(ask.memory.opened(spec, out, say)) if ask.memory else None
        watcher = stack.enter_context(watch) if watch else None
        recipe = Recipe(spec, means)
        fast = prepared.classifier
        return carry_out(recipe, out, inputs, fast, watcher, resources.cluster, remember, whole, loaded)


def _refuse_low_bits(classifier: Classifier, noise: Noise, inputs: Inputs) -> None:
    """In floats a network could read its input from the last bits: one that does so on some inputs is refused.

    Which noise it is tried with, nobody can foresee.
    """
    few = min(len(inputs), arithmetic.INPUTS)
    some = inputs.tensors(np.array([number * len(inputs) // few for number in range(few)]))
    parts = [(classifier, noise)]
    if isinstance(classifier, Bundle):
        parts = [(member, own) for member, own in zip(classifier.members, classifier.noises, strict=True) if own]
    for member, own in parts:
        arithmetic.refuse_low_bits(member, own, list(some), secrets.randbits(64))


def make_spec(ask: RunRequest, inputs: Inputs, out: Path, whole: composite.Composite | None = None) -> Spec:
    """What is asked, with the hashes of model and data and absolute places. The model must have been loaded."""
    if isinstance(ask.model, Networks):
        place, hashed = str((out / MODEL).resolve()), (whole or _described(ask.model, out)).digest
    elif isinstance(ask.model, ModelObject):
        place, hashed = ask.model.place, ask.model.digest
    else:
        place, hashed = _place(ask.model), digest(ask.model)
    data = ask.data if ask.data.spec in catalog.names("data") else replace(ask.data, spec=_place(ask.data.spec))
    spec = Spec(
        place, hashed.hex, data, inputs.digest, len(inputs), tuple(inputs.shape), ask.noise, ask.procedure,
        ask.seed or 0, ask.preparation, hashed.covers,
    )  # fmt: skip
    return with_secret_seed(spec, out) if ask.seed is None else spec


def _place(spec: str) -> str:
    path = Path(spec.removeprefix("hf:"))  # a folder of Hugging Face is known without that
    return str(path.resolve()) if foreign.is_there(path) else spec


def _loaded(
    model: str | Networks | ModelObject, inputs: Inputs, out: Path
) -> tuple[Classifier, composite.Composite | None]:
    """The model, or the networks of a composition, found to go together, and what the run's folder will say of them."""
    if isinstance(model, str):
        return load_unused(model, inputs), None
    if isinstance(model, ModelObject):
        return model.classifier, None
    roles, models, noises = zip(*model.members, strict=True)
    members = tuple(load_unused(one, inputs) for one in models)
    if model.kind == "adapted":
        described = _described(model, out)
        return composite.called(members[0], described), described
    _refuse_unlike(dict(zip(roles, members, strict=True)), inputs)
    return Bundle(roles, members, noises), _described(model, out)


def _described(networks: Networks, out: Path) -> composite.Composite:
    members = tuple(
        composite.described(out / MODEL, model, role, None if noise is None else catalog.describe(noise))
        for role, model, noise in networks.members
    )
    return composite.Composite(networks.kind, members, options=networks.options)


def _refuse_unlike(networks: Mapping[str, Classifier], inputs: Inputs) -> None:
    """Networks that answer must have the same classes; a selector one for each branch."""
    found = {}
    for role, classifier in networks.items():
        try_once(classifier, inputs.tensor(0))
        found[role] = classes(classifier, inputs.tensor(0))
    branches = sum(role.startswith("branch") for role in networks) or 2
    if found.get("select", branches) != branches:
        raise ModelError(f"the selector must have {branches} classes, one a branch; got {found['select']}")
    answering = {role: number for role, number in found.items() if role != "select"}
    if len(set(answering.values())) > 1:
        words = ", ".join(f"{number} in {role}" for role, number in answering.items())
        raise ModelError(f"classes of a composition's networks must be the same; got {words}")
