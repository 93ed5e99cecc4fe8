"""One look that also bounds the runner-up: a larger radius when the rest of the votes is spread over several classes.

L_A and U_B are Clopper–Pearson bounds at α/2 each, B the runner-up *in the same draws*. No union over classes is
needed: if the true runner-up C has p_C > U_B, then, B having at least C's votes, C's own bound is exceeded too:
probability ≤ α/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.sampling._shared import OneLook


@dataclass(frozen=True)
class RunnerUp(OneLook):
    """n draws, then bounds on the class and on its runner-up; the class may have less than half of the votes."""

    shares: ClassVar[int] = 2

    def bounds(self, votes: Sequence[int], label: int) -> tuple[float, float]:
        others = max((count for other, count in enumerate(votes) if other != label), default=0)
        low = lower_bound(votes[label], self.n, self.alpha / 2)
        return low, min(upper_bound(others, self.n, self.alpha / 2), 1 - low)
