"""What models say of the inputs they learned from, as far as their files say it, and which of them were kept back.

A choice that looks at labels (weights, order, who is a member) must not be made on inputs that a member was trained
on: it would seem better than it is. A checkpoint of ours says what it was trained on; a composition's networks each do;
of any other file, and of a callable, nobody knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from smoothcert import foreign, zoo
from smoothcert.classifiers import composite
from smoothcert.data import Inputs, Subset, same_list
from smoothcert.errors import DataError, ModelError, SmoothcertError

_DEEPEST = 100  # trainings that each began from the one before


class HeldBack(NamedTuple):
    """Training inputs that a training kept back, as its config says it; indices are a list in one text."""

    indices: str
    digest: str
    inputs: int = 0
    of: int = 0
    asked: str = ""
    rule: str = ""


class TrainedOn(NamedTuple):
    """The inputs that a network learned from: all of the training split but those held back."""

    model: str
    subset: Subset
    back: HeldBack | None

    @property
    def indices(self) -> frozenset[int]:
        """Of those held back."""
        return frozenset(int(index) for index in self.back.indices.split()) if self.back is not None else frozenset()


def trained_on(spec: str | Path, above: frozenset[Path] = frozenset()) -> list[TrainedOn | None]:
    """Of every network inside a model, and of those it began from, what it was trained on; None: nothing says it.

    `above`: folders that led here; none may come again.
    """
    from smoothcert.training.checkpoints import CONFIG, read_config

    path = zoo.located(spec)
    if (place := path.resolve()) in above or len(above) > _DEEPEST:
        raise ModelError(f"model {spec} must not be made of itself, or of models {_DEEPEST} deep; got one that is")
    if composite.is_composite(path):
        inner = [composite.located(path, member) for member in composite.read(path).members]
        return [found for each in inner for found in trained_on(each, above | {place})]
    if not foreign.is_regular(path / CONFIG):
        return [None]
    config = read_config(path)
    start = config["settings"].get("start")
    earlier = trained_on(start, above | {place}) if isinstance(start, str) else []
    return [_said(str(spec), config["settings"], config.get("hold_out")), *earlier]


def _said(spec: str, settings: Mapping[str, Any], back: Any) -> TrainedOn | None:
    try:
        data, limits, size = (settings.get(name) for name in ("data", "value_range", "image_size"))
        subset = Subset(foreign.typed(str, data, "data"), "train", value_range=limits, image_size=size)
        held = None if back is None else foreign.typed(HeldBack, back, "hold_out")
        found = TrainedOn(spec, subset, held)
        return found if found.indices is not None else None
    except (TypeError, ValueError, SmoothcertError) as error:
        raise ModelError(f"config of {spec} must say what it was trained on; got one whose {error}") from error


def refuse_trained(members: Sequence[str], subset: Subset, inputs: Inputs) -> list[str]:
    """Refuse inputs that a member was trained on; the members of which that cannot be known."""
    unknown = []
    for member in members:
        for found in trained_on(member):
            same = None if found is None else same_list(found.subset, subset)
            if found is None or same is None:
                unknown.append(member)
            elif same:
                _refuse_learnt(member, inputs.indices[~np.isin(inputs.indices, sorted(found.indices))])
    return list(dict.fromkeys(unknown))


def _refuse_learnt(member: str, learnt: np.ndarray[Any, Any]) -> None:
    if len(learnt):
        raise DataError(
            f"hold-out inputs must not be those that {member} was trained on; got {len(learnt)} of them, first index "
            f"{int(learnt[0])} (train members with --hold-out, then make the ensemble with --held-out)"
        )


def held_by_all(members: Sequence[str]) -> tuple[Subset, Inputs]:
    """The training inputs that every member kept back, which must be the same for all."""
    first: TrainedOn | None = None
    for member in members:
        for found in trained_on(member):
            if found is None or found.back is None:
                raise ModelError(f"member {member} must have been trained with --hold-out; it kept nothing back")
            first = found if first is None else first
            if found.back.digest != (first.back or found.back).digest or not same_list(found.subset, first.subset):
                raise ModelError(f"members must have kept back the same inputs; {first.model} and {member} did not")
    if first is None or first.back is None:
        raise ModelError("members must be at least one; got none")
    every = first.subset.load()
    held = every.chosen(np.flatnonzero(np.isin(every.indices, sorted(first.indices))))
    if held.listing_digest != first.back.digest:
        raise DataError(f"inputs that {first.model} kept back must be what they were; got other data")
    return first.subset, held
