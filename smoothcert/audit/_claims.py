"""What a run claims: of each certified input a label, a radius, and the votes behind them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothcert.contracts import ABSTAIN, Evidence, Source
from smoothcert.data import Inputs
from smoothcert.errors import RunError
from smoothcert.runs.run import Row
from smoothcert.runs.verify import replay, source_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Claim:
    """One certificate, as the run has it; the radius is the stored one, whatever the votes say."""

    index: int
    x: Tensor
    label: int
    radius: float
    alpha: float
    source: Source
    evidence: Evidence | None  # None where the stored answers are not those of the procedure

    @property
    def exact(self) -> bool:
        """Whether every case of the noise was counted."""
        return self.alpha == 0.0

    @property
    def by_half(self) -> bool:
        """Whether it says that the class keeps half of the noisy copies, and not only more than any other class."""
        evidence = self.evidence
        return evidence is None or evidence.question is not None or evidence.next_high >= 1 - evidence.low

    @property
    def least(self) -> float:
        """The probability of its class at the input itself that the claim amounts to."""
        if self.by_half or self.evidence is None:
            return self.source.noise.p_needed(self.radius, self.x.numel())
        return self.evidence.low


def claims(rows: Iterable[Row], inputs: Inputs, procedure: Any, source: Source) -> list[Claim]:
    """The certificates among these rows, as smoothing alone left them: a memory's promises are about the memory."""
    places = {index: position for position, index in enumerate(inputs.indices.tolist())}
    found = []
    for row in (row.smoothed for row in rows):
        if row.predicted == ABSTAIN or row.index not in places:
            continue
        x, own = inputs.tensor(places[row.index]), source_of(row, source)
        try:
            evidence = replay(row, procedure, own, x.numel())[0].evidence
        except RunError:
            evidence = None  # said where counts are checked
        alpha = procedure.sampling.alpha
        found.append(Claim(row.index, x, row.predicted, row.radius, alpha, own, evidence))
    return found


def sample(items: list[Any], number: int, seed: int) -> list[Any]:
    """So many of them, chosen by the seed; −1: all."""
    return items if not 0 <= number < len(items) else random.Random(seed).sample(items, number)
