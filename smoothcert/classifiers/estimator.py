"""A fitted classifier of scikit-learn, or of a library with its interface, and pipelines of them.

Inputs are flattened to [batch, features]. A column of scores belongs to a class: whole numbers from 0 keep their place,
so that class 3 is label 3; other classes are numbered in the order of `classes_` and keep their names.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from smoothcert.errors import ModelError, reason

if TYPE_CHECKING:
    from torch import Tensor

METHODS = ("predict_proba", "decision_function")
MOST = 10_000  # the largest class number: a column is made for each number below it


def is_estimator(model: Any) -> bool:
    """Whether it has the interface of scikit-learn. Keras models can be called, and are."""
    return (
        not isinstance(model, type) and not callable(model) and hasattr(model, "fit") and hasattr(model, "get_params")
    )


@dataclass(frozen=True, eq=False)
class Estimator:
    """The scores of a fitted estimator: probabilities, or else distances from the decision."""

    model: Any
    method: str = ""  # predict_proba where there is one
    about: str = ""  # what its user should know of how it was taken
    class_names: tuple[str, ...] = field(init=False, default=())
    _numbers: tuple[int, ...] | None = field(init=False, default=None, repr=False)  # of classes, where there are gaps
    _classes: int = field(init=False, default=0, repr=False)

    def __post_init__(self) -> None:
        classes = _classes(self.model)
        if not self.method:
            object.__setattr__(self, "method", _method(self.model))
        if self.method == "decision_function" and getattr(_last(self.model), "decision_function_shape", "") == "ovo":
            raise ModelError(
                f"decision_function of {_name(self.model)} must give one column a class; got pairs of classes "
                "(decision_function_shape='ovr')"
            )
        numbers = _numbers(classes)
        object.__setattr__(self, "_classes", len(classes))
        if numbers is None:
            object.__setattr__(self, "class_names", tuple(map(str, classes)))
        elif numbers != tuple(range(len(classes))):
            object.__setattr__(self, "_numbers", numbers)

    @property
    def note(self) -> str:
        """What was decided for the user."""
        said = [self.about] if self.about else []
        said.append(f"scores are {self.method} of {_name(self.model)}")
        if self.class_names:
            named = ", ".join(f"{number} is '{name}'" for number, name in enumerate(self.class_names[:3]))
            said.append(f"class {named}{' and so on' if len(self.class_names) > 3 else ''}")
        if self._numbers is not None:
            said.append("it was fitted without some of the classes below its largest, which never win")
        return "; ".join(said)

    def __call__(self, x: Tensor) -> Tensor:
        """Inputs [batch, ...] → scores [batch, classes] in float32."""
        import numpy as np
        import torch

        values: Any = _framed(self.model, x.reshape(len(x), -1).double().numpy())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = np.asarray(getattr(self.model, self.method)(values), dtype=np.float64)
        except Exception as error:  # estimators of other libraries raise what they like
            raise ModelError(
                f"{_name(self.model)} must accept inputs {list(x.shape)} as [{len(x)}, {x[0].numel()}]; it raised "
                f"{type(error).__name__}: {reason(error)}"
            ) from error
        if found.shape == (len(x),) and self._classes == 2:
            found = np.stack([-found, found], axis=1)
        if found.shape != (len(x), self._classes):
            raise ModelError(
                f"{self.method} of {_name(self.model)} must be one column a class, [{len(x)}, {self._classes}]; got "
                f"{list(found.shape)}"
            )
        scores = torch.from_numpy(found).float()
        if self._numbers is None:
            return scores
        lowest = 0.0 if self.method == "predict_proba" else torch.finfo(torch.float32).min
        placed = torch.full((len(x), self._numbers[-1] + 1), lowest)
        placed[:, list(self._numbers)] = scores
        return placed


def _framed(model: Any, values: Any) -> Any:
    """Columns by name, where it was fitted on a table: a pipeline may choose columns by their names."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or len(names) != values.shape[1]:
        return values
    import pandas

    return pandas.DataFrame(values, columns=names, copy=False)


def _name(model: Any) -> str:
    last = _last(model)
    return type(model).__name__ if last is model else f"{type(last).__name__} in {type(model).__name__}"


def _last(model: Any) -> Any:
    """The estimator that decides: the last of a pipeline, the best of a search."""
    for _ in range(10):
        steps, best = getattr(model, "steps", None), getattr(model, "best_estimator_", None)
        if steps:
            model = steps[-1][1]
        elif best is not None:
            model = best
        else:
            break
    return model


def _classes(model: Any) -> list[Any]:
    """The classes it was fitted for; what is no fitted classifier is refused."""
    from sklearn.base import is_regressor

    name = _name(model)
    try:
        regressor = bool(is_regressor(model))
    except Exception:  # another library's, which has no such word
        regressor = False
    if regressor:
        raise ModelError(f"{name} must be a classifier; got a regressor, which gives numbers (fit a …Classifier)")
    found = getattr(model, "classes_", None)
    if found is None:
        raise ModelError(f"{name} must be a fitted classifier; it has no classes_ (call .fit(x, y) with labels y)")
    if getattr(found, "ndim", None) != 1 or getattr(_last(model), "multilabel_", False):
        raise ModelError(f"{name} must give each input one class of several; got several labels an input")
    return list(found.tolist())


def _method(model: Any) -> str:
    """What gives the scores."""
    for method in METHODS:
        if callable(getattr(model, method, None)):
            return method
    raise ModelError(
        f"{_name(model)} must have predict_proba or decision_function; it has neither (a vote: voting='soft'; else "
        "give a function of its labels: lambda x: numpy.eye(K)[model.predict(x.reshape(len(x), -1))])"
    )


def _numbers(classes: list[Any]) -> tuple[int, ...] | None:
    """Classes as rising whole numbers from 0, where they are that; None for names, truth values and others."""
    if any(isinstance(one, bool) or not isinstance(one, int | float) or one != int(one) for one in classes):
        return None
    numbers = tuple(int(one) for one in classes)
    if numbers[0] < 0:
        return None
    if numbers[-1] > MOST:
        raise ModelError(f"classes of the estimator must be at most {MOST}, or names (strings); got {numbers[-1]}")
    return numbers
