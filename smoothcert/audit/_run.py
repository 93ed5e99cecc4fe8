"""Every check of a run, one after the other. A check that needs the certified model is left out where it is gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from smoothcert import zoo
from smoothcert.audit._check import Check
from smoothcert.audit._claims import Claim, claims, sample
from smoothcert.bounds import check_alpha, check_draws
from smoothcert.classifiers import composite, differentiable, digest, load, ready
from smoothcert.classifiers.composed import Bundle
from smoothcert.contracts import Classifier, Source
from smoothcert.data import Inputs
from smoothcert.errors import ModelError, OptionError
from smoothcert.runs.run import Row
from smoothcert.runs.store import MODEL, read
from smoothcert.spec import Spec
from smoothcert.streams import check_seed

if TYPE_CHECKING:
    from torch import Tensor

    from smoothcert.audit.accuracy import Stand


@dataclass(frozen=True)
class Plan:
    """How much is tried."""

    inputs: int = 100  # certificates; −1: all
    n: int = 1000  # fresh draws that test a certificate again
    radii: tuple[float, ...] = ()  # at which accuracy under attack is asked for
    draws: int = 128
    steps: int = 10
    redraw: int = 3
    error: float = 0.001
    seed: int = 0
    threads: int | None = None

    def __post_init__(self) -> None:
        for name in ("n", "draws", "steps"):
            check_draws(getattr(self, name), name, "audit")
        check_alpha(self.error, "audit", "error")
        check_seed(self.seed)
        if self.inputs < -1 or self.inputs == 0:
            raise OptionError(f"inputs of audit must be -1 (all) or at least 1; got {self.inputs}")
        if self.redraw < 0:
            raise OptionError(f"redraw of audit must be 0 or more; got {self.redraw}")


class Places(NamedTuple):
    """Where things are now, if they have moved."""

    model: str | None = None
    data: str | None = None
    memory: str | None = None


@dataclass(frozen=True)
class Report:
    """What all checks found, and what is left under attack where that was asked for."""

    checks: Sequence[Check]
    stands: Sequence[Stand]
    error: float

    @property
    def violations(self) -> list[str]:
        return [violation for check in self.checks for violation in check.violations]


def audit(
    folder: Path,
    plan: Plan,
    places: Places,
    update: Callable[..., None] = lambda done, total, text="": None,
) -> Report:
    """Try to prove the run in this folder wrong."""
    from smoothcert.audit.counts import counts
    from smoothcert.audit.files import files
    from smoothcert.audit.noise import noise

    run = read(folder)
    spec = run.asked
    inputs = replace(spec.data, spec=places.data or spec.data.spec).load()
    loaded, found, changed = _model(folder, spec, places.model)
    checks = [files(spec, inputs, found, changed)]
    here = loaded if checks[0].held else None
    fast = _absent(folder) if here is None else ready(here, inputs.tensor(0), threads=plan.threads).classifier
    source = Source(fast, spec.noise)
    rows: list[Row] = sample(list(run.rows), plan.inputs, plan.seed)
    again = plan.redraw if here is not None else 0
    checks.append(counts(run, inputs, fast, again, plan.seed, _named(update, "counts"), places.memory))
    checks.append(noise(source.noise, inputs.tensor(0), rows, spec.seed, plan.error))
    if here is None:
        return Report([*checks, _untried("model and data that were certified are not here")], (), plan.error)
    more, stands = _asking(here, source, spec, inputs, run.rows, plan, update)
    return Report([*checks, *more], stands, plan.error)


def _asking(
    loaded: Classifier,
    source: Source,
    spec: Spec,
    inputs: Inputs,
    rows: Sequence[Row],
    plan: Plan,
    update: Callable[..., None],
) -> tuple[list[Check], list[Stand]]:
    """The checks that ask the model."""
    from smoothcert.audit.accuracy import accuracy
    from smoothcert.audit.attack import Force, attack
    from smoothcert.audit.batches import batches
    from smoothcert.audit.fresh import fresh

    if isinstance(source.classifier, Bundle):
        if plan.radii:
            raise OptionError("--radii must be asked of a run of one network; got a composition")
        return [_untried("a composition is not one smoothed network")], []
    procedure, example = spec.procedure, inputs.tensor(0)
    few = [(int(index), inputs.tensor(place)) for place, index in enumerate(inputs.indices[:4])]
    found: list[Claim] = []
    if spec.sampling is not None:
        found = sample(claims(rows, inputs, procedure, source), plan.inputs, plan.seed)
    chosen = sample(list(rows), plan.inputs, plan.seed) if plan.radii else []
    force = Force(_slopes(loaded, example), plan.steps, plan.draws, plan.seed)
    tick = _ticks(update, 2 * len(found) + len(chosen))
    checks = [
        batches(source, few, plan.seed),
        fresh(found, plan.n, plan.error, plan.seed, tick),
        attack(found, force, plan.error, tick),
    ]
    stands = accuracy(chosen, inputs, source, plan.radii, force, tick) if chosen else []
    return checks, stands


def _model(folder: Path, spec: Spec, model: str | None) -> tuple[Classifier | None, str, str]:
    """The model, its hash, and the reason where it is there but is not what it was."""
    own = folder / MODEL  # a composition is kept inside its run, and moves with it
    place = model or (str(own) if composite.is_composite(own) else spec.model)
    try:
        loaded = load(place)
        return loaded, digest(place).hex, ""
    except ModelError as error:
        if not zoo.located(place).exists():
            raise
        return None, digest(place).hex, str(error)


def _absent(folder: Path) -> Classifier:
    """In the place of a model that must not be asked: of a composition its outline, to replay what it answered."""
    if composite.is_composite(folder / MODEL):
        return composite.outline(folder / MODEL)

    def nobody(x: Tensor) -> Tensor:
        raise ModelError("a model that was not certified must not be asked")

    return nobody


def _untried(reason: str) -> Check:
    return Check("attack", 0, f"not tried, nor fresh draws and batches: {reason}")


def _slopes(loaded: Classifier, example: Tensor) -> Classifier | None:
    try:
        return differentiable(loaded, example)
    except ModelError:
        return None


def _ticks(update: Callable[..., None], total: int) -> Callable[[], None]:
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        update(done, total, "certificates")

    return tick


def _named(update: Callable[..., None], text: str) -> Callable[[int, int], None]:
    return lambda done, total: update(done, total, text)
