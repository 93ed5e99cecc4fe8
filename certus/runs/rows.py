"""What a run holds when it is read: one row an input, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from certus.contracts import Answer, Norm

UNCOUNTED = ("clean", "core")  # purposes of looks at an input without noise, which are no draws


class Settled(NamedTuple):
    """What a memory of regions answered, beside what smoothing alone had said."""

    predicted: int  # by smoothing alone
    radius: float
    conflict: str | None  # "switched" to the label of a region around it, "shrunk" to make room for one


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


@dataclass(frozen=True)
class Record:
    """A run, or a foreign log, as a value: everything a report is made of."""

    name: str
    kind: Literal["certify", "predict"]
    rows: tuple[Row, ...]  # by index
    settings: Mapping[str, Any] = field(default_factory=dict)  # the recipe as nested tables; empty for a log
    inputs: int | None = None  # how many inputs were asked for; fewer rows mean an unfinished run
    norm: Norm = "l2"  # what its radii are measured in; the field's logs are l2
