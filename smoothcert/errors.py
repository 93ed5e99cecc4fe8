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
from typing import Any


class SmoothcertError(Exception):
    """Something the user can put right; its text is the whole explanation."""


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


def require_count(whom: str, least: int = 1, **options: object) -> None:
    """Options that count something must be whole numbers, not below the least."""
    for name, value in options.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise OptionError(f"{name} of {whom} must be a whole number of at least {least}; got {value}")


def require_number(whom: str, least: float = 0.0, **options: object) -> None:
    """Options that measure something must be finite numbers, not below the least."""
    import math

    for name, value in options.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < least:
            raise OptionError(f"{name} of {whom} must be a finite number of at least {least:g}; got {value}")


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
