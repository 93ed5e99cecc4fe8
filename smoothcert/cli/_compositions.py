"""What the commands on compositions share: networks with roles become a folder, the folder's run is carried out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.cli import _arithmetic as a
from smoothcert.cli import _parts as p
from smoothcert.errors import ModelError

if TYPE_CHECKING:
    from smoothcert.classifiers import Ready
    from smoothcert.classifiers.composite import Kind
    from smoothcert.cli._drawing import Drawing
    from smoothcert.contracts import Noise
    from smoothcert.data import Inputs


Network = tuple[str, str, "Noise | None"]  # role, model, noise; a core has none


def carry_out(
    drawing: Drawing,
    networks: Sequence[Network],
    procedure: Any,
    kind: Kind,
    options: dict[str, Any],
    noise: Noise,
    arithmetic: str | None,
    about: str,
) -> None:
    """Write the composition into the run's folder, and answer its question for every input."""
    from smoothcert.catalog import describe
    from smoothcert.classifiers import composite
    from smoothcert.runs.store import MODEL, refuse_strangers

    inputs = drawing.load()
    refuse_strangers(drawing.out)
    networks, noise = _settled(networks, noise, inputs, drawing.out, arithmetic)
    print(f"smoothcert: {p.say_noise(noise)}: {about}", file=sys.stderr)
    prepared = _prepared(networks, inputs, drawing)
    folder = drawing.out / MODEL
    members = [
        composite.described(folder, model, role, describe(around) if around else None)
        for role, model, around in networks
    ]
    composite.write(folder, composite.Composite(kind, tuple(members), options=options))
    question = drawing.question(str(folder), inputs, noise, procedure)
    drawing.carry_out(question, inputs, prepared, kind)


def _settled(
    networks: Sequence[Network], noise: Noise, inputs: Inputs, out: Path, arithmetic: str | None
) -> tuple[Sequence[Network], Noise]:
    """The networks and the noise of the question, all Gaussian noises in one arithmetic."""
    found = a.settled(noise, arithmetic, inputs, out, [around for _, _, around in networks])
    return [(role, model, around) for (role, model, _), around in zip(networks, found.others, strict=True)], found.noise


def _prepared(networks: Sequence[Network], inputs: Inputs, drawing: Drawing) -> Ready:
    """The networks, found to go together, made fast."""
    from smoothcert.classifiers import load, ready
    from smoothcert.classifiers.composed import Bundle
    from smoothcert.ensembles.holdout import refuse_used

    loaded = [load(model) for _, model, _ in networks]
    for _, model, _ in networks:
        refuse_used(model, inputs)
    roles, _, noises = zip(*networks, strict=True)
    _refuse_unlike(roles, loaded, inputs)
    prepared = ready(Bundle(roles, tuple(loaded), noises), inputs.tensor(0), drawing.engine, drawing.threads)
    if prepared.note:
        print(f"smoothcert: {prepared.note}", file=sys.stderr)
    return prepared


def _refuse_unlike(roles: Sequence[str], loaded: Sequence[Any], inputs: Inputs) -> None:
    """Networks that answer must have the same classes; a selector one for each branch."""
    from smoothcert.classifiers import try_once
    from smoothcert.engine.batch_check import classes

    found = {}
    for role, classifier in zip(roles, loaded, strict=True):
        try_once(classifier, inputs.tensor(0))
        found[role] = classes(classifier, inputs.tensor(0))
    branches = sum(role.startswith("branch") for role in roles) or 2
    if found.get("select", branches) != branches:
        raise ModelError(f"the selector must have {branches} classes, one a branch; got {found['select']}")
    answering = {role: number for role, number in found.items() if role != "select"}
    if len(set(answering.values())) > 1:
        words = ", ".join(f"{number} in {role}" for role, number in answering.items())
        raise ModelError(f"classes of a composition's networks must be the same; got {words}")
