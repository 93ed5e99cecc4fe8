"""Files of other tools that hold a model: TorchScript, torch.export, pickles of torch, joblib and Python.

All of them can execute code when they are loaded: a pickle by its nature, torch.export's because pickles are inside
it, and of TorchScript torch itself says so. They are loaded only on trust; the hash of the file is taken without that.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import sys
import warnings
import zipfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx, nn

from smoothcert import foreign
from smoothcert.classifiers.module import TRUST, Module
from smoothcert.classifiers.undisturbed import quiet
from smoothcert.errors import ModelError, reason
from smoothcert.training import checkpoints

if TYPE_CHECKING:
    from smoothcert.contracts import Classifier

PICKLES = (".joblib", ".pkl", ".pickle")
FREE = 2**16  # a batch that may have so many rows may have any number


class Program(nn.Module):
    """A program of torch.export, which knows no modes, as a network that is always in eval mode."""

    def __init__(self, program: nn.Module) -> None:
        super().__init__()
        self.program = program
        for part in self.modules():
            part.training = False

    def train(self, mode: bool = True) -> Program:
        """Stay as it is: what train mode would change was decided when it was exported."""
        return self

    def forward(self, x: Tensor) -> Any:
        """Inputs [batch, ...] → what the program returns."""
        return self.program(x)


def is_program(model: Any) -> bool:
    """Whether this is of torch.export: a program, or what its module() gives."""
    return isinstance(model, torch.export.ExportedProgram) or (
        isinstance(model, fx.GraphModule) and "eval" in vars(model)  # one that refuses to change its mode
    )


def from_program(model: Any) -> Module:
    """The classifier that a program of torch.export is; it may take one number of rows only."""
    module = model.module() if isinstance(model, torch.export.ExportedProgram) else model
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    value = inputs[0].meta.get("val") if len(inputs) == 1 else None
    if not isinstance(value, Tensor) or value.ndim == 0:
        raise ModelError(f"a program of torch.export must take one tensor [batch, …]; got {len(inputs)} inputs")
    batch: Any = value.shape[0]
    if not isinstance(batch, int):
        limits = getattr(module, "range_constraints", {}).get(batch.node.expr)
        most = FREE if limits is None or limits.upper > FREE else int(limits.upper)
        batch = None if most >= FREE else most
    return Module(Program(module), rows=batch)


def load(path: Path) -> Classifier:
    """The classifier in a file of torch, joblib or pickle."""
    foreign.size_of(path, "model", ModelError)
    if path.suffix in PICKLES:
        return _unpickled(path)
    entries = _entries(path)
    if path.suffix == ".pt2" or any(name.endswith(("/archive_format", "exported_program.json")) for name in entries):
        _require_trust(path, "a file of torch.export holds pickles, which execute code when they are loaded")
        return from_program(_opened(path, torch.export.load))
    if any(name.endswith("/constants.pkl") for name in entries):
        _require_trust(path, "a TorchScript file may execute code when it is loaded")
        read: Callable[..., nn.Module] = torch.jit.load
        return Module(_opened(path, functools.partial(read, map_location="cpu")))
    return _torch_pickle(path)


def _torch_pickle(path: Path) -> Classifier:
    """What torch.save wrote: a checkpoint of locuslab's kind, or on trust a whole network."""
    from smoothcert.classifiers import wrap

    try:
        saved = checkpoints.load_pickle(path)
    except ModelError as error:
        cause = error.__cause__
        if not (isinstance(cause, pickle.UnpicklingError) and "global" in str(cause).lower()):
            raise
        _require_trust(path, "a pickle of more than weights executes code when it is loaded")
        return wrap(_opened(path, lambda file: torch.load(file, map_location="cpu", weights_only=False)))
    if isinstance(saved, dict) and {"arch", "state_dict"} <= saved.keys():
        return Module(checkpoints.read_legacy(path)[0])
    raise ModelError(
        f"'{path}' must hold a network; got {'weights alone' if isinstance(saved, dict) else type(saved).__name__} "
        f"(write model = Net(); model.load_state_dict(torch.load('{path.name}')); model.eval() into my_model.py, and "
        "give my_model:model)"
    )


def _unpickled(path: Path) -> Classifier:
    """The object in a pickle, which joblib reads as well as its own format."""
    import joblib

    from smoothcert.classifiers import wrap

    _require_trust(path, "a pickle executes code when it is loaded")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        classifier = wrap(_opened(path, joblib.load, contextlib.nullcontext()))
    other = [one for one in caught if one.category.__name__ == "InconsistentVersionWarning"]
    if other and hasattr(classifier, "about"):
        version = getattr(other[0].message, "original_sklearn_version", "of another version")
        said = f"{path.name} was saved by scikit-learn {version}, and this is another: its scores may differ"
        object.__setattr__(classifier, "about", said)
    return classifier


def _require_trust(path: Path, why: str) -> None:
    if not TRUST.get():
        raise ModelError(
            f"'{path}' must be trusted to be loaded: {why}; only with --trust-code (in Python inside "
            "smoothcert.trusting())"
        )


def _opened(path: Path, how: Any, within: AbstractContextManager[None] | None = None) -> Any:
    """What a library makes of a file; its warnings are not for our user, and its errors may be of any kind."""
    if "" not in sys.path:
        sys.path.append("")  # classes of pickles may lie in the current folder
    try:
        with within or quiet():
            return how(str(path))
    except Exception as error:
        raise ModelError(
            f"'{path}' must be a sound file that this version of its library can load; got "
            f"{type(error).__name__}: {reason(error)}"
        ) from error


def _entries(path: Path) -> list[str]:
    """Names of what a zip archive holds; none where it is no archive."""
    try:
        with path.open("rb") as file:
            return zipfile.ZipFile(file).namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return []
