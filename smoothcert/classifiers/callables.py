"""A Python callable as a classifier: a function of tensors or of arrays, a factory that makes a model, a bound method.

By what it asks for: a classifier takes one thing, inputs; a factory takes nothing, and is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.classifiers import digests
from smoothcert.classifiers.estimator import METHODS, Estimator, is_estimator
from smoothcert.classifiers.module import in_training
from smoothcert.classifiers.scores import Place, as_tensor, find
from smoothcert.errors import ModelError, reason

DIFFERENT = 1e-3  # relative to the largest score: beyond rounding


@dataclass(frozen=True, eq=False)
class Function:
    """Calls with float32 inputs [batch, ...]; takes scores [batch, classes] back.

    The first call shows whether it wants a torch tensor or a NumPy array, and where in what it returns the scores are.
    """

    function: Callable[[Any], Any]
    about: str = ""  # what its user should know of how it was taken
    class_names: tuple[str, ...] = ()
    _way: tuple[bool, Place, str] | None = field(init=False, default=None, repr=False)  # arrays, scores, what is said

    @property
    def note(self) -> str:
        """What was decided for the user: known once it has been called."""
        said = (self.about, self._way[2] if self._way else "", self._way[1].note if self._way else "")
        return "; ".join(part for part in said if part)

    def __call__(self, x: Tensor) -> Tensor:
        if self._way is None:
            object.__setattr__(self, "_way", self._tried(x))
        arrays, place, _ = self._way or (False, Place(), "")
        try:
            output = self.function(x.numpy() if arrays else x)
        except Exception as error:
            raise _refusal(x, error) from error  # a stranger's code may raise anything
        return as_tensor(place.take(output), len(x))

    def _tried(self, x: Tensor) -> tuple[bool, Place, str]:
        """A tensor first. What fails on it, or answers with something else than a tensor, is tried on an array."""
        found: tuple[Place, Tensor] | None = None
        first: Exception = ModelError("")
        try:
            output = self.function(x.clone())
            found = self._scores(output, x)
            if any(isinstance(part, Tensor) for part in (output, found[0].take(output))):
                return False, found[0], ""
        except Exception as error:
            first = error
        try:
            other = self._scores(self.function(x.clone().numpy()), x)
        except Exception as error:
            if found is not None:
                return False, found[0], ""
            raise _refusal(x, first, error) from first
        if found is None:
            return True, other[0], f"called with NumPy arrays: on a torch tensor it raised {type(first).__name__}"
        if not _close(found[1], other[1]) and _close(found[1], self._scores(self.function(x.clone()), x)[1]):
            raise ModelError(
                "the classifier must give the same scores for a torch tensor as for a NumPy array, or be told which it "
                "gets; they differ (write lambda x: f(x.numpy()), or lambda x: f(torch.as_tensor(x)))"
            )
        return True, other[0], ""

    def _scores(self, output: Any, x: Tensor) -> tuple[Place, Tensor]:
        place = find(output, len(x))
        return place, as_tensor(place.take(output), len(x))


def _close(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(
        one, other, rtol=DIFFERENT, atol=DIFFERENT * float(other.abs().max()), equal_nan=True
    )


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {reason(error)}"


def _refusal(x: Tensor, error: Exception, on_array: Exception | None = None) -> ModelError:
    """What a function did wrong, in one line; where it did not know what to do with a tensor, also of an array."""
    if isinstance(error, ModelError):
        return error
    if isinstance(on_array, ModelError):
        return on_array
    unlike = isinstance(error, TypeError | AttributeError) and on_array is not None and str(on_array) != str(error)
    other = f"; on a NumPy array {_said(on_array)}" if unlike and on_array is not None else ""
    return ModelError(f"the classifier must accept inputs {list(x.shape)}; it raised {_said(error)}{other}")


def from_callable(target: Any, wrap: Callable[[Any], Any], spec: str = "") -> Any:
    """The classifier that a callable is, or makes: `wrap` turns what a factory returns into one."""
    name = spec or getattr(target, "__name__", type(target).__name__)
    if isinstance(target, type):
        raise ModelError(_class_refusal(target, name))
    owner = getattr(target, "__self__", None)
    if isinstance(owner, nn.Module) and any(map(in_training, owner.modules())):
        raise ModelError(f"the network of {name} must be in eval mode (call .eval()); got train mode")
    if is_estimator(owner):
        return _method(owner, target.__name__)
    takes = _required(target)
    if takes is None or len(takes) == 1:
        return Function(target)
    if takes:
        raise ModelError(
            f"{name} must take one argument, inputs [batch, …], or none and make a model; it takes {', '.join(takes)} "
            f"(give the others: functools.partial({name.rpartition(':')[2]}, {takes[1]}=…))"
        )
    return _made(target, name, wrap, spec)


def _method(owner: Any, method: str) -> Estimator:
    if method not in METHODS:
        raise ModelError(
            f"a method of {type(owner).__name__} must give scores: {' or '.join(METHODS)}; got {method} (give the "
            "estimator itself)"
        )
    return Estimator(owner, method)


def _required(target: Any) -> list[str] | None:
    """Names of the arguments that must be given; None where it cannot be known, or any number will do."""
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return None
    return [one.name for one in parameters if one.default is one.empty and one.kind is not one.VAR_KEYWORD]


def _made(factory: Callable[[], Any], name: str, wrap: Callable[[Any], Any], spec: str) -> Any:
    """What a factory makes, if it makes the same every time: one with random weights could never be verified."""
    try:
        made, again = factory(), factory()
    except Exception as error:
        raise ModelError(
            f"{name} takes no inputs, so that it must make a model when it is called; it raised {_said(error)}"
        ) from error
    if isinstance(made, type) or not (callable(made) or is_estimator(made)) or _required(made) == []:
        raise ModelError(
            f"{name} takes no inputs, so that it must make a model when it is called; it returned "
            f"{type(made).__name__} (a classifier takes one argument, inputs [batch, …])"
        )
    classifier = wrap(made)
    if digests.state(made) != digests.state(again):
        raise ModelError(
            f"{name} must make the same model every time; two calls gave other weights (are they random? "
            "model.load_state_dict(torch.load('weights.pt')) gives it its own)"
        )
    digests.remember(spec, factory, made)
    if hasattr(classifier, "about"):
        object.__setattr__(classifier, "about", f"the model is what {name}() returns")
    return classifier


def _class_refusal(target: type, name: str) -> str:
    short = target.__name__
    what = f"{name} must be a model; got the class {short}"
    if issubclass(target, nn.Module):
        return (
            f"{what}, and a fresh instance has random weights (write model = {short}(); "
            "model.load_state_dict(torch.load('weights.pt')); model.eval(), and give model)"
        )
    if hasattr(target, "fit"):
        return f"{what}, which is not fitted (write model = {short}().fit(x, y), and give model)"
    return f"{what} (make an instance: model = {short}(…), and give model)"
