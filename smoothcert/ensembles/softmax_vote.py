"""The mean of the members' probabilities: every member has the same say, however large its scores are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothcert.ensembles._vote import Vote, mean, probabilities

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class SoftmaxVote(Vote):
    """Mean of the softmax of scores."""

    @property
    def shares(self) -> tuple[float, ...]:
        return (1.0,) * len(self.members)

    def combine(self, scores: Sequence[Tensor]) -> Tensor:
        return mean([probabilities(part) for part in scores], self.shares).float()
