"""One vote a member, for the class with its highest score.

Where several classes lead together, the one with the higher mean score wins, then the one with the lower number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from smoothcert.ensembles import Vote, mean


@dataclass(frozen=True, eq=False)
class HardVote(Vote):
    """Share of the votes; the winner of a tie has half a vote more, so that it also has the highest score."""

    def combine(self, scores: Sequence[Tensor]) -> Tensor:
        numbers = torch.arange(scores[0].shape[1], device=scores[0].device)
        votes = torch.zeros_like(scores[0])
        for part in scores:
            votes = votes + (numbers == part.argmax(1, keepdim=True))
        lead = votes == votes.amax(1, keepdim=True)
        average = mean(scores, (1.0,) * len(scores)).clamp(min=-1e300)  # a class that leads is above one that does not
        winner = torch.where(lead, average, -torch.inf).argmax(1, keepdim=True)
        tied = lead.sum(1, keepdim=True) > 1
        return (votes + 0.5 * (tied & (numbers == winner))) / len(scores)
