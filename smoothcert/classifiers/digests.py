"""What a model is, as a hash: files, the source of a callable, the state of the models that it holds or makes."""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Literal

from smoothcert import foreign
from smoothcert.classifiers.estimator import is_estimator
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
    """A hash of `package.module:callable`: its name and source, and the state of the models that it is, holds or made.

    Nothing is imported for it: what has not been loaded is known by its name alone.
    """
    module_name, _, attribute = spec.partition(":")
    module = sys.modules.get(module_name)
    file = getattr(module, "__file__", None)
    target: Any = functools.reduce(lambda found, part: getattr(found, part, None), attribute.split("."), module)
    if spec in _MADE and _MADE[spec][0] is target:
        covers, states = _MADE[spec][1:]
    else:
        covers = _covers(getattr(target, "__self__", target))
        states = "".join(state(model) for model in _held(target) or _named(target))
    name = attribute if file else spec  # a file may hold several
    return of_files([Path(file)] if file else [], covers, name + states)


_MADE: dict[str, tuple[Any, Covers, str]] = {}  # by name: the factory, and what it made


def remember(spec: str, factory: Any, made: Any) -> None:
    """Keep what a factory made as a hash, for the digest of its name."""
    if spec:
        _MADE[spec] = factory, _covers(made), state(made)


def _covers(model: Any) -> Covers:
    """A network is its weights and its source. What merely holds or names one may hold more that decides scores."""
    return "weights" if _models([model]) else "source"


def state(model: Any) -> str:
    """A hash of what a network or an estimator has learned, or of the models that something else holds."""
    from torch import nn

    if isinstance(model, nn.Module):
        return state_digest(model)
    if is_estimator(model):
        import joblib

        return str(joblib.hash(model, hash_name="sha1"))
    return "".join(state(one) for one in _held(model))


def of_object(target: Any) -> ModelDigest:
    """A hash of a callable or class that the caller holds: the file of its source, and networks it holds or names."""
    owner = getattr(target, "__self__", target)
    kind = owner if hasattr(owner, "__qualname__") else type(owner)
    states = "".join(state(model) for model in _held(target) or _named(target))
    file = source_file(kind)
    files, typed = ([file], "") if file else ([], _compiled(kind))
    return of_files(files, "source", f"{kind.__module__}.{kind.__qualname__}{states}{typed}")


def source_file(kind: Any) -> Path | None:
    """The file of a class's or function's source; None where it is built in, or was typed into a notebook."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(kind))
    except (TypeError, OSError):  # OSError: a class of a __main__ that has no file
        return None
    return Path(file) if file and Path(file).is_file() else None


def _compiled(value: Any) -> str:
    """What no file holds the source of, in words that depend neither on where it was typed nor on addresses."""
    match value:
        case CodeType():
            return f"{value.co_code.hex()} {value.co_names} {value.co_freevars} {_compiled(value.co_consts)}"
        case FunctionType():
            return f"{_compiled(value.__code__)} {_compiled(value.__defaults__)} {_compiled(value.__kwdefaults__)}"
        case type():
            typed = [kind for kind in value.__mro__ if kind.__module__ == value.__module__]
            return " ".join(f"{name} {_compiled(held)}" for kind in typed for name, held in sorted(vars(kind).items()))
        case staticmethod() | classmethod():
            return _compiled(value.__func__)
        case property():
            return _compiled(value.fget)
        case tuple() | list():
            return f"({', '.join(_compiled(one) for one in value)})"
        case dict():
            return _compiled(list(value.items()))
        case set() | frozenset():
            return _compiled(sorted(_compiled(one) for one in value))
        case str() | bytes() | int() | float() | complex() | None:
            return repr(value)
    return type(value).__qualname__


def state_digest(network: nn.Module) -> str:
    """A hash of every parameter and buffer of a network: names, shapes, types and values; and of programs inside it."""
    import torch

    total = hashlib.sha256()
    for name, value in {**network.state_dict(), **dict(network.named_buffers()), **_programs(network)}.items():
        if not isinstance(value, torch.Tensor) or torch.nn.parameter.is_lazy(value):
            total.update(f"{name} {value!r}".encode())
            continue
        total.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        plain = value.detach().dequantize() if value.is_quantized else value.detach().to_dense()
        total.update(plain.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _programs(network: nn.Module) -> dict[str, Any]:
    """What TorchScript and torch.export compute, and constants in it: no class in a source file says that of them."""
    from torch import fx, jit

    found: dict[str, Any] = {}
    for name, part in network.named_modules():
        if isinstance(part, fx.GraphModule):
            found[f"{name} program"] = part.code
        elif isinstance(part, jit.ScriptModule) and hasattr(part, "forward"):
            graph: Any = part.inlined_graph
            found[f"{name} program"] = re.sub(r"___torch_mangle_\d+\.", "", graph.str(False))
            for number, node in enumerate(graph.findAllNodes("prim::Constant")):
                if node.hasAttribute("value") and node.kindOf("value") == "t":
                    found[f"{name} constant {number}"] = node.t("value")
    return found


def _held(target: Any) -> list[Any]:
    """The models that a callable is, is a method of, or holds as attributes; none in a plain function."""
    if isinstance(target, functools.partial):
        return [one for part in (target.func, *target.args, *target.keywords.values()) for one in _held(part)]
    owner = getattr(target, "__self__", target)
    if isinstance(owner, type) or hasattr(owner, "__code__"):
        return []
    return _models([owner]) or _models(getattr(owner, "__dict__", {}).values())


def _named(target: Any) -> list[Any]:
    """The models that a plain function names: globals of its module, and what it closes over."""
    if not inspect.isfunction(target):
        return []
    around = inspect.getclosurevars(target)
    return _models([*around.globals.values(), *around.nonlocals.values()])


def _models(values: Iterable[Any]) -> list[Any]:
    from torch import nn

    return [value for value in values if isinstance(value, nn.Module) or is_estimator(value)]
