"""What a network or a function returns → its scores: a tensor, an array, or one of several in a tuple or table.

Models of other libraries return more than scores. What is taken is said in a note; where it is not clear, nothing is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from smoothcert.errors import ModelError, reason

SCORES = "logits"  # what Hugging Face calls them
FEATURES = ("pooler", "embed", "hidden", "feature")  # parts of names of 2-D tensors that are no scores


class Place(NamedTuple):
    """Where the scores are in what is returned; no key: it is the scores."""

    key: str | int | None = None
    kind: str = ""  # of what is returned
    field: bool = False  # an attribute, not an item

    @property
    def note(self) -> str:
        """What was decided, in words; empty where nothing had to be."""
        if self.key is None:
            return ""
        where = f".{self.key}" if self.field else f"[{self.key!r}]"
        return f"scores are {where} of the {self.kind} that the model returns"

    def take(self, output: Any) -> Any:
        """The scores in what is returned."""
        if self.key is None:
            return output
        return getattr(output, str(self.key)) if self.field else output[self.key]


def find(output: Any, rows: int) -> Place:
    """Where scores [rows, classes] are: the thing itself, `logits`, or the only 2-D tensor of a tuple or table."""
    kind = type(output).__name__
    if isinstance(output, Mapping):
        if SCORES in output:
            return Place(SCORES, kind, field=hasattr(output, SCORES))
        parts = dict(output.items())
    elif hasattr(output, "shape"):
        return Place()
    elif getattr(output, SCORES, None) is not None:
        return Place(SCORES, kind, field=True)
    elif isinstance(output, tuple):
        parts = dict(enumerate(output))
    else:
        return Place()
    shapes = {key: list(value.shape) for key, value in parts.items() if hasattr(value, "shape")}
    flat = [key for key, shape in shapes.items() if len(shape) == 2 and shape[0] == rows]
    if len(flat) != 1:
        some = flat or list(shapes)
        held = ", ".join(f"{key!r} {shapes[key]}" for key in some) or "no tensor"
        raise ModelError(
            f"the model must return scores [batch, classes], here [{rows}, classes], or one such tensor among others; "
            f"got a {kind} with {held} (say which: lambda x: model(x)[{some[0] if some else 0!r}])"
        )
    if isinstance(flat[0], str) and any(word in flat[0] for word in FEATURES):
        raise ModelError(
            f"the model must return scores [batch, classes]; got a {kind} whose only 2-D tensor is {flat[0]!r}, which "
            "are features (take a model with a classification head, as in …ForImageClassification)"
        )
    return Place(flat[0], kind)


def as_tensor(returned: Any, rows: int, device: torch.device | str = "cpu") -> Tensor:
    """Scores in float32 on a device, from a tensor or an array of any library; what cannot be scores is refused.

    Where they are on that device already, nothing waits for them.
    """
    value: Tensor = returned if isinstance(returned, Tensor) else _converted(returned)
    if value.is_complex():
        raise ModelError(f"the classifier must return real scores [batch, classes]; got {value.dtype}")
    if value.ndim == 1 and rows == len(value):
        whole = not value.is_floating_point()
        fix = "torch.nn.functional.one_hot(labels, K)" if whole else "torch.stack([-s, s], dim=1) of a logit s"
        raise ModelError(
            f"the classifier must return scores [batch, classes], here [{rows}, classes]; got one number an input, "
            f"[{rows}] (make scores of {'labels' if whole else 'them'}: {fix})"
        )
    return value.detach().float().to(device)


def _converted(value: Any) -> Tensor:
    """A tensor of what other libraries call an array."""
    import numpy as np

    try:
        if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
            shared: Tensor = torch.utils.dlpack.from_dlpack(value)
            return shared
    except Exception:
        pass  # arrays on other devices, or of strange types, may refuse in any way. They may still convert
    fix = " (write numpy.asarray(…) around it)" if isinstance(value, list) else ""
    if not hasattr(value, "__array__"):
        raise ModelError(
            f"the classifier must return a tensor of scores [batch, classes]; got {type(value).__name__}{fix}"
        )
    try:
        return torch.from_numpy(np.array(value))  # a copy: theirs may be read-only
    except Exception as error:
        raise ModelError(
            f"the classifier must return an array of numbers [batch, classes]; got {type(value).__name__} "
            f"({reason(error)})"
        ) from error


class Scored(nn.Module):
    """A network that returns its scores alone, so that it can be exported and differentiated like any other."""

    def __init__(self, network: nn.Module, place: Place | None = None) -> None:
        super().__init__()
        self.network, self.place = network, place
        self.training = False

    def forward(self, x: Tensor) -> Any:
        """Inputs [batch, ...] → scores [batch, classes]."""
        output = self.network(x)
        return (self.place or find(output, x.shape[0])).take(output)  # len(x) would freeze the batch of an export
