"""What a run holds when it is read: one row an input, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from smoothcert.contracts import Answer, Norm

UNCOUNTED = ("clean", "core")  # purposes of looks at an input without noise, which are no draws


class Keeper(NamedTuple):
    """The memory of regions that answers for a run."""

    identity: str
    place: str  # the file, which may move
    order: str | None  # of admissions; None: the run adds nothing to the memory
    regions: int | None  # in a memory that no longer changes; None: it grows with the run

    def same(self, other: Keeper) -> bool:
        """Wherever it lies now."""
        return self._replace(place="") == other._replace(place="")


class Settled(NamedTuple):
    """What smoothing alone had said of an input that a memory answered for, and what the memory went by."""

    predicted: int  # by smoothing alone; −1 with radius 0 where nothing was drawn
    radius: float
    conflict: str | None  # "switched" to the label of a region around it, "shrunk" to make room for one
    by: int | None  # number of the region that answered, or that room was made for
    stored: bool  # as region seen + 1
    seen: int  # regions 1 to this were there


@dataclass(frozen=True)
class Row:
    """One input of a run. predicted is −1 for an abstention; its radius is then 0."""

    index: int
    label: int
    predicted: int
    radius: float
    draws: int | None = None  # None where a foreign log does not say
    seconds: float | None = None
    clean: int | None = None  # what the base classifier says without noise, where it was asked
    low: float | None = None  # lower bound on P(predicted), where it is kept
    answers: tuple[Answer, ...] = ()
    sigma: float | None = None  # the input's own noise level, where it was chosen
    settled: Settled | None = None  # what a memory made of it: predicted and radius are then the memory's

    @property
    def correct(self) -> bool:
        return self.predicted == self.label

    @property
    def smoothed(self) -> Row:
        """The row as smoothing alone left it."""
        if self.settled is None:
            return self
        return replace(self, predicted=self.settled.predicted, radius=self.settled.radius, settled=None)


@dataclass(frozen=True)
class Record:
    """A run, or a foreign log, as a value: everything a report is made of."""

    name: str
    kind: Literal["certify", "predict"]
    rows: tuple[Row, ...]  # by index
    settings: Mapping[str, Any] = field(default_factory=dict)  # the recipe as nested tables; empty for a log
    inputs: int | None = None  # how many inputs were asked for; fewer rows mean an unfinished run
    norm: Norm = "l2"  # what its radii are measured in; the field's logs are l2
