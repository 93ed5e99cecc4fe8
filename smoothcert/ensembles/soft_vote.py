"""The mean of the members' scores (Horváth et al., ICLR 2022): the variance of scores falls, and radii grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothcert.ensembles._vote import Vote, mean

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class SoftVote(Vote):
    """Mean of scores; a member with larger scores has more to say."""

    @property
    def shares(self) -> tuple[float, ...]:
        return (1.0,) * len(self.members)

    def combine(self, scores: Sequence[Tensor]) -> Tensor:
        return mean(scores, self.shares).float()
