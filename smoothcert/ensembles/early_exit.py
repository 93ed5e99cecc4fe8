"""Ask one member after the other until the mean probability of the leading class is surely above one half (SWEEN).

After i members, p̄ = Σ w·p/Σ w and c its highest class. Stop if i = 1 and p̄_c > T, or if i > 1 and
p̄_c > ½ + z·(√Σw²/Σw)·√(Σ w(p_c − p̄_c)²/Σw) with z = Φ⁻¹(1 − a/2); T = 0.999 and a = 0.05 are those of the released
code. The answer is the vote of the members asked. It is one fixed classifier; the full vote is another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import torch
from torch import Tensor

from smoothcert.ensembles import Cascade, ask, mean, probabilities, together
from smoothcert.errors import OptionError


@dataclass(frozen=True, eq=False)
class EarlyExit(Cascade):
    """Members in order of falling weight; level 0 and threshold 1 never stop early."""

    threshold: float = 0.999  # T, for the first member alone
    level: float = 0.05  # a, of the interval around the mean of several

    def __post_init__(self) -> None:
        super().__post_init__()
        shares = self.vote.shares
        if shares is None:
            raise OptionError(
                f"vote inside early_exit must be a mean, as in soft, softmax, weighted; got {self.vote.name}"
            )
        if any(after > before for before, after in pairwise(shares)):
            raise OptionError(
                f"members of early_exit must be in order of falling weight; got {', '.join(map(str, shares))}"
            )
        for name, value in (("threshold", self.threshold), ("level", self.level)):
            if not (isinstance(value, int | float) and 0 <= value <= 1):
                raise OptionError(f"{name} of early_exit must be from 0 to 1; got {value}")

    def __call__(self, x: Tensor) -> Tensor:
        """Noisy inputs [batch, ...] → scores [batch, classes]."""
        seen = [ask(self.members[0], x)]
        scores = self.vote.answer(seen)
        left, asked = torch.arange(len(x), device=x.device), len(x)
        for member in self.members[1:]:
            on = (~self._sure(seen)).nonzero().squeeze(1)
            if not len(on):
                left = on
                break
            left, seen = left[on], [part[on] for part in seen]
            seen = together([*seen, ask(member, x[left], self.rows_a_call)])
            scores[left] = self.vote.answer(seen)
            asked += len(left)
        self.tally.add(len(x), asked, len(x) - len(left))
        return scores

    def _sure(self, scores: Sequence[Tensor]) -> Tensor:
        """Which rows need no further member: bool [batch]."""
        shares = (self.vote.shares or ())[: len(scores)]
        parts = [probabilities(part) for part in scores]
        average = mean(parts, shares)
        top, leader = average.max(1, keepdim=True)
        if len(scores) == 1:
            return (top > self.threshold).squeeze(1)
        spread = mean([(part.gather(1, leader) - top) ** 2 for part in parts], shares).sqrt()
        width = self._quantile * math.hypot(*shares) / math.fsum(shares)
        return (top - 0.5 > width * spread).squeeze(1)  # ∞·0 is no number, and nothing is above it

    @property
    def _quantile(self) -> float:
        return NormalDist().inv_cdf(1 - self.level / 2) if self.level > 0 else math.inf
