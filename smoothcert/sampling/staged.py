"""Stages of fresh draws (Horváth, Müller, Fischer, Vechev, ICLR 2022, Algorithm 2, CERTIFYADP).

Stage j certifies if the lower bound at 1 − α/s reaches the radius, gives up if the upper bound at 1 − β/(s−1) stays
below it, and otherwise passes on; after the last stage the input is not certified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from smoothcert.boundaries import Boundaries, smallest
from smoothcert.bounds import check_alpha, check_draws, fewest_draws, lower_bound, upper_bound
from smoothcert.contracts import Evidence, Noise, Sampling, Source, Steps
from smoothcert.errors import OptionError
from smoothcert.sampling._shared import check_radii, follow, needs


@dataclass(frozen=True)
class Staged(Sampling):
    """Defaults reach the radii of 100 000 draws in one look."""

    radii: tuple[float, ...] = ()
    alpha: float = 0.001
    beta: float = 0.001
    stages: Sequence[int] = (100, 1_000, 10_000, 120_000)

    def __post_init__(self) -> None:
        object.__setattr__(self, "radii", check_radii(self.radii, "staged"))
        object.__setattr__(self, "stages", tuple(self.stages))
        check_alpha(self.alpha, "staged")
        check_alpha(self.beta, "staged", "beta")
        for stage in self.stages:
            check_draws(stage, "every stage", "staged")
        if not self.stages or list(self.stages) != sorted(set(self.stages)):
            raise OptionError(f"stages of staged must be rising numbers of draws; got {list(self.stages)}")

    @property
    def cap(self) -> int:
        return sum(self.stages)

    def check(self, noise: Noise, dim: int) -> str:
        """Refuse radii that the last stage cannot reach."""
        self._needs(noise, dim)
        sizes = ", ".join(f"{stage}" for stage in self.stages)
        return (
            f"stages of {sizes} draws decide radius {', '.join(f'{r:g}' for r in self.radii)} at alpha {self.alpha:g}"
        )

    def boundaries(self, p0: float, alpha: float | None = None) -> Boundaries:
        """The two bounds as counts, stage by stage."""
        return _table(p0, alpha or self.alpha, self.beta, tuple(self.stages))

    def test(self, source: Source, label: int | None, dim: int) -> Steps[Evidence]:
        tables = [(p0, self.boundaries(p0)) for p0 in self._needs(source.noise, dim)]
        return (yield from follow(source, label, tables, self.alpha, self.radii))

    def _needs(self, noise: Noise, dim: int) -> list[float]:
        level = self.alpha / len(self.stages)
        return needs(
            noise, self.radii, dim, lambda p0: fewest_draws(p0, level), self.stages[-1], "the last stage of staged"
        )


@lru_cache(maxsize=256)
def _table(p0: float, alpha: float, beta: float, stages: tuple[int, ...]) -> Boundaries:
    level, others = alpha / len(stages), len(stages) - 1

    def accept(n: int) -> int:
        return smallest(0, n, lambda hits: lower_bound(hits, n, level) >= p0)

    def reject(n: int) -> int:
        return smallest(0, n, lambda misses: upper_bound(n - misses, n, beta / others) < p0)

    # After the last stage there is nothing left to save, so nothing is given up there.
    rejects = [*map(reject, stages[:-1]), stages[-1] + 1]
    return Boundaries(np.array(stages), np.array([*map(accept, stages)]), np.array(rejects), fresh=True)
