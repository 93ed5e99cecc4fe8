"""Stages of fresh draws (Horváth, Müller, Fischer, Vechev, ICLR 2022, Algorithm 2, CERTIFYADP).

Stage j certifies if the lower bound at 1 − α/s reaches the radius, gives up if the upper bound at 1 − β/(s−1) stays
below it, and otherwise passes on; after the last stage the input is not certified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from smoothcert.boundaries import Boundaries, smallest
from smoothcert.bounds import check_draws, fewest_draws, lower_bound, upper_bound
from smoothcert.contracts import Sampling
from smoothcert.errors import OptionError
from smoothcert.sampling import Budget
from smoothcert.sampling._shared import KnownRadii


@dataclass(frozen=True)
class Staged(KnownRadii):
    """Defaults reach the radii of 100 000 draws in one look."""

    stages: tuple[int, ...] = (100, 1_000, 10_000, 120_000)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "stages", tuple(self.stages))
        for stage in self.stages:
            check_draws(stage, "every stage", "staged")
        if not self.stages or list(self.stages) != sorted(set(self.stages)):
            raise OptionError(f"stages of staged must be rising numbers of draws; got {list(self.stages)}")

    @property
    def cap(self) -> int:
        return sum(self.stages)

    @property
    def course(self) -> str:
        return f"stages of {', '.join(map(str, self.stages))} draws"

    @property
    def longest(self) -> tuple[int, str]:
        return self.stages[-1], "the last stage of staged"

    def fewest(self, p0: float) -> int:
        return fewest_draws(p0, self.alpha / len(self.stages))

    @classmethod
    def planned(cls, budget: Budget) -> Mapping[str, Sampling]:
        radii, alpha, beta, cap, _ = budget
        stages = (*(stage for stage in (100, 1000, 10_000) if stage < cap), cap)
        return {"staged": cls(radii, alpha, beta, stages)} if radii else {}

    def boundaries(self, p0: float, alpha: float | None = None) -> Boundaries:
        """The two bounds as counts, stage by stage."""
        return _table(p0, alpha or self.alpha, self.beta, self.stages)


@lru_cache(maxsize=256)
def _table(p0: float, alpha: float, beta: float, stages: tuple[int, ...]) -> Boundaries:
    share, others = alpha / len(stages), len(stages) - 1

    def accept(n: int) -> int:
        return smallest(0, n, lambda hits: lower_bound(hits, n, share) >= p0)

    def reject(n: int) -> int:
        return smallest(0, n, lambda misses: upper_bound(n - misses, n, beta / others) < p0)

    # After the last stage there is nothing left to save, so nothing is given up there.
    rejects = [*map(reject, stages[:-1]), stages[-1] + 1]
    return Boundaries(np.array(stages), np.array([*map(accept, stages)]), np.array(rejects), fresh=True)
