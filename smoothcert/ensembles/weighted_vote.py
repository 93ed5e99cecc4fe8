"""A weighted mean of probabilities, Σ w·softmax(f) with w ≥ 0 (SWEEN, Liu et al. 2020), or of scores, Σ w·f; Σ w = 1.

The weights are part of the classifier: chosen once, on inputs that nothing is certified on, and then fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from smoothcert.ensembles import Vote, checked_weights, mean, probabilities
from smoothcert.errors import unknown

VALUES = ("softmax", "scores")


@dataclass(frozen=True, eq=False)
class WeightedVote(Vote):
    """One weight for each member, the same for every input."""

    weights: tuple[float, ...]
    values: str = "softmax"  # what is averaged

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.values not in VALUES:
            raise unknown("values of weighted_vote", str(self.values), VALUES)
        object.__setattr__(self, "weights", checked_weights(self.weights, len(self.members), self.values))

    @property
    def shares(self) -> tuple[float, ...]:
        return self.weights

    def combine(self, scores: Sequence[Tensor]) -> Tensor:
        parts = scores if self.values == "scores" else [probabilities(part) for part in scores]
        return mean(parts, self.weights).float()
