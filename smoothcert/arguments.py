"""Arguments of public functions, held against their annotations at the door: a wrong kind is one line that names it.

Numbers, text, paths, words to choose from, sequences of numbers and classes are checked; numbers of NumPy become
Python's. Protocols, and what only a type checker knows, are left to whoever uses them.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from smoothcert.errors import OptionError

LISTS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
P = ParamSpec("P")
R = TypeVar("R")

WORDS = {int: "a whole number", float: "a number", str: "text", bool: "True or False", Path: "a path"}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whose arguments are first held against their annotations."""
    signature, whom = inspect.signature(function), function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def at_the_door(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise OptionError(f"{whom} must be given the arguments that it has; {error}") from None
        for name, kind in _kinds(function).items():
            if name in bound.arguments and signature.parameters[name].kind not in LISTS:
                bound.arguments[name] = _checked(kind, bound.arguments[name], f"{name} of {whom}")
        return function(*bound.args, **bound.kwargs)

    return at_the_door


@functools.cache
def _kinds(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations that can be checked; those of types that are only imported for the checker cannot."""
    found = {}
    for name, text in function.__annotations__.items():
        try:
            kind = eval(text, function.__globals__) if isinstance(text, str) else text
        except NameError:
            continue
        if name != "return" and all(_plain(part) for part in _parts(kind)):
            found[name] = kind
    return found


def _parts(kind: Any) -> tuple[Any, ...]:
    """What a union is of; any other kind alone."""
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)


def _plain(kind: Any) -> bool:
    if isinstance(kind, type) and kind is not Any:
        return not getattr(kind, "_is_protocol", False)  # what a part must have, its user says better
    return kind == Sequence[float] or typing.get_origin(kind) is typing.Literal


def _number(value: Any) -> Any:
    """A number of NumPy as Python's; anything else as it is."""
    alone = hasattr(value, "item") and getattr(value, "shape", None) == () and not hasattr(value, "requires_grad")
    return value.item() if alone else value


def _checked(kind: Any, value: Any, whose: str) -> Any:
    value = _number(value)
    if not any(_is(part, value) for part in _parts(kind)):
        raise OptionError(f"{whose} must be {_words(kind)}; got {_shown(value)}")
    return value


def _is(kind: Any, value: Any) -> bool:
    if typing.get_origin(kind) is typing.Literal:
        return isinstance(value, str)  # whoever takes the word says which there are, and which may have been meant
    if kind == Sequence[float]:
        some = isinstance(value, Iterable) and not isinstance(value, str | bytes | dict)
        return some and all(_is(float, _number(one)) for one in value)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float if kind is float else kind)


def _words(kind: Any) -> str:
    said = []
    for part in _parts(kind):
        if typing.get_origin(part) is typing.Literal:
            said.append("one of " + ", ".join(map(str, typing.get_args(part))))
        elif part is not type(None):
            said.append("numbers" if part == Sequence[float] else WORDS.get(part, f"a {part.__name__}"))
    return " or ".join([*said, *(["None"] if type(None) in _parts(kind) else [])])


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:57]}…"
