"""The surest member answers: the one with the largest gap between its two highest probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from smoothcert.ensembles import Vote, probabilities


@dataclass(frozen=True, eq=False)
class MaxMargin(Vote):
    """Scores of the surest member; of equally sure ones, the first."""

    def combine(self, scores: Sequence[Tensor]) -> Tensor:
        stacked = torch.stack(list(scores))
        classes = stacked.shape[2]
        top = probabilities(stacked).topk(min(2, classes), dim=2).values
        surest = (top[..., 0] - top[..., -1]).argmax(0)
        return stacked.gather(0, surest[None, :, None].expand(-1, -1, classes))[0]
