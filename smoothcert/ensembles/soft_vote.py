"""The mean of the members' scores (Horváth et al., ICLR 2022), or of their probabilities: variance falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from smoothcert.ensembles import Vote, mean, probabilities
from smoothcert.errors import unknown

VALUES = ("scores", "softmax")


@dataclass(frozen=True, eq=False)
class SoftVote(Vote):
    """Of scores, a member with larger ones has more to say; of softmax probabilities, all have the same say."""

    values: str = "scores"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.values not in VALUES:
            raise unknown("values of soft_vote", str(self.values), VALUES)

    @property
    def shares(self) -> tuple[float, ...]:
        return (1.0,) * len(self.members)

    def combine(self, scores: Sequence[Tensor]) -> Tensor:
        parts = scores if self.values == "scores" else [probabilities(part) for part in scores]
        return mean(parts, self.shares).float()
