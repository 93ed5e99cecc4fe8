"""A run with a memory of certified regions: the memory pass after the draws, or answers instead of draws.

With a memory that grows, every input is certified first; then its certificate is offered to the memory, one after the
other in the order that was asked for, since order matters. An answer is stored as soon as it is given. Stopped between
the two, the offer is made again: the memory knows the region that it stored for it, and answers as it did then.

A memory that no longer changes is asked before any draw.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from smoothcert.contracts import ABSTAIN
from smoothcert.data import Inputs
from smoothcert.errors import unknown
from smoothcert.memory import Memory, MemoryPlace, named, shown
from smoothcert.runs.run import BeforeMemory, MemoryRef, Row
from smoothcert.runs.store import RunStore
from smoothcert.spec import Spec

if TYPE_CHECKING:
    from torch import Tensor

ORDERS = ("index", "reverse", "radius", "random")


@dataclass(frozen=True, eq=False)
class Remember:
    """A memory beside a run."""

    memory: Memory
    place: str  # as it is written down
    order: str | None = None  # of admissions; None: it is asked, and nothing is added
    alone: bool = False  # nobody else is asked: outside its regions there is no answer

    def __post_init__(self) -> None:
        if self.order is not None and self.order not in ORDERS:
            raise unknown("order of a memory pass", self.order, ORDERS)

    @property
    def reference(self) -> MemoryRef:
        regions = None if self.order is not None else len(self.memory)
        return MemoryRef(self.memory.identity, self.place, self.order, regions)

    def answer(self, index: int, label: int, x: Tensor) -> Row | None:
        """The row of an input that needs no draws; None where draws have to tell."""
        found = self.memory.query(x)
        if found is None and not self.alone:
            return None
        settled = BeforeMemory(ABSTAIN, 0.0, None, found.number if found else None, False, len(self.memory))
        predicted, radius = (found.label, found.radius) if found else (ABSTAIN, 0.0)
        return Row(index, label, predicted, radius, draws=0, settled=settled)

    def settle(
        self,
        store: RunStore,
        inputs: Inputs,
        seed: int,
        advance: Callable[[int, int], None] = lambda done, inputs: None,
    ) -> None:
        """Offer every certificate of a run whose draws are done, but for those that were settled earlier."""
        places = {index: position for position, index in enumerate(inputs.indices.tolist())}
        rows = store.rows()
        known: int | None = self._known(rows)
        for done, row in enumerate(ordered(rows, str(self.order), seed)):
            advance(done, len(places))
            if row.settled is not None:
                continue
            found = self.memory.admit(inputs.tensor(places[row.index]), row.predicted, row.radius, known)
            known = None  # only the first offer can have been made before
            settled = BeforeMemory(row.predicted, row.radius, found.conflict, found.by, found.stored, found.seen)
            store.settle(replace(row, predicted=found.label, radius=found.radius, settled=settled))

    def _known(self, rows: Sequence[Row]) -> int:
        """After which regions one lies that this run has offered without hearing the answer, if there is one.

        It came after all that earlier answers tell of. A run without any answer has only the last region to ask about:
        those before it are of others, who may have been asked the same question.
        """
        return max((row.settled.seen + row.settled.stored for row in rows if row.settled), default=len(self.memory) - 1)


@dataclass(frozen=True)
class MemoryUse:
    """Which memory a run is to have, and what for."""

    place: MemoryPlace
    order: str | None = None  # as of Remember
    alone: bool = False

    @contextlib.contextmanager
    def opened(self, spec: Spec, folder: Path, say: Callable[[str], None]) -> Iterator[Remember]:
        """The memory, if it is for this classifier and these inputs; made where it is to grow and there is none.

        Where not even the run of this folder comes about, a new memory does not stay behind either.
        """
        new = self.order is not None and Memory.make(self.place, spec.model_digest, spec.norm, spec.shape)
        if new:
            say(f"{named(self.place)} is a new memory")
        try:
            with Memory.open(self.place, frozen=self.order is None) as memory:
                memory.require(spec.model_digest, spec.norm, spec.shape)
                yield Remember(memory, shown(self.place), self.order, self.alone)
        except Exception:
            if new and not (folder / "recipe.toml").exists():
                Memory.discard(self.place)
            raise


def ordered(rows: Sequence[Row], order: str, seed: int) -> list[Row]:
    """Rows as they are offered: by index, from the last one, by falling radius of smoothing, or at random by seed."""
    rows = sorted(rows, key=lambda row: row.index, reverse=order == "reverse")
    if order == "radius":
        rows.sort(key=lambda row: -row.smoothed.radius)
    if order == "random":
        random.Random(seed).shuffle(rows)
    return rows
