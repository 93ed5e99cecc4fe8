"""Check a run with nothing but the run: its record, every radius from its counts, and some rows drawn again.

    record      every entry is chained to the one before; recipe and journal agree; a committed seed is the one
    inputs      every input of the data has its row, and no other
    counts      radius, label, bound and draws follow from the stored counts (`runs.recompute`)
    memory      what a memory answered is replayed by other code (`runs.verify_memory`)
    draws       some rows, chosen so that nobody can foresee them, are drawn again (`runs.redraw`)

What none of this can show is listed as left open.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from smoothcert import foreign, zoo
from smoothcert.classifiers import composite, differentiable, digest, load, ready
from smoothcert.contracts import Classifier, Source, Tensor
from smoothcert.data import Inputs
from smoothcert.errors import ModelError, RunError
from smoothcert.runs.recompute import recompute
from smoothcert.runs.redraw import WholeBatches, draw_again, level_again, rows_of, spread_out, usual
from smoothcert.runs.run import Row, Run
from smoothcert.runs.store import MODEL, links, recorded
from smoothcert.runs.verify_memory import replay_memory
from smoothcert.spec import Recipe, Spec

ALL = -1  # rows to draw again: every one
UNTOLD = "seconds, notes, command and versions are as somebody wrote them down"


@dataclass
class Findings:
    """What was looked at, and everything that is not as it should be."""

    rows: int = 0
    redrawn: int = 0
    votes: int = 0  # draws redrawn in all
    explained: int = 0  # votes that moved between classes whose scores are equal up to rounding
    settled: int = 0  # answers of a memory, replayed
    attempts: int = 0  # in which the rows came about: the first, and each that continued it
    redrawn_attempts: int = 0  # of these, with a row that was drawn again
    problems: list[str] = field(default_factory=list)
    left_open: list[str] = field(default_factory=list)  # what this check does not show
    signers: list[str] = field(default_factory=list)  # trusted keys that have signed it


class Places(NamedTuple):
    """Where things are now, if they have moved."""

    model: str | None = None
    data: str | None = None
    memory: str | None = None
    secret: str | None = None  # of the service that answered, once it is told

    def inputs(self, run: Run) -> Inputs:
        return replace(run.data, spec=self.data or run.data.spec).load()

    def model_of(self, run: Run) -> str:
        """A composition is kept inside its run, and moves with it."""
        own = None if run.folder is None else run.folder / MODEL
        return self.model or (str(own) if own is not None and composite.is_composite(own) else run.asked.model)


def verify_run(
    run: Run,
    places: Places | None = None,
    redraw: int | None = None,
    seed: int | None = None,
    advance: Callable[[int, int], None] = lambda done, total: None,
    threads: int | None = None,
) -> Findings:
    """Hold what a run was made with against its hashes, and verify the run; `redraw`: rows, ALL or the usual number.

    A model that is not the certified one is not asked anything. Where nothing is drawn again, none is loaded.
    """
    places, spec = places or Places(), run.asked
    inputs = places.inputs(run)
    loaded, changed = (None, list[str]()) if redraw == 0 else certified_model(run, places)
    changed += changed_data(spec, inputs)
    if loaded is None:
        findings = verify(run, inputs, absent_model(run), 0, seed, advance, places.memory)
    else:
        classifier = ready(loaded, inputs.tensor(0), threads=threads).classifier
        findings = verify(run, inputs, classifier, redraw, seed, advance, places.memory, loaded)
    return replace(findings, problems=[*changed, *findings.problems])


def verify(
    run: Run,
    inputs: Inputs,
    classifier: Classifier,
    redraw: int | None = None,
    seed: int | None = None,
    advance: Callable[[int, int], None] = lambda done, total: None,
    memory: str | None = None,
    loaded: Classifier | None = None,
) -> Findings:
    """The record, every row recomputed, some rows drawn again; findings instead of exceptions.

    `seed` chooses which rows are drawn again; None: nobody can foresee them. `memory`: where it is now. `loaded`: the
    model before it was made fast, for searches that need its gradients.
    """
    spec, findings = run.asked, Findings()
    source = Source(classifier, spec.noise)
    findings.problems += [*_record(run), *_inputs(run, inputs), *committed_seed(spec)]
    drawn = [row.smoothed for row in run.rows if not _recalled(row, run)]
    findings.rows = len(drawn)
    for row in drawn:
        findings.problems += _about(row, recompute(row, spec, source))
    if run.memory is not None:
        findings.settled = sum(row.settled is not None for row in run.rows)
        findings.problems += replay_memory(run, run.memory, inputs, memory, spec.seed)
    elif memory is not None:
        raise RunError(f"{run.name} must be a run with a memory if one is given; got {memory} and a run without")
    number = (0 if not spec.revealed else usual(len(drawn)) if redraw is None else redraw) if drawn else 0
    places = {index: place for place, index in enumerate(inputs.indices.tolist())}
    known = [row for row in drawn if row.index in places]
    sample = known if number == ALL else spread_out(known, number, seed)
    findings.attempts, findings.redrawn_attempts = (len({row.attempt for row in rows}) for rows in (drawn, sample))
    draw_rows([(row, inputs.tensor(places[row.index])) for row in sample], spec, source, loaded, findings, advance)
    findings.left_open += _left_open(spec, findings)
    return findings


def draw_rows(
    sample: Sequence[tuple[Row, Tensor]],
    spec: Spec,
    source: Source,
    loaded: Classifier | None,
    findings: Findings,
    advance: Callable[[int, int], None],
) -> None:
    """Draw rows again, each with the search for its level where it has one."""
    total, done = sum(row.draws or 0 for row, _ in sample), 0

    def told(votes: int) -> None:
        nonlocal done
        done += votes
        advance(done, total)

    search = _searching(spec, source.classifier, loaded, sample[0][1]) if sample and spec.preparation else None
    for row, x in sample:
        found = draw_again(row, x, spec, source, told)
        if search is not None:
            found.problems += level_again(row, x, spec, search)
        findings.redrawn += 1
        findings.votes += found.votes
        findings.explained += found.excused
        findings.problems += _about(row, found.problems)


def _searching(spec: Spec, classifier: Classifier, loaded: Classifier | None, x: Tensor) -> Classifier | None:
    """What a search for levels asks: the model, with its gradients where it climbs; None where there is none."""
    if spec.preparation is not None and spec.preparation.search != "ascent":
        return WholeBatches(classifier, rows_of(classifier, x))
    try:
        return None if loaded is None else differentiable(loaded, x)
    except ModelError:
        return None


def _about(row: Row, problems: Iterable[str]) -> list[str]:
    return [f"input {row.index}: {problem}" for problem in problems]


def _record(run: Run) -> list[str]:
    """The chain of the run's entries, and its recipe against the journal."""
    if run.folder is None or run.spec is None or run.means is None:
        return []
    problems, _ = links(run.folder)
    # A kill between the two writings leaves the recipe of the entry before.
    told, last = json.loads(json.dumps(Recipe(run.spec, run.means).tables())), recorded(run.folder)[-2:]
    if told not in last:
        differing = [
            f"{key} {told[table].get(key)!r} ≠ {last[-1].get(table, {}).get(key)!r}"
            for table in ("question", "means")
            for key in dict.fromkeys([*told[table], *last[-1].get(table, {})])
            if told[table].get(key) != last[-1].get(table, {}).get(key)
        ]
        problems.append(f"recipe.toml is not what the run's journal says: {'; '.join(differing)[:300]}")
    return problems


def _inputs(run: Run, inputs: Inputs) -> list[str]:
    """Every input of the data has its row, with its label, and there are no others."""
    spec, rows = run.asked, {row.index: row for row in run.rows}
    labels = dict(zip(inputs.indices.tolist(), inputs.labels.tolist(), strict=True))
    problems = []
    if missing := [index for index in labels if index not in rows]:
        some = ", ".join(map(str, missing[:5])) + ("…" if len(missing) > 5 else "")
        problems.append(f"the run is unfinished: {len(missing)} of {len(labels)} inputs have no row ({some})")
    if spec.inputs != len(inputs):
        problems.append(f"the question says {spec.inputs} inputs; the data has {len(inputs)}")
    if spec.shape != tuple(inputs.shape):
        problems.append(f"the question says inputs of shape {list(spec.shape)}; the data's are {list(inputs.shape)}")
    for index, row in rows.items():
        if index not in labels:
            problems.append(f"input {index}: it is not among those that were asked for")
        elif labels[index] != row.label:
            problems.append(f"input {index}: label {row.label} is not the data's {labels[index]}")
    return problems


def committed_seed(spec: Spec) -> list[str]:
    """A seed that was committed to must be that one."""
    if spec.served is not None and spec.revealed and not spec.served.opens(spec.seed, spec.question):
        return ["the seed is not the one that the secret of the service gives, or the secret not the one committed to"]
    if spec.commitment is None or not spec.revealed or spec.commitment.opens(spec.seed, spec.question):
        return []
    return ["the seed is not the one that the run was committed to before its first draw"]


def _left_open(spec: Spec, findings: Findings) -> list[str]:
    """What a check of this extent cannot show."""
    found = []
    if not spec.revealed:
        found.append("the seed is told when the run is complete: until then nothing can be drawn again")
    elif findings.redrawn < findings.rows:
        found.append(
            f"{findings.rows - findings.redrawn} of {findings.rows} rows were not drawn again: counts invented there "
            "would not show (--redraw all)"
        )
    if spec.commitment is not None and spec.commitment.attempt > 1:
        found.append(
            f"it is attempt {spec.commitment.attempt} at this question: earlier ones were drawn with other seeds, and "
            "the best of several overstates"
        )
    return [*found, UNTOLD]


def _recalled(row: Row, run: Run) -> bool:
    """Whether a memory that no longer changes answered instead of draws; the replay of the memory holds it to that."""
    return row.settled is not None and run.memory is not None and run.memory.frozen


def certified_model(run: Run, places: Places) -> tuple[Classifier | None, list[str]]:
    """The model, if it is the one that was certified; else None, and why. Files are hashed before they are loaded."""
    spec, place = run.asked, places.model_of(run)
    whose = "certificate" if run.folder is None else "run"
    named_by = "" if places.model is not None else f"{whose} {run.name}"
    if (own := _adapted(run, places)) is not None:
        return own, []
    other = [f"model {place} is not the one that was certified (its hash differs)"]
    if foreign.is_there(zoo.located(place)):
        try:
            if digest(place).hex != spec.model_digest:
                return None, other
            return load(place, named_by), []
        except ModelError as error:
            if not composite.is_composite(zoo.located(place)):
                raise
            return None, [str(error)]  # it is there, but a part of it was replaced
    loaded = load(place, named_by)
    return (loaded, []) if digest(place).hex == spec.model_digest else (None, other)


def _adapted(run: Run, places: Places) -> Classifier | None:
    """A model that has moved, called as the run's own folder says; None where neither is what was certified."""
    own = None if run.folder is None else run.folder / MODEL
    if places.model is None or own is None or composite.kind_of(own) != "adapted":
        return None
    said = composite.read(own)
    loaded = load(places.model)  # of a callable the hash needs it imported
    same = said.digest.hex == run.asked.model_digest and digest(places.model).hex == said.members[0].digest
    return composite.called(loaded, said) if same else None


def changed_data(spec: Spec, inputs: Inputs) -> list[str]:
    """Whether the data are still what the run was made with."""
    same = inputs.digest == spec.data_digest
    return [] if same else [f"data {spec.data.spec} is not what was certified (its hash differs)"]


def absent_model(run: Run, places: Places | None = None) -> Classifier:
    """In the place of a model that must not be asked: of a composition its outline, to replay what it answered."""
    own = zoo.located((places or Places()).model_of(run)) if run.folder is None else run.folder / MODEL
    if composite.is_composite(own) and composite.kind_of(own) in ("aces", "route"):
        return composite.outline(own)

    def nobody(x: Tensor) -> Tensor:
        raise ModelError("a model that was not certified must not be asked")

    return nobody
