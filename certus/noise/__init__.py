"""① A distribution, and the certificate its theorem buys: one file each."""

from __future__ import annotations

import dataclasses
from typing import Any


def at_level(noise: Any, sigma: float) -> Any:
    """The same kind of noise at another level; a half-width follows the level."""
    others = {"lam": 0.0} if "lam" in {field.name for field in dataclasses.fields(noise)} else {}
    return dataclasses.replace(noise, sigma=sigma, **others)
