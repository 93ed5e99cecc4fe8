"""Certify a radius known in advance with draws reused, frequent looks, and α spent exactly.

The boundaries are computed before any draw by carrying the distribution of hits at the least favourable p0 from look to
look: at look j as much of α is spent as the schedule allows, no more. So the error is at most α by computation, not by
a union bound (METHODS: exact spending; the idea of α-spending is Lan and DeMets, Biometrika 1983).

Tables are kept on disk: computed once, found again by their parameters, checked before they are believed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from smoothcert import foreign
from smoothcert.boundaries import START, Boundaries
from smoothcert.bounds import Integers
from smoothcert.errors import OutputError, SmoothcertError
from smoothcert.files import cache_folder, write_whole
from smoothcert.sampling._shared import Sequential

GROWTH = 1.02  # looks are at least this far apart, in proportion
# α spent after n of cap draws is α·(n/cap)^POWER. Any rising schedule is valid; this one was chosen for few draws on
# two published logs (benchmarks/draws.py), and has no constant that depends on p0.
POWER = 0.4
VERSION = 3  # of the way tables are computed and written: a change makes old files strangers
SLACK = 1e-12  # never spent, far above the rounding of the computation


@dataclass(frozen=True)
class Spending(Sequential):
    """Test the radii, smallest first; give up wrongly with probability at most beta."""

    highest: ClassVar[int] = 10**8  # whose table takes most of a minute, and memory

    def boundaries(self, p0: float, alpha: float | None = None) -> Boundaries:
        return _table(p0, alpha or self.alpha, self.beta, self.spacing, self.cap)


@lru_cache(maxsize=64)
def _table(p0: float, alpha: float, beta: float, spacing: int, cap: int) -> Boundaries:
    def build() -> Boundaries:
        size = looks(spacing, cap)
        # Counts only grow: who has reached a later look's boundary will reach it then, so may stop now.
        accept, reject = (_never_falling(spend(*side, size)) for side in ((p0, alpha), (1 - p0, beta)))
        return Boundaries(size, accept, reject)

    parameters = {"scheme": "spending", "p0": p0, "alpha": alpha, "beta": beta, "spacing": spacing, "cap": cap}
    return cached(parameters, build)


def looks(spacing: int, cap: int) -> Integers:
    """Every `spacing` draws at first, then in steps of 2 %, the last at the cap."""
    found = [min(spacing, cap)]
    while found[-1] < cap:
        step = math.ceil(GROWTH * found[-1] / spacing - 1e-9) * spacing
        found.append(min(cap, max(found[-1] + spacing, step)))
    return np.array(found, dtype=np.int64)


def spend(p: float, error: float, size: Integers) -> Integers:
    """The lowest boundaries that a hit count under p crosses with probability ≤ error, spent along the schedule."""
    allowance = error * (size / size[-1]) ** POWER
    boundary = size + 1  # where nothing may be spent yet, no count certifies
    state, spent = START, 0.0
    for j, draws in enumerate(np.diff(size, prepend=0).tolist()):
        state = state.after(draws, p)
        left = float(allowance[j]) - SLACK - spent - state.truncated_mass
        if left >= 0:
            tail = np.cumsum(state.mass[::-1])  # tail[i] = P(one of the i+1 highest counts)
            taken = int(np.searchsorted(tail, left, side="right"))
            boundary[j] = state.first + len(state.mass) - taken
            spent += float(tail[taken - 1]) if taken else 0.0
            state = state.within(state.first, int(boundary[j]))
    return boundary


def _never_falling(boundary: Integers) -> Integers:
    return np.minimum.accumulate(boundary[::-1])[::-1]


def tables_folder() -> Path:
    """Where tables lie."""
    return cache_folder() / "tables"


def cached(parameters: Mapping[str, Any], build: Callable[[], Boundaries]) -> Boundaries:
    """The table for these parameters, from the disk or built and kept there."""
    key = json.dumps({"version": VERSION, **parameters}, sort_keys=True)
    path = tables_folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    found = _load(path, key)
    if found is None:
        found = build()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(_signed([found.size, found.accept, found.reject], key)).encode())
        except (OSError, OutputError):
            return found  # a cache that cannot be written is only slower
    return found


def _signed(columns: list[Integers], key: str) -> dict[str, Any]:
    table = {"key": key, "columns": [column.tolist() for column in columns]}
    return {**table, "digest": hashlib.sha256(json.dumps(table).encode()).hexdigest()}


def _load(path: Path, key: str) -> Boundaries | None:
    """A stored table if every one of its numbers is as it was written, else None."""
    try:
        stored = foreign.parse_json(foreign.content(path, "table"), "table")
        size, accept, reject = (np.array(column, dtype=np.int64) for column in stored["columns"])
        return Boundaries(size, accept, reject) if stored == _signed([size, accept, reject], key) else None
    except (SmoothcertError, ValueError, KeyError, TypeError, OverflowError):
        return None
