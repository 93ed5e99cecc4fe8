"""Inputs that choices are fitted on: accuracy under noise on them, and their exclusion from what is certified later.

Order, weights and every other choice that looks at labels belongs to inputs that nothing is certified on. An ensemble
remembers the inputs it was fitted on by index and by a short hash of their values, so that they are known again under
another name or path, and an input of another data set with the same index is not mistaken for one of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert import zoo
from smoothcert.classifiers import composite
from smoothcert.contracts import Classifier, Noise
from smoothcert.errors import DataError
from smoothcert.noise import described

if TYPE_CHECKING:
    import numpy as np

    from smoothcert.data import Inputs

CHUNK = 512  # inputs held in memory at a time


def noisy_accuracy(
    members: Sequence[Classifier],
    inputs: Inputs,
    noise: Noise,
    seed: int,
    draws: int = 1,
    advance: Callable[[int], None] = lambda rows: None,
) -> tuple[float, ...]:
    """Of each member, the share of noisy copies that it classifies rightly; the same copies for all of them."""
    import torch

    from smoothcert.ensembles._scores import noisy_batches
    from smoothcert.ensembles._vote import ask

    labels = torch.from_numpy(inputs.labels)
    right = [0] * len(members)
    with torch.no_grad():
        for owner, x in noisy_batches(inputs, noise, draws, seed, "holdout"):
            for number, member in enumerate(members):
                right[number] += int((ask(member, x).argmax(1) == labels[owner]).sum())
                advance(len(x))
    return tuple(count / (len(inputs) * draws) for count in right)


def record(inputs: Inputs, noise: Noise, seed: int) -> dict[str, Any]:
    """What an ensemble remembers of the inputs it was fitted on."""
    return {
        "data": inputs.name,
        "split": inputs.split,
        "digest": inputs.digest,
        "noise": described(noise),
        "seed": seed,
        "indices": " ".join(map(str, inputs.indices.tolist())),
        "marks": " ".join(marks(inputs)),
    }


def marks(inputs: Inputs, positions: np.ndarray[Any, Any] | None = None) -> list[str]:
    """A short hash of the values of each input."""
    import numpy as np

    wanted = np.arange(len(inputs)) if positions is None else positions
    found = []
    for start in range(0, len(wanted), CHUNK):
        values = inputs.tensors(wanted[start : start + CHUNK]).numpy()
        found += [hashlib.blake2b(one.tobytes(), digest_size=8).hexdigest() for one in values]
    return found


def refuse_used(spec: str | Path, inputs: Inputs) -> None:
    """Refuse inputs that this model, where it is an ensemble, or an ensemble inside it, was fitted on."""
    import numpy as np

    for holdout in fitted_on(zoo.located(spec)):
        used = dict(zip(map(int, holdout["indices"].split()), holdout["marks"].split(), strict=True))
        shared = np.flatnonzero(np.isin(inputs.indices, list(used)))
        same = [
            int(inputs.indices[position])
            for position, mark in zip(shared, marks(inputs, shared), strict=True)
            if used[int(inputs.indices[position])] == mark
        ]
        if same:
            raise DataError(
                f"inputs to be certified must not be those that {spec} was fitted on; got {len(same)} of them, first "
                f"index {same[0]} (choose others by --start, --skip or --split)"
            )


def fitted_on(path: Path) -> list[dict[str, Any]]:
    """What the ensemble of this folder, and those inside it, remember of their hold-out inputs."""
    if not composite.is_composite(path):
        return []
    whole = composite.read(path)
    inside = [fitted_on(zoo.located(composite.located(path, member))) for member in whole.members]
    own = [dict(whole.holdout)] if whole.holdout is not None else []
    return [*own, *(holdout for found in inside for holdout in found)]
