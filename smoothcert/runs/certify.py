"""Carry out a recipe: every input that has no row yet goes through the engine, and its row is kept as it comes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.classifiers.composite import Composite
from smoothcert.contracts import (
    Certificate,
    Classifier,
    Draw,
    Executor,
    Job,
    Noise,
    Outcome,
    Source,
    Steps,
    Stream,
    batch_rows,
    input_key,
)
from smoothcert.data import Inputs
from smoothcert.engine import executor
from smoothcert.engine.batch_check import FixedShape, classes
from smoothcert.engine.engine import Engine
from smoothcert.engine.threads import Threads
from smoothcert.errors import DataError, ModelError
from smoothcert.noise import NoNoise
from smoothcert.preparation import device_of
from smoothcert.progress import Watcher
from smoothcert.runs import commit
from smoothcert.runs.remember import Remember
from smoothcert.runs.run import UNCOUNTED, Row
from smoothcert.runs.store import END, RunStore
from smoothcert.spec import MemberCalls, Recipe, Spec

if TYPE_CHECKING:
    from torch import Tensor

    from smoothcert.engine.cluster import Cluster

CHUNK = 32  # inputs whose noise is chosen together; few, so that the first draws come soon
FEW = 4  # the same for workers elsewhere, of which there may be many


def carry_out(
    recipe: Recipe,
    folder: Path,
    inputs: Inputs,
    classifier: Classifier,
    watcher: Watcher | None = None,
    cluster: Cluster | None = None,
    remember: Remember | None = None,
    whole: Composite | None = None,
    loaded: Classifier | None = None,
) -> int:
    """Answer the recipe's question for every input, continuing where an earlier attempt stopped: how many were left.

    On a cluster its workers load the recipe's model themselves; the rows are the same, and only this process writes.
    `loaded`: the model before it was made fast, where it is at hand, for searches that need its gradients.
    """
    watcher = watcher or Watcher()
    spec, means = recipe.spec, recipe.means
    procedure, source = spec.procedure, Source(classifier, spec.noise)
    prepare = prepared_by(spec, inputs.tensor(0), classifier, watcher.choosing, loaded)
    copies = prepare.copies if prepare else 0
    if getattr(procedure, "labelled", True):
        _refuse_labels(_base(classifier), inputs)
    labels = dict(zip(inputs.indices.tolist(), inputs.labels.tolist(), strict=True))
    recipe = _continued(recipe, folder)
    with cluster.connected() if cluster else contextlib.nullcontext(), RunStore(folder, recipe, whole) as store:
        store.belong(remember.reference if remember else None)
        if remember is not None and remember.order is None:
            _recall(remember, store, source, inputs, means.batch)
        done, before = store.done(), _calls(classifier)
        watcher.started(len(inputs), len(done), procedure.cap + copies)
        draws = executor(means.engine, means.batch or None, means.workers)
        if cluster is not None:
            draws, prepare = _elsewhere(cluster, recipe, inputs, classifier, prepare)
        engine = Engine(draws, spec.seed, watcher.rows)
        for outcome in engine.run(_jobs(procedure, source, inputs, done, prepare, spec.seed)):
            row = row_of(outcome, labels[outcome.index])
            store.add(row)
            watcher.finished((row.draws or 0) + copies)
        kept = tuple(dict.fromkeys([*means.notes, *engine.notes, *_wasted(engine, cluster)]))
        calls = _sum(classifier, recipe.means.member_calls, before)
        if remember is not None and remember.order is not None:
            remember.settle(store, inputs, spec.seed, watcher.remembering)
        store.write(replace(recipe, means=replace(recipe.means, notes=kept, member_calls=calls)), END)
        commit.told(folder)
    return len(inputs) - len(done)


def _recall(remember: Remember, store: RunStore, source: Source, inputs: Inputs, batch: int) -> None:
    """The rows of inputs that the memory answers; the network is asked about them without noise only."""
    done = store.done()
    places = [position for position, index in enumerate(inputs.indices.tolist()) if index not in done]
    found = [remember.answer(int(inputs.indices[p]), int(inputs.labels[p]), inputs.tensor(p)) for p in places]
    rows = {row.index: (row, position) for row, position in zip(found, places, strict=True) if row is not None}
    looks = (Job(index, inputs.tensor(position), _clean(source)) for index, (_, position) in rows.items())
    for outcome in Engine(Threads(batch or None)).run(looks):
        row, _ = rows[outcome.index]
        store.add(replace(row, seconds=outcome.seconds, clean=outcome.result, answers=outcome.answers))
    store.commit()


def _continued(recipe: Recipe, folder: Path) -> Recipe:
    """With the time of its beginning, and what earlier attempts have counted of an ensemble's members.

    An attempt that was killed has counted nothing.
    """
    path = folder / "recipe.toml"
    if not path.exists():
        return recipe
    earlier = Recipe.read(path).means
    return replace(recipe, means=replace(recipe.means, member_calls=earlier.member_calls, started=earlier.started))


def _calls(classifier: Classifier) -> tuple[int, int, int]:
    """Rows an ensemble was given so far, members asked, rows that did not need all; zeros for any other classifier."""
    tally = getattr(classifier, "tally", None)
    return (0, 0, 0) if tally is None else (tally.rows, tally.asked, tally.early)


def _sum(classifier: Classifier, earlier: MemberCalls | None, before: tuple[int, int, int]) -> MemberCalls | None:
    """Earlier attempts and this one together; None where nothing was counted, as in workers elsewhere."""
    past = (earlier.rows, earlier.asked, earlier.early) if earlier else (0, 0, 0)
    total = [a + b - c for a, b, c in zip(past, _calls(classifier), before, strict=True)]
    return MemberCalls(len(getattr(classifier, "members", ())), *total) if total[0] else None


def _elsewhere(
    cluster: Cluster, recipe: Recipe, inputs: Inputs, classifier: Classifier, prepare: Prepare | None
) -> tuple[Executor, Prepare | None]:
    """Workers on a cluster, which also choose noise levels where each input has its own."""
    from smoothcert.runs.remote import remote_executor  # it prepares with this file

    ray = remote_executor(cluster, recipe, inputs.tensor(0), classifier)
    return ray, None if prepare is None else replace(prepare, elsewhere=ray.choose)


def _wasted(engine: Engine, cluster: Cluster | None) -> list[str]:
    """What the record says of draws that workers made ahead of a look."""
    if cluster is None or not engine.wasted:
        return []
    return [f"{engine.wasted:,} draws made ahead of a look that decided were thrown away"]


@dataclass(frozen=True, eq=False)
class Prepare:
    """Chooses each input's noise by asking a network, here or elsewhere, and tells of every copy it looks at."""

    part: Any
    network: Classifier
    told: Callable[[int], None]
    elsewhere: Callable[[Iterable[Sequence[tuple[Tensor, Stream]]]], Iterator[list[Noise]]] | None = None

    @property
    def copies(self) -> int:
        """Of one input."""
        return int(self.part.copies)

    def __call__(self, noise: Noise, x: Tensor, streams: Sequence[Stream]) -> list[Noise]:
        def asked(rows: Tensor) -> Tensor:
            self.told(len(rows))
            return self.network(rows)

        return list(self.part(asked, noise, x, streams, device_of(self.network)))

    def over(self, noise: Noise, chunks: Iterable[Sequence[tuple[Tensor, Stream]]]) -> Iterator[list[Noise]]:
        """The noises of the inputs of each chunk, in order, as they are needed."""
        import torch

        if self.elsewhere is None:
            for chunk in chunks:
                xs, streams = zip(*chunk, strict=True)
                yield self(noise, torch.stack(xs), streams)
            return
        for found in self.elsewhere(chunks):
            self.told(len(found) * self.copies)
            yield found


def prepared_by(
    spec: Spec,
    example: Tensor,
    classifier: Classifier,
    told: Callable[[int], None] = lambda copies: None,
    loaded: Classifier | None = None,
) -> Prepare | None:
    """What chooses each input's noise; None where all have the same.

    It asks the classifier, in small batches, or where it needs gradients a copy of the model that has them.
    """
    part = spec.preparation
    if part is None:
        return None
    from smoothcert.classifiers import differentiable, load

    part.check(spec.noise)
    if part.search == "ascent":
        return Prepare(part, differentiable(loaded or load(spec.model), example), told)
    rows = getattr(classifier, "rows", None) or batch_rows(example.shape)
    return Prepare(part, FixedShape(classifier, rows), told)


def _jobs(
    procedure: Any, source: Source, inputs: Inputs, done: set[int], prepare: Prepare | None, seed: int
) -> Iterator[Job]:
    """Inputs on their way, each at its own noise where one is chosen; then a look without noise."""
    left = [position for position, index in enumerate(inputs.indices.tolist()) if index not in done]
    for position, noise in zip(left, _noises(source.noise, inputs, left, prepare, seed), strict=True):
        own, x, truth = replace(source, noise=noise), inputs.tensor(position), int(inputs.labels[position])
        level = None if prepare is None else float(getattr(noise, "sigma", 0.0))
        steps = with_clean(own, procedure(own, x.numel(), truth), level)
        yield Job(int(inputs.indices[position]), x, steps)


def _noises(noise: Noise, inputs: Inputs, places: Sequence[int], prepare: Prepare | None, seed: int) -> Iterator[Noise]:
    """The noise of the input at each place."""
    if prepare is None:
        yield from itertools.repeat(noise, len(places))
        return

    def named(place: int) -> tuple[Tensor, Stream]:
        x = inputs.tensor(place)
        return x, Stream(seed, input_key(x), "sigma")

    size = CHUNK if prepare.elsewhere is None else FEW
    chunks = ([named(place) for place in places[at : at + size]] for at in range(0, len(places), size))
    for found in prepare.over(noise, chunks):
        yield from found


def with_clean(
    source: Source, steps: Steps[Certificate], sigma: float | None
) -> Steps[tuple[int, Certificate, float | None]]:
    """The procedure, then the base classifier's own answer."""
    certificate = yield from steps
    clean = yield from _clean(source)
    return clean, certificate, sigma


def _clean(source: Source) -> Steps[int]:
    """The base classifier's own answer, without noise."""
    clean = yield Draw(Source(_base(source.classifier), NoNoise(source.noise)), 1, purpose="clean")
    return int(clean[0].argmax())


def _base(classifier: Classifier) -> Classifier:
    """The network that answers with classes; of a composition the one that stands for it."""
    base: Classifier = getattr(classifier, "base", classifier)
    return base


def row_of(outcome: Outcome, label: int) -> Row:
    clean, certificate, sigma = outcome.result
    draws = sum(answer.draws for answer in outcome.answers if answer.purpose not in UNCOUNTED)
    return Row(
        outcome.index,
        label,
        certificate.label,
        certificate.radius,
        draws,
        outcome.seconds,
        clean,
        certificate.evidence.low if certificate.evidence.low > 0 else None,
        outcome.answers,
        sigma,
    )


def _refuse_labels(classifier: Classifier, inputs: Inputs) -> None:
    """Labels must be classes of the classifier; one clean pass tells how many there are."""
    if len(inputs) == 0:
        raise DataError("the data must hold at least one input; got none")
    highest, known = int(np.max(inputs.labels)), classes(classifier, inputs.tensor(0))
    if highest >= known:
        raise ModelError(
            f"labels must be classes of the classifier, 0 to {known - 1}; the data has labels up to {highest}"
        )
