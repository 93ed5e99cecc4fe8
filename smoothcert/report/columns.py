"""The rows of a run by column, as arrays that are made once: a figure of a million rows is one look at them."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from smoothcert.contracts import ABSTAIN
from smoothcert.runs.run import Row, Run

if TYPE_CHECKING:
    from smoothcert.bounds import Floats, Integers

    Marks = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, eq=False)
class RunColumns:
    """One array a column, in the order of the rows; None where some row does not know its value."""

    rows: tuple[Row, ...]

    @cached_property
    def index(self) -> Integers:
        return self._whole("index")

    @cached_property
    def label(self) -> Integers:
        return self._whole("label")

    @cached_property
    def predicted(self) -> Integers:
        return self._whole("predicted")

    @cached_property
    def radius(self) -> Floats:
        return self._real("radius")

    @cached_property
    def clean(self) -> Integers | None:
        return self._whole("clean") if self._all_know("clean") else None

    @cached_property
    def draws(self) -> Integers | None:
        return self._whole("draws") if self._all_know("draws") else None

    @cached_property
    def seconds(self) -> Floats | None:
        return self._real("seconds") if self._all_know("seconds") else None

    @cached_property
    def correct(self) -> Marks:
        return np.equal(self.predicted, self.label)

    @cached_property
    def abstained(self) -> Marks:
        return np.equal(self.predicted, ABSTAIN)

    @cached_property
    def reached(self) -> Floats:
        """What each input adds to ACR: its radius, or nothing where it is wrong."""
        return np.where(self.correct, self.radius, 0.0)

    @cached_property
    def right_radii(self) -> Floats:
        """Of the right answers, ascending."""
        right = self.radius[self.correct]
        return np.sort(right[~np.isnan(right)])

    @overload
    def hits(self, radius: float) -> int: ...
    @overload
    def hits(self, radius: Floats) -> Integers: ...
    def hits(self, radius: float | Floats) -> int | Integers:
        """How many right answers reach a radius, or each of several."""
        found = len(self.right_radii) - np.searchsorted(self.right_radii, radius, side="left")
        return found if isinstance(radius, np.ndarray) else int(found)

    def _whole(self, name: str) -> Integers:
        return np.fromiter(map(attrgetter(name), self.rows), np.int64, len(self.rows))

    def _real(self, name: str) -> Floats:
        return np.fromiter(map(attrgetter(name), self.rows), np.float64, len(self.rows))

    def _all_know(self, name: str) -> bool:
        return all(value is not None for value in map(attrgetter(name), self.rows))


_MADE: dict[int, RunColumns] = {}  # by the id of a run, for as long as the run is there


def columns(run: Run) -> RunColumns:
    """The columns of a run; made when they are first asked for."""
    found = _MADE.get(id(run))
    if found is None:
        found = _MADE[id(run)] = RunColumns(run.rows)
        weakref.finalize(run, _MADE.pop, id(run), None).atexit = False
    return found
