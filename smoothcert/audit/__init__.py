"""The sceptic: everything that could be wrong with a run, tried.

    files     are model and data those that were certified?
    counts    do stored counts give the stored radii, and the recorded seeds the stored counts?
    noise     is the noise what the theorem assumes: no repeats, right moments, nothing shared?
    batches   do scores depend on the batch?
    fresh     do certificates stand a test with noise that they have not seen?
    attack    does the label change inside a certified radius, where one looks for that?

On request: how accurate is the smoothed classifier at attacked points? A check that needs the certified model is left
out where it is gone. `chance.py` says how sure the audit is before it accuses. Nothing of the engine is used.
"""

from __future__ import annotations

import itertools
import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from torch import Tensor

from smoothcert.audit.assumptions import check_batches, check_noise
from smoothcert.audit.certificates import (
    Attacked,
    Certified,
    UnderAttack,
    accuracy_under_attack,
    check_attack,
    check_fresh,
)
from smoothcert.audit.chance import Check
from smoothcert.audit.search import Force
from smoothcert.bounds import check_alpha, check_draws
from smoothcert.classifiers import differentiable, ready
from smoothcert.classifiers.composed import Bundle
from smoothcert.contracts import ABSTAIN, Classifier, Source, input_key
from smoothcert.data import Inputs
from smoothcert.errors import ModelError, OptionError, RunError
from smoothcert.runs.run import Row, Run
from smoothcert.runs.verify import Places, absent_model, certified_model, changed_data, verify
from smoothcert.streams import check_seed

T = TypeVar("T")

MIXED = 4  # inputs whose noisy copies share batches


@dataclass(frozen=True)
class AuditPlan:
    """How much is tried."""

    inputs: int = 100  # certificates; −1: all
    n: int = 1000  # fresh draws that test a certificate again
    radii: tuple[float, ...] = ()  # at which accuracy under attack is asked for
    draws: int = 128
    steps: int = 10
    redraw: int = 3
    error: float = 0.001
    seed: int = field(default_factory=lambda: secrets.randbits(32))  # unless told, nobody can foresee what is tried
    threads: int | None = None
    kept: int = 0  # attacked points that the report keeps, for a picture

    def __post_init__(self) -> None:
        for name in ("n", "draws", "steps"):
            check_draws(getattr(self, name), name, "audit")
        check_alpha(self.error, "audit", "error")
        check_seed(self.seed)
        if self.inputs < -1 or self.inputs == 0:
            raise OptionError(f"inputs of audit must be -1 (all) or at least 1; got {self.inputs}")
        if self.redraw < 0:
            raise OptionError(f"redraw of audit must be 0 or more; got {self.redraw}")

    def sample(self, items: Sequence[T]) -> Sequence[T]:
        """As many of them as are to be looked at, chosen by the seed."""
        return items if not 0 <= self.inputs < len(items) else random.Random(self.seed).sample(items, self.inputs)


@dataclass(frozen=True)
class AuditReport:
    """What all checks found, and what is left under attack where that was asked for."""

    checks: Sequence[Check]
    under_attack: Sequence[UnderAttack]
    error: float
    seed: int  # that chose what was tried
    attacked: Sequence[Attacked] = ()  # as many as the plan keeps, spread over the radii

    @property
    def violations(self) -> list[str]:
        return [violation for check in self.checks for violation in check.violations]


def audit(
    run: Run,
    plan: AuditPlan,
    places: Places,
    update: Callable[..., None] = lambda done, total, text="": None,
) -> AuditReport:
    """Try to prove a run wrong."""
    spec = run.asked
    if not spec.revealed:
        raise RunError(f"run {run.name} must be complete, and its seed told, to be audited")
    inputs = places.inputs(run)
    loaded, changed = certified_model(run, places)
    problems = [*changed, *changed_data(spec, inputs)]
    checks = [Check("files", 2, "hashes of model and data held against the record", tuple(problems))]
    here = loaded if not problems else None
    fast = absent_model(run) if here is None else ready(here, inputs.tensor(0), threads=plan.threads).classifier
    source = Source(fast, spec.noise) if spec.sampling is None else Source(fast, spec.noise, spec.sampling.readout)
    counted = plan if here else replace(plan, redraw=0)
    checks.append(_check_counts(run, inputs, fast, counted, places.memory, update, here))
    keyed = {input_key(x): row for row, x in _with_inputs(plan.sample(run.rows), inputs)}
    checks.append(check_noise(spec.noise, inputs.tensor(0), keyed, spec.seed, plan.error))
    if here is None:
        return AuditReport(
            [*checks, _untried("model and data that were certified are not here")], (), plan.error, plan.seed
        )
    more, under_attack, attacked = _ask(here, source, run, inputs, plan, update)
    return AuditReport([*checks, *more], under_attack, plan.error, plan.seed, attacked)


def _check_counts(
    run: Run,
    inputs: Inputs,
    classifier: Classifier,
    plan: AuditPlan,
    memory: str | None,
    update: Callable[..., None],
    loaded: Classifier | None,
) -> Check:
    """What `smoothcert verify` asks: rows recomputed, some drawn again, a memory's answers replayed."""
    found = verify(
        run, inputs, classifier, plan.redraw, plan.seed, lambda *done: update(*done, "counts"), memory, loaded
    )
    again = f"; {found.redrawn} inputs drawn again, {found.votes} votes" if found.redrawn else ""
    settled = f"; {found.settled} answers of a memory replayed" if found.settled else ""
    tried = f"{found.rows} radii recomputed from stored counts{again}{settled}"
    return Check("counts", found.rows + found.redrawn + found.settled, tried, tuple(found.problems))


def _ask(
    loaded: Classifier, source: Source, run: Run, inputs: Inputs, plan: AuditPlan, update: Callable[..., None]
) -> tuple[list[Check], list[UnderAttack], list[Attacked]]:
    """The checks that ask the model."""
    if isinstance(source.classifier, Bundle):
        if plan.radii:
            raise OptionError("--radii must be asked of a run of one network; got a composition")
        return [_untried("a composition is not one smoothed network")], [], []
    spec, few = run.asked, [(int(index), inputs.tensor(place)) for place, index in enumerate(inputs.indices[:MIXED])]
    rows = [row.smoothed for row in run.rows]
    proven = [row for row in rows if row.predicted != ABSTAIN and spec.sampling is not None]
    found = [Certified.of(row, x, spec, source) for row, x in _with_inputs(plan.sample(proven), inputs)]
    chosen = _with_inputs(plan.sample(rows), inputs) if plan.radii else []
    force = Force(_slopes(loaded, inputs.tensor(0)), plan.steps, plan.draws, plan.seed)
    done, total = itertools.count(1), 2 * len(found) + len(chosen)
    wanted, attacked = _spread(found, plan.kept), list[Attacked]()

    def tick() -> None:
        update(next(done), total, "certificates")

    def keep(one: Attacked) -> None:
        if one.certified in wanted:
            attacked.append(one)

    checks = [
        check_batches(source, few, plan.seed),
        check_fresh(found, plan.n, plan.error, plan.seed, tick),
        check_attack(found, force, plan.error, tick, keep),
    ]
    box = spec.data.scale is None
    left = accuracy_under_attack(chosen, source, plan.radii, force, tick, box) if chosen else []
    return checks, left, sorted(attacked, key=lambda one: one.certified.radius)


def _spread(certificates: Sequence[Certified], number: int) -> list[Certified]:
    """So many of those that have a radius, from the smallest to the largest, evenly apart."""
    wide = sorted((one for one in certificates if one.radius > 0), key=lambda one: (one.radius, one.index))
    if number >= len(wide):
        return wide
    return [wide[round((i + 0.5) * len(wide) / number - 0.5)] for i in range(number)]


def _with_inputs(rows: Sequence[Row], inputs: Inputs) -> list[tuple[Row, Tensor]]:
    """Each row with its input; rows that the data have no input for are named where counts are checked."""
    places = {index: place for place, index in enumerate(inputs.indices.tolist())}
    return [(row, inputs.tensor(places[row.index])) for row in rows if row.index in places]


def _untried(reason: str) -> Check:
    return Check("attack", 0, f"not tried, nor fresh draws and batches: {reason}")


def _slopes(loaded: Classifier, example: Tensor) -> Classifier | None:
    try:
        return differentiable(loaded, example)
    except ModelError:
        return None
