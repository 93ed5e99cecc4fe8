"""Settings that papers give by noise level."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from smoothcert.errors import OptionError


def nearest(table: Mapping[float, Mapping[str, Any]], sigma: float) -> dict[str, Any]:
    """The row of the published σ nearest to this one, by ratio."""
    return dict(table[min(table, key=lambda known: abs(math.log(known / sigma)))]) if table else {}


def require_count(whom: str, least: int = 1, **options: object) -> None:
    """Options that count something."""
    for name, value in options.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise OptionError(f"{name} of {whom} must be a whole number of at least {least}; got {value}")


def require_number(whom: str, least: float = 0.0, **options: object) -> None:
    """Options that are finite numbers, not below the least."""
    for name, value in options.items():
        fine = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not fine or value < least:  # type: ignore[operator]
            raise OptionError(f"{name} of {whom} must be a finite number of at least {least:g}; got {value}")


def warmed(epoch: float, epochs: float) -> float:
    """The share of a strength that grows with each epoch and is whole after so many."""
    return min(1.0, (int(epoch) + 1) / epochs) if epochs > 0 else 1.0
