"""A look before the draws: do the model's classes and the data's go together, and is it right at all without noise?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from smoothcert import catalog
from smoothcert.classifiers import try_once
from smoothcert.contracts import Classifier, Noise, batch_rows
from smoothcert.data import Inputs, Scale, Subset, renamed, unnamed
from smoothcert.engine.batch_check import FixedShape, classes
from smoothcert.errors import DataError, ModelError, OptionError

INPUTS = 128  # looked at, spread over the data
FEWEST = 10  # of which fewer tell nothing
SECONDS = 2.0  # after which no further batch is asked
SHOWN = 3  # names in a remark


def by_name(data: Subset, inputs: Inputs, classifier: Classifier, say: Callable[[str], None]) -> tuple[Subset, Inputs]:
    """The inputs with the model's numbers for labels, and the names that were gone by.

    By name where the model knows the names of its classes. Else folders in alphabetical order are its classes 0, 1, …,
    which is said; where there are more or fewer folders than classes, that would be wrong, and is refused.
    """
    if data.classes is not None or not inputs.class_names:
        return data, inputs
    base, here = getattr(classifier, "base", classifier), inputs.class_names
    names: tuple[str, ...] = tuple(getattr(base, "class_names", ()))
    known = data.spec in catalog.names("data")
    if names and not unnamed(names):
        try:
            found = renamed(inputs, names)
        except DataError:
            if known:  # its numbers are those that everybody uses
                return data, inputs
            raise
        if np.array_equal(found.labels, inputs.labels):
            return (data, inputs) if known else (replace(data, classes=names), found)
        say(f"classes of {data.name} are the model's of the same name, in the model's order: {_shown(names)}")
        return replace(data, classes=names), found
    if known:
        return data, inputs
    try_once(base, inputs.tensor(0))
    if (number := classes(base, inputs.tensor(0))) != len(here):
        raise DataError(
            f"class folders of {data.name} must be the model's classes; got {len(here)} folders and {number} classes "
            "(name the model's classes, one a line in their order: --classes labels.txt)"
        )
    say(
        f"class folders in alphabetical order are the model's classes 0 to {number - 1}: {_shown(here)}; --classes "
        "labels.txt says otherwise"
    )
    return replace(data, classes=here), renamed(inputs, here)


def require_scale(data: Subset, options: Mapping[str, Any]) -> None:
    """Refuse a model that would be given scaled inputs, and not what they are in its own units."""
    scale = data.scale or Scale("none")
    if (list(scale.offset), list(scale.width)) != (options.get("offset", []), options.get("width", [])):
        raise ModelError("the scale of the data must be that of the model, which is given its own units; got another")


def refuse_on_scale(noise: Noise, memory: bool) -> None:
    """Refuse what inputs on a scale of their own cannot have."""
    if memory:
        raise OptionError("memory must not be given with a scale: it is asked about inputs in [0,1]; got both")
    if noise.exact:
        raise OptionError(
            f"noise with a scale must be gaussian or uniform; got {catalog.name_of(noise)}, which is for inputs in "
            "[0,1] (a range maps all values there)"
        )


def _shown(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names[:SHOWN]) + (", …" if len(names) > SHOWN else "")


def chance(classifier: Classifier, inputs: Inputs) -> str:
    """One line where the model is no better than chance on clean inputs, by an exact test at 1 %; else nothing."""
    import torch
    from scipy.stats import binom

    base = getattr(classifier, "base", classifier)
    few = min(INPUTS, len(inputs))
    if few < FEWEST:
        return ""
    rows = getattr(base, "rows", None)
    call, size = (base, batch_rows(inputs.shape)) if rows is None else (FixedShape(base, rows), rows)
    # The order is turned round in leaps, so that what is seen before time is up is spread over the data as well.
    places = np.array(sorted(range(few), key=lambda number: number * 0.6180339887498949 % 1.0)) * len(inputs) // few
    right = seen = number = 0
    begun = time.monotonic()
    for at in range(0, few, size):
        chosen = places[at : at + size]
        with torch.no_grad():
            scores = call(inputs.tensors(chosen))
        if not (isinstance(scores, torch.Tensor) and scores.ndim == 2 and len(scores) == len(chosen)):
            return ""  # no scores: whoever counts them says so
        seen, number = seen + len(chosen), scores.shape[1]
        right += int((scores.argmax(dim=1).numpy() == inputs.labels[chosen]).sum())
        if time.monotonic() - begun > SECONDS:
            break
    if number < 2 or seen < FEWEST or int(inputs.labels.max()) >= number:
        return ""
    if float(binom.sf(right - 1, seen, 1 / number)) <= 0.01:
        return ""
    return (
        f"only {right} of {seen} inputs are classified rightly without noise, no better than chance among {number} "
        "classes: look at the order of classes (--classes), the range of values and the order of channels before a "
        "long run"
    )
