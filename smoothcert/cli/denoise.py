"""`smoothcert denoise`: a classifier behind one or several denoisers, as a small folder that loads like a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli import _options as o
from smoothcert.errors import ModelError, OptionError

if TYPE_CHECKING:
    from smoothcert.contracts import Classifier


def command(
    model: o.Model,
    denoisers: Annotated[
        list[str],
        typer.Option("--with", metavar="DENOISER", help="A network that gives back images; again: an ensemble."),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write composite.json into.")],
    vote: Annotated[
        str | None, typer.Option(help="Of several denoisers: soft (default), softmax, hard, max_margin.")
    ] = None,
) -> None:
    """Put a denoiser before a classifier: a folder that every command takes as MODEL. Nothing is trained here.

    smoothcert train --arch dncnn17 --objective denoise --data cifar10 --sigma 0.25 --out models/d
    smoothcert denoise clean.safetensors --with models/d --out models/clean-d
    """
    from smoothcert.classifiers import composite, load

    # Everything that can be refused is refused before anything is written.
    part = _vote(vote, len(denoisers))
    composite.refuse_strangers(out, "denoised")
    _refuse_fitted(model)
    shape = _shape([model, *denoisers])
    loaded = {spec: load(spec) for spec in dict.fromkeys(denoisers)}
    if shape is not None:
        for spec, denoiser in loaded.items():
            _refuse_classifier(spec, denoiser, shape)
        _refuse_denoiser(model, load(model), shape)
    else:
        load(model)
    members = [composite.described(out, spec, "denoiser") for spec in denoisers]
    members.append(composite.described(out, model, composite.CLASSIFIER))
    composite.write(out, composite.Composite("denoised", tuple(members), part))
    behind = denoisers[0] if part is None else f"{part['name']} of {len(denoisers)} denoisers"
    unchecked = "" if shape is not None else " (no part says its inputs' shape: whether they fit is seen when used)"
    typer.echo(f"{out}: {model} behind {behind}{unchecked}")


def _vote(vote: str | None, denoisers: int) -> dict[str, Any] | None:
    from smoothcert.ensembles.spec import vote_part

    if denoisers == 1:
        if vote is not None:
            raise OptionError(f"vote of a denoised classifier must go with several denoisers; got {vote} with one")
        return None
    return vote_part(vote or "soft", None, denoisers)


def _refuse_fitted(model: str) -> None:
    """Weights or an order that were fitted without a denoiser are not for inputs that come through one."""
    from smoothcert import zoo
    from smoothcert.ensembles.holdout import fitted_on

    if fitted_on(zoo.located(model)):
        raise ModelError(
            f"model {model} must not be an ensemble fitted on hold-out inputs; got one "
            "(put its members behind the denoiser, then make the ensemble of these)"
        )


def _shape(specs: Sequence[str]) -> tuple[int, ...] | None:
    """The shape of inputs, as far as the parts' own files say it; refused where they differ in it or in the range."""
    from smoothcert.classifiers import composite

    said = {spec: facts for spec in specs if (facts := composite.facts([spec]))}
    for name in ("shape", "range"):
        found = {spec: facts.get(name) for spec, facts in said.items()}
        first = next(iter(found), "")
        for spec, value in found.items():
            if value != found[first]:
                raise ModelError(f"{name} of {spec} must be that of {first}, {found[first]}; got {value}")
    shapes = [facts["shape"] for facts in said.values() if facts.get("shape")]
    return tuple(shapes[0]) if shapes else None


def _refuse_classifier(spec: str, denoiser: Classifier, shape: tuple[int, ...]) -> None:
    answer = _answer(f"denoiser {spec}", denoiser, shape)
    if answer != list(shape):
        hint = " (a classifier?)" if len(answer) == 1 else ""
        raise ModelError(f"denoiser {spec} must give back inputs of shape {list(shape)}; got outputs {answer}{hint}")


def _refuse_denoiser(spec: str, classifier: Classifier, shape: tuple[int, ...]) -> None:
    answer = _answer(f"model {spec}", classifier, shape)
    if len(answer) != 1:
        hint = " (a denoiser?)" if answer == list(shape) else ""
        raise ModelError(f"model {spec} must give scores, one a class; got outputs {answer}{hint}")


def _answer(whose: str, part: Any, shape: tuple[int, ...]) -> list[int]:
    """The shape of what it says of one input."""
    import torch

    rows = getattr(part, "rows", None) or 1
    try:
        return list(part(torch.full((rows, *shape), 0.5)).shape[1:])
    except (ModelError, RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{whose} must accept inputs of shape {list(shape)}; got: {reason}") from error
