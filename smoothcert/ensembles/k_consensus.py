"""Where the first K members agree on a noisy input they answer for all (Horváth et al., ICLR 2022, §6).

Decided for each noisy input by itself, so this is one fixed classifier, and a certificate is for exactly this one: the
full vote is another. Members belong in order of their noisy hold-out accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smoothcert.ensembles import Cascade, ask, together
from smoothcert.errors import OptionError


@dataclass(frozen=True, eq=False)
class KConsensus(Cascade):
    """Vote of the first k members where they name the same class, of all members where they do not."""

    k: int

    def __post_init__(self) -> None:
        super().__post_init__()
        members = len(self.members)
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 1 <= self.k <= members:
            raise OptionError(f"k of k_consensus must be a whole number from 1 to the {members} members; got {self.k}")
        if self.vote.shares is not None and not sum(self.vote.shares[: self.k]) > 0:
            raise OptionError(
                f"weights of the first {self.k} members of k_consensus must not all be 0; got nothing else"
            )

    def __call__(self, x: Tensor) -> Tensor:
        """Noisy inputs [batch, ...] → scores [batch, classes]."""
        first = together([ask(member, x) for member in self.members[: self.k]])
        scores = self.vote.answer(first)
        others = self.members[self.k :]
        answers = torch.stack([part.argmax(1) for part in first])
        left = (answers != answers[0]).any(0).nonzero().squeeze(1)
        self.tally.add(len(x), len(x) * self.k + len(left) * len(others), len(x) - len(left) if others else 0)
        if len(left) and others:
            undecided = x[left]
            rest = [ask(member, undecided, self.rows_a_call) for member in others]
            scores[left] = self.vote.answer(together([*(part[left] for part in first), *rest]))
        return scores
