"""Models of several networks, made and written: an ensemble that hold-out inputs complete, a denoised classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from smoothcert import zoo
from smoothcert.classifiers import composite, load, ready
from smoothcert.classifiers.composite import CLASSIFIER, Composite, Part
from smoothcert.contracts import Classifier
from smoothcert.ensembles.holdout import HoldoutInputs, fitted_on
from smoothcert.ensembles.soft_vote import SoftVote
from smoothcert.ensembles.spec import AS_GIVEN, EnsembleChoice, EnsembleSpec, falling, refuse_unlike, vote_part
from smoothcert.errors import ModelError, OptionError


class MadeEnsemble(NamedTuple):
    """What was written, what was decided on the way, and what hold-out inputs say of the whole."""

    composite: Composite
    choice: EnsembleChoice
    members: tuple[str, ...]  # those chosen, in the order that `choice` counts them in
    accuracy: float | None = None  # under noise, of all together
    asked: float | None = None  # members a draw


def make_ensemble(
    out: Path,
    members: Sequence[str],
    spec: EnsembleSpec,
    holdout: HoldoutInputs | None = None,
    threads: int | None = None,
) -> MadeEnsemble:
    """Load the members, decide who they are, weights and order, and write the folder; refused before it is written."""
    composite.refuse_strangers(out, "ensemble")
    loaded = [load(member) for member in members]
    facts = composite.facts(members)
    fast = tuple(loaded) if holdout is None else _fast(loaded, members, holdout, threads)
    best = _best(spec, fast, holdout)
    members, loaded, fast = ([each[number] for number in best] for each in (members, loaded, fast))  # type: ignore[assignment]
    choice = spec.choose(loaded, fast, holdout)
    if spec.best is not None and choice.reason == AS_GIVEN:
        choice = choice._replace(reason=f"accuracy under noise on hold-out inputs, the best {spec.best}")
    whole: Any = composite.compose([fast[number] for number in choice.order], choice.vote, spec.cascade)
    kept, accuracy, asked = None, None, None
    if holdout is not None and choice.accuracy is not None:
        (accuracy,) = holdout.accuracy([whole])
        asked = whole.tally.asked / whole.tally.rows
        single = [choice.accuracy[number] for number in choice.order]
        kept = {**holdout.record(), "accuracy": single, "ensemble_accuracy": accuracy, "report": dict(choice.report)}
    parts = tuple(composite.described(out, members[number]) for number in choice.order)
    made = Composite("ensemble", parts, choice.vote, spec.cascade, {}, choice.reason, facts, kept)
    composite.write(out, made)
    return MadeEnsemble(made, choice, tuple(members), accuracy, asked)


def _best(spec: EnsembleSpec, fast: Sequence[Classifier], holdout: HoldoutInputs | None) -> list[int]:
    """Whom the ensemble is made of: all, or so many with the highest accuracy under noise, best first."""
    if spec.best is None:
        return list(range(len(fast)))
    if holdout is None:
        raise OptionError(f"best of an ensemble needs hold-out inputs; got {spec.best} without any")
    if spec.best > len(fast):
        raise OptionError(f"best of an ensemble must be at most its {len(fast)} members; got {spec.best}")
    return falling(holdout.accuracy(fast))[: spec.best]


def _fast(
    loaded: Sequence[Classifier], names: Sequence[str], holdout: HoldoutInputs, threads: int | None
) -> tuple[Classifier, ...]:
    """The members made fast for the hold-out inputs, and found to go together."""
    example = holdout.inputs.tensor(0)
    refuse_unlike(loaded, names, example)
    together: Any = ready(SoftVote(tuple(loaded)), example, threads=threads).classifier
    return tuple(together.members)


class MadeDenoised(NamedTuple):
    """What was written, and whether its parts were found to fit: some part must say the shape of its inputs."""

    composite: Composite
    checked: bool


def make_denoised(out: Path, model: str, denoisers: Sequence[str], vote: str | None = None) -> MadeDenoised:
    """A classifier behind one or several denoisers; refused before anything is written."""
    part = _denoisers_vote(vote, len(denoisers))
    composite.refuse_strangers(out, "denoised")
    if fitted_on(zoo.located(model)):
        raise ModelError(
            f"model {model} must not be an ensemble fitted on hold-out inputs; got one "
            "(put its members behind the denoiser, then make the ensemble of these)"
        )
    shape = _shape([model, *denoisers])
    loaded, classifier = {spec: load(spec) for spec in dict.fromkeys(denoisers)}, load(model)
    if shape is not None:
        _refuse_misfits(loaded, (model, classifier), shape)
    members = [composite.described(out, spec, "denoiser") for spec in denoisers]
    made = Composite("denoised", (*members, composite.described(out, model, CLASSIFIER)), part)
    composite.write(out, made)
    return MadeDenoised(made, shape is not None)


def _refuse_misfits(denoisers: Mapping[str, Classifier], model: tuple[str, Classifier], shape: tuple[int, ...]) -> None:
    """Denoisers must give back images, and the model scores."""
    for spec, denoiser in denoisers.items():
        if (answer := _answer(f"denoiser {spec}", denoiser, shape)) != list(shape):
            got = f"{answer} (a classifier?)" if len(answer) == 1 else answer
            raise ModelError(f"denoiser {spec} must give back inputs of shape {list(shape)}; got outputs {got}")
    if len(answer := _answer(f"model {model[0]}", model[1], shape)) != 1:
        hint = " (a denoiser?)" if answer == list(shape) else ""
        raise ModelError(f"model {model[0]} must give scores, one a class; got outputs {answer}{hint}")


def _denoisers_vote(vote: str | None, denoisers: int) -> Part | None:
    if denoisers > 1:
        return vote_part(vote or "soft", None, denoisers)
    if vote is not None:
        raise OptionError(f"vote of a denoised classifier needs several denoisers; got {vote} with one")
    return None


def _shape(specs: Sequence[str]) -> tuple[int, ...] | None:
    """The shape of inputs, as far as the parts' own files say it; refused where they differ in it or in the range."""
    said = {spec: facts for spec in specs if (facts := composite.facts([spec]))}
    for name in ("shape", "range"):
        found = {spec: facts.get(name) for spec, facts in said.items()}
        first = next(iter(found), "")
        for spec, value in found.items():
            if value != found[first]:
                raise ModelError(f"{name} of {spec} must be that of {first}, {found[first]}; got {value}")
    shapes = [facts["shape"] for facts in said.values() if facts.get("shape")]
    return tuple(shapes[0]) if shapes else None


def _answer(whose: str, part: Any, shape: tuple[int, ...]) -> list[int]:
    """The shape of what it says of one input."""
    import torch

    rows = getattr(part, "rows", None) or 1
    try:
        return list(part(torch.full((rows, *shape), 0.5)).shape[1:])
    except (ModelError, RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{whose} must accept inputs of shape {list(shape)}; got: {reason}") from error
