"""Runs on the same inputs that differ in what somebody chose, and what it costs to pick among them afterwards.

Of several seeds, noise levels or budgets on the same inputs the best looks better than it is: its figures were picked
by the inputs that they are about. Its certificates still hold, each with the risk of all tries together (the union
bound: α added up), since whichever is picked is one of them. Comparing models is what inputs are for; the winner's
figures are optimistic all the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from smoothcert.catalog import describe
from smoothcert.foreign import one_line
from smoothcert.report.families import composite_of
from smoothcert.report.metrics import same_inputs
from smoothcert.runs.run import Run

PARTS = ("noise", "procedure", "sampling", "preparation")
SUBSET = ("skip", "max", "start")
LABELS = {"sigma": "σ", "alpha": "α", "beta": "β", "theta": "θ", "against": "tested class"}
MOST = 5  # names and values in a sentence
ROUNDED = 0.001  # what a log may have taken from a radius
NONE = "none"


@dataclass(frozen=True)
class Tries:
    """Different runs on the same inputs, of one kind and norm."""

    runs: tuple[Run, ...]  # two or more; copies of one run count once
    models: int
    again: bool  # one model was tried under several settings
    differs: Mapping[str, tuple[str, ...]]  # what was chosen → its values, in the order of the runs

    @property
    def alpha(self) -> float | None:
        """The risk of each certificate of whichever run is picked; None where a log does not say, or there is none."""
        known = [run.claim.alpha for run in self.runs]
        total = math.fsum(alpha for alpha in known if alpha is not None)
        return min(1.0, total) if None not in known and total > 0.0 else None

    @property
    def words(self) -> str:
        """One sentence, for a line below a table."""
        if self.again:
            return self._tried_again()
        names, said = _listed([run.name for run in self.runs]), _differences(self.differs)
        logs = any(run.spec is None for run in self.runs)
        what = f"are of {self._inputs}, and logs do not say in what they differ" if logs else (
            f"are different models on {self._inputs}" + (f" and differ in {said}" if said else "")
        )  # fmt: skip
        return (
            f"{names} {what}: comparing them is fair, but the figures of the one that is picked as the best of "
            f"{len(self.runs)} are optimistic; other inputs would show by how much"
        )

    @property
    def _inputs(self) -> str:
        return "the same inputs" if same_inputs(self.runs) else "partly the same inputs"

    def _tried_again(self) -> str:
        names, tries = _listed([run.name for run in self.runs]), len(self.runs)
        certified = self.runs[0].kind == "certify"
        does, made = ("certify", "certificates") if certified else ("answer for", "answers")
        models = [f"model ({self.models} of them)"] if self.models > 1 else []
        said = ", ".join(filter(None, (*models, _differences(self.differs))))
        alphas = {run.claim.alpha for run in self.runs}
        instead = f" in place of {alphas.pop():g}" if len(alphas) == 1 else ""
        risk = f" (its {made} hold at α = {self.alpha:g}{instead})" if self.alpha is not None else ""
        if list(self.differs) == ["seed"] and self.models == 1:
            return (
                f"{names} {does} {self._inputs} and differ in {said} alone, as repeated draws of one question: any of "
                "them is as valid as another, but picking the best afterwards overstates it; name one beforehand, or "
                f"correct for {tries} tries{risk}"
            )
        return (
            f"{names} {does} {self._inputs} and differ in {said}: picking the best of them afterwards overstates it; "
            f"choose on other inputs, or correct for {tries} tries{risk}"
        )


def notes(runs: Sequence[Run]) -> list[str]:
    """A sentence for each set of inputs that several of the runs share."""
    return [found.words for found in tries(runs)]


def tries(runs: Sequence[Run]) -> Iterator[Tries]:
    """Runs that share inputs together, in the order of the first of each."""
    groups: list[list[Run]] = []
    for run in _once(runs):
        group = next((group for group in groups if any(_share_inputs(run, other) for other in group)), None)
        if group is None:
            groups.append([run])
        else:
            group.append(run)
    found = [_tries(group) for group in groups if len(group) > 1]
    yield from (one for one in found if one.again or one.models > 1)


def _tries(runs: Sequence[Run]) -> Tries:
    models = [_model(run) for run in runs]
    differs = _unlike([_settings(run) for run in runs if run.spec is not None])
    again = len(set(models)) < len(runs) and bool(differs)
    return Tries(tuple(runs), len(set(models)), again, differs)


def _once(runs: Sequence[Run]) -> list[Run]:
    """Without copies, which are no second try: a run that stands there twice, the log of a run."""
    kept: list[Run] = []
    for run in runs:
        if not any(_copied(run, other) for other in kept):
            kept.append(run)
    return kept


def _copied(one: Run, two: Run) -> bool:
    if one.spec is not None and two.spec is not None:
        return _identity(one) == _identity(two)
    return len(one.rows) == len(two.rows) and all(
        (a.index, a.label, a.predicted) == (b.index, b.label, b.predicted) and abs(a.radius - b.radius) < ROUNDED
        for a, b in zip(one.rows, two.rows, strict=True)
    )


def _identity(run: Run) -> Hashable:
    """Of a run of ours. A callable's hash is that of its file: its name counts."""
    place = run.asked.model if run.asked.model_covers == "source" else ""
    return run.asked.fingerprint, place, run.memory and run.memory.identity


def _share_inputs(one: Run, two: Run) -> bool:
    if (one.kind, one.claim.ruler) != (two.kind, two.claim.ruler):
        return False
    if one.spec is None or two.spec is None:
        return [(row.index, row.label) for row in one.rows] == [(row.index, row.label) for row in two.rows]
    if one.spec.data_digest == two.spec.data_digest:
        return True
    here, there = (replace(run.spec.data, skip=1, max=-1, start=0) for run in (one, two) if run.spec is not None)
    # The same subset under another hash holds other values.
    differ = one.spec.data != two.spec.data
    return differ and here == there and not {row.index for row in one.rows}.isdisjoint(row.index for row in two.rows)


def _model(run: Run) -> Hashable:
    """Equal for runs of one model, or of the same members put together otherwise: weights are a setting, too."""
    if run.spec is None:
        return id(run)
    found = composite_of(run)
    if found is None:
        return run.spec.model_digest, run.spec.model if run.spec.model_covers == "source" else ""
    return found.kind, tuple(sorted((member.digest, "" if member.path else member.place) for member in found.members))


def _settings(run: Run) -> dict[str, Mapping[str, Any]]:
    """What was chosen, in parts; a part is its name and its options."""
    spec, found = run.asked, composite_of(run)
    parts = {name: describe(part) for name in PARTS if (part := getattr(spec, name)) is not None}
    put = {} if found is None else {"vote": found.vote or {}, "cascade": found.cascade or {}}
    # Where every case of the noise is counted, nothing is drawn.
    seed = {"seed": spec.seed} if spec.alpha > 0.0 else {}
    memory = NONE if run.memory is None else run.memory.identity[:8]
    return {
        "": {**seed, "memory": memory, **{key: getattr(spec.data, key) for key in SUBSET}},
        **{name: parts.get(name, {}) for name in PARTS},
        **put,
    }


def _unlike(settings: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, tuple[str, ...]]:
    """What differs, with its values. Of parts of different names, only the options that all of them have."""
    found: dict[str, tuple[str, ...]] = {}
    for part in [part for part in (settings or [{}])[0] if all(part in one for one in settings)]:
        options = [one[part] for one in settings]
        named = tuple(dict.fromkeys(str(one.get("name", NONE)) for one in options))
        if part and len(named) > 1:
            found[part] = named
        for key in dict.fromkeys(key for one in options for key in one if key != "name"):
            values = tuple(dict.fromkeys(_shown(one.get(key)) for one in options))
            if len(values) > 1 and (len(named) == 1 or all(key in one for one in options)):
                found[LABELS.get(key, key.replace("_", " "))] = values
    return found


def _shown(value: Any) -> str:
    if value is None:
        return NONE
    return "/".join(map(_shown, value)) if isinstance(value, list | tuple) else str(value)


def _differences(differs: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(
        f"{name} ({', '.join(map(one_line, values[:MOST]))}{', …' if len(values) > MOST else ''})"
        for name, values in differs.items()
    )


def _listed(names: Sequence[str]) -> str:
    """`a, b and c`; a name that several bear is counted, and of many the first are named."""
    shown = [f"{one_line(name)} (×{times})" if times > 1 else one_line(name) for name, times in Counter(names).items()]
    if len(shown) > MOST + 1:
        shown = [*shown[:MOST], f"{len(shown) - MOST} others"]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
