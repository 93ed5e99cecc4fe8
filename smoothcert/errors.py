"""The errors a user can meet.

    SmoothcertError                one line, exit code 2
    ├── OptionError            an option of a part is not what it must be
    ├── DataError              inputs or labels are not what they must be
    ├── ModelError             a classifier cannot be loaded, or is not a function of its input
    ├── RunError               a run on disk is missing, foreign, damaged, or answers another question
    ├── TrainingError          a training left the numbers; its last checkpoint stands
    └── OutputError            a file cannot be written (permissions, full disk)

Every message reads: *what* of *whom* must be *what*; got *what*. The outermost layer adds the input's index.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, TypeGuard

MOST = 2**31 - 1  # of anything that is counted: beyond it lie mistakes and overflows
LARGEST = 1e6  # of anything that is measured; noise, rates and steps are of the size of inputs in [0,1]
THREADS = 1024  # more end in an operating system that refuses them, sometimes by ending the process
ROOM = 0.5  # share of the machine's memory that one array may take


class SmoothcertError(Exception):
    """Something the user can put right; its text is the whole explanation, in one line whatever names are in it."""

    def __str__(self) -> str:
        return " ".join(super().__str__().split())


class OptionError(SmoothcertError):
    """An option is unknown, or its value is outside what the part accepts."""


class DataError(SmoothcertError):
    """Inputs or labels are missing, damaged, or of another shape or range."""


class ModelError(SmoothcertError):
    """A classifier cannot be loaded, or does not behave like a function of one input."""


class RunError(SmoothcertError):
    """A run cannot be read, continued or verified."""


class TrainingError(SmoothcertError):
    """A loss or a weight is no longer a number; the last checkpoint stands."""


class OutputError(SmoothcertError):
    """A result cannot be written."""


def unknown(what: str, got: str, choices: Iterable[str]) -> OptionError:
    """The error for a name that is not among `choices`, with the nearest one suggested."""
    import difflib

    choices = sorted(choices)
    near = difflib.get_close_matches(got, choices, n=1)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    return OptionError(f"{what} must be one of {', '.join(choices)}; got '{got}'{hint}")


def reason(error: Exception) -> str:
    """The first line of what another library's error says, or its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def require_count(whom: str, least: int = 1, most: int = MOST, **options: object) -> None:
    """Options that count something must be whole numbers within these limits."""
    for name, value in options.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise OptionError(f"{name} of {whom} must be a whole number of at least {least}; got {value}")
        if value > most:
            raise OptionError(f"{name} of {whom} must be a whole number of at most {most}; got {value}")


def require_number(whom: str, least: float = 0.0, most: float = LARGEST, **options: object) -> None:
    """Options that measure something must be finite numbers within these limits."""
    for name, value in options.items():
        if not is_number(value) or not least <= value < float("inf"):
            raise OptionError(f"{name} of {whom} must be a finite number of at least {least:g}; got {value}")
        if value > most:
            raise OptionError(f"{name} of {whom} must be a number of at most {most:g}; got {value}")


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def require_room(whom: str, values: int, **options: object) -> None:
    """Refuse options that ask for so many float32 values at once, where the machine has no room for them."""
    import os

    room = ROOM * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if 4 * values > room:
        (name, value), *_ = options.items()
        needs = f"{4 * values / 2**30:.3g} GB at once of the {room / 2**30:.3g} there is room for"
        raise OptionError(f"{name} of {whom} must fit into this machine's memory; got {value}, which needs {needs}")


def require_fields(whom: str, part: Any, may_be_zero: Iterable[str] = ()) -> None:
    """The options of a part by their types: an `int` counts something, a `float` measures it, a `bool` is one."""
    for field in dataclasses.fields(part):
        kind, value = getattr(field.type, "__name__", field.type), getattr(part, field.name)
        if kind == "int":
            require_count(whom, least=int(field.name not in may_be_zero), **{field.name: value})
        elif kind == "float":
            require_number(whom, **{field.name: value})
        elif kind == "bool" and not isinstance(value, bool):
            raise OptionError(f"{field.name} of {whom} must be true or false; got {value}")
