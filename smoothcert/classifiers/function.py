"""Any Python callable as a classifier, by object or as `package.module:callable`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothcert.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Function:
    """Calls with a float32 tensor [batch, ...]; takes a tensor or an array of scores [batch, classes] back."""

    function: Callable[[Any], Any]

    def __call__(self, x: Tensor) -> Tensor:
        import numpy as np
        import torch

        try:
            scores = self.function(x)
        except Exception as error:
            # A stranger's code may raise anything; it is their input that is bad, and this names it in one line.
            raise ModelError(
                f"the classifier must accept inputs {list(x.shape)}; it raised {type(error).__name__}: {error}"
            ) from error
        if isinstance(scores, np.ndarray):
            scores = torch.from_numpy(scores)
        return scores.detach().float().cpu() if isinstance(scores, torch.Tensor) else scores


def resolve(spec: str) -> Any:
    """The object that `package.module:callable` names; the current folder is searched like Python itself would."""
    module_name, _, attribute = spec.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        target: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ModelError(f"model must name a callable that can be imported; got '{spec}' ({error})") from error
    if not callable(target):
        raise ModelError(f"model must name a callable; '{spec}' is of type {type(target).__name__}")
    return target
