"""What a model is, as a hash: files, the source of a callable, the weights of the networks that it holds."""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from smoothcert import foreign
from smoothcert.errors import ModelError

if TYPE_CHECKING:
    from torch import nn

Covers = Literal["weights", "source"]


@dataclass(frozen=True)
class ModelDigest:
    """A hash of a model, and what it covers.

    weights: all that decides the scores. source: the file of a callable, and the networks it holds or names; whatever
    else it loads can be replaced without the hash changing.
    """

    hex: str
    covers: Covers

    def __str__(self) -> str:
        return self.hex


def of_files(files: Iterable[Path], covers: Covers = "weights", name: str = "") -> ModelDigest:
    """A hash of the files' contents: of one alone what `sha256sum` says, of several each with its length."""
    total, files = hashlib.sha256(name.encode()), list(files)
    for file in files:
        size = foreign.size_of(file, "a file of the model", ModelError)
        total.update(size.to_bytes(8, "little") if len(files) > 1 else b"")
        with file.open("rb") as held:
            while chunk := held.read(1 << 20):
                total.update(chunk)
    return ModelDigest(total.hexdigest(), covers)


def of_callable(spec: str) -> ModelDigest:
    """A hash of `package.module:callable`: its name and source, and the state of the networks that it holds.

    Nothing is imported for it: what has not been loaded is known by its name alone.
    """
    module_name, _, attribute = spec.partition(":")
    module = sys.modules.get(module_name)
    file = getattr(module, "__file__", None)
    target: Any = functools.reduce(lambda found, part: getattr(found, part, None), attribute.split("."), module)
    # A network is its weights and its source. What merely holds or names one may hold other things that decide scores.
    covers: Covers = "weights" if _networks([getattr(target, "__self__", target)]) else "source"
    states = "".join(state_digest(network) for network in _held(target) or _named(target))
    name = attribute if file else spec  # a file may hold several
    return of_files([Path(file)] if file else [], covers, name + states)


def of_object(target: Any) -> ModelDigest:
    """A hash of a callable or class that the caller holds: the file of its source, and networks it holds or names."""
    owner = getattr(target, "__self__", target)
    kind = owner if hasattr(owner, "__qualname__") else type(owner)
    states = "".join(state_digest(network) for network in _held(target) or _named(target))
    try:
        file = inspect.getsourcefile(inspect.unwrap(kind))
    except TypeError:  # built in, or made where there is no file
        file = None
    files = [Path(file)] if file and Path(file).is_file() else []
    return of_files(files, "source", f"{kind.__module__}.{kind.__qualname__}{states}")


def state_digest(network: nn.Module) -> str:
    """A hash of every parameter and buffer of a network: names, shapes, types and values."""
    import torch

    total = hashlib.sha256()
    for name, value in {**network.state_dict(), **dict(network.named_buffers())}.items():
        if not isinstance(value, torch.Tensor) or torch.nn.parameter.is_lazy(value):
            total.update(f"{name} {value!r}".encode())
            continue
        total.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        plain = value.detach().dequantize() if value.is_quantized else value.detach().to_dense()
        total.update(plain.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _held(target: Any) -> list[nn.Module]:
    """The networks that a callable is, is a method of, or holds as attributes; none in a plain function."""
    if isinstance(target, functools.partial):
        return [one for part in (target.func, *target.args, *target.keywords.values()) for one in _held(part)]
    owner = getattr(target, "__self__", target)
    if isinstance(owner, type) or hasattr(owner, "__code__"):
        return []
    return _networks([owner]) or _networks(getattr(owner, "__dict__", {}).values())


def _named(target: Any) -> list[nn.Module]:
    """The networks that a plain function names: globals of its module, and what it closes over."""
    if not inspect.isfunction(target):
        return []
    around = inspect.getclosurevars(target)
    return _networks([*around.globals.values(), *around.nonlocals.values()])


def _networks(values: Iterable[Any]) -> list[nn.Module]:
    from torch import nn

    return [value for value in values if isinstance(value, nn.Module)]
