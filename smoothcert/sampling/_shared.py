"""What schemes share: refusals, the test along tables of boundaries, and the schemes that keep all their draws."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smoothcert.boundaries import Boundaries, Verdict, leader_alpha
from smoothcert.bounds import Integers, check_alpha, check_draws, fewest_draws, proven_radii
from smoothcert.contracts import Draw, Evidence, Noise, Sampling, Source, Steps
from smoothcert.errors import OptionError


def follow(
    source: Source, label: int | None, tables: Sequence[tuple[float, Boundaries]], alpha: float, radii: Sequence[float]
) -> Steps[Evidence]:
    """Test rising probabilities on one stream of draws, stopping at the first that fails; label None: the leader.

    `tables` are (p0, boundaries) for each radius, smallest first, over the same looks. Because each is tested only if
    all smaller ones were proven, and each at level alpha, one alpha covers them all.
    """
    seen: list[tuple[int, ...]] = []
    votes: Integers = np.zeros(1, dtype=np.int64)
    proven, look = 0.0, -1
    for p0, table in tables:
        verdict = table.verdict(look, _hits(votes, label)) if look >= 0 else Verdict.CONTINUE
        while verdict is Verdict.CONTINUE and look + 1 < len(table.size):
            look += 1
            counts = (yield Draw(source, int(table.draws[look])))[0]
            seen.append(tuple(int(vote) for vote in counts))
            votes = counts if table.fresh or look == 0 else votes + counts
            verdict = table.verdict(look, _hits(votes, label))
        if verdict is not Verdict.CERTIFY:
            break
        # A leader that has certified once is the class all larger radii are about.
        proven, label = p0, int(votes.argmax()) if label is None else label
    found = int(votes.argmax()) if label is None else label
    return Evidence(found, tuple(seen), sum(map(sum, seen)), proven, 1 - proven, alpha, tuple(radii))


def _hits(votes: Integers, label: int | None) -> int:
    return int(votes.max() if label is None else votes[label])


def check_radii(radii: Sequence[float], whose: str) -> tuple[float, ...]:
    """Radii are finite, not negative and rising; refused otherwise."""
    values = tuple(radii)
    if not values:
        raise OptionError(f"{whose} certifies a radius known in advance; give --radius or --radii")
    if not all(isinstance(r, int | float) and math.isfinite(r) and r >= 0 for r in values):
        raise OptionError(f"radii of {whose} must be finite numbers of at least 0; got {list(values)}")
    if list(values) != sorted(set(values)):
        raise OptionError(f"radii of {whose} must be rising; got {list(values)}")
    return tuple(float(r) for r in values)


def needs(
    noise: Noise, radii: Sequence[float], dim: int, fewest: Callable[[float], int], cap: int, whose: str
) -> list[float]:
    """The probability each radius needs; refused where the cap could not show it even if every draw hit."""
    found = [noise.p_needed(radius, dim) for radius in radii]
    for radius, p0 in zip(radii, found, strict=True):
        if p0 >= 1.0:
            raise OptionError(f"radii of {whose} must be within reach of the noise; got {radius:g}, which needs P = 1")
        if cap < (least := fewest(p0)):
            raise OptionError(
                f"{whose} must allow at least {least} draws to certify radius {radius:g}; its cap is {cap} "
                "(raise the cap, or take a wider noise or a larger alpha)"
            )
    return found


def reach(noise: Noise, draws: int, alpha: float, dim: int) -> str:
    """σΦ⁻¹(α^{1/n}) for Gaussian noise, in words."""
    radius = float(proven_radii(np.array(draws), draws, alpha, noise, dim))
    return f"{draws} draws at alpha {alpha:g} can prove radii up to {radius:.3f}"


@dataclass(frozen=True)
class Sequential(Sampling):
    """Tests the radii, smallest first, with looks every `spacing` draws at first; a scheme adds its boundaries."""

    radii: tuple[float, ...] = ()
    alpha: float = 0.001
    beta: float = 0.001
    cap: int = 120_000
    spacing: int = 100
    follows_leader: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "radii", check_radii(self.radii, self._name))
        check_alpha(self.alpha, self._name)
        check_alpha(self.beta, self._name, "beta")
        check_draws(self.cap, "cap", self._name)
        check_draws(self.spacing, "spacing", self._name)
        if self.spacing > 100:
            raise OptionError(f"spacing of {self._name} must be at most 100; got {self.spacing}")

    def check(self, noise: Noise, dim: int) -> str:
        """Refuse radii that the cap cannot reach."""
        self._needs(noise, dim)
        return f"up to {self.cap} draws decide radius {', '.join(f'{r:g}' for r in self.radii)} at alpha {self.alpha:g}"

    @abstractmethod
    def boundaries(self, p0: float, alpha: float | None = None) -> Boundaries:
        """The table for one probability; alpha may be lowered for a purpose of the caller."""

    def fewest(self, p0: float) -> int:
        """The fewest draws that can certify p0, if every one of them hits."""
        return fewest_draws(p0, self.alpha)

    def test(self, source: Source, label: int | None, dim: int) -> Steps[Evidence]:
        wanted = tuple(self._needs(source.noise, dim))
        levels = [leader_alpha(self, wanted, p0) if label is None else self.alpha for p0 in wanted]
        tables = [(p0, self.boundaries(p0, level)) for p0, level in zip(wanted, levels, strict=True)]
        return (yield from follow(source, label, tables, self.alpha, self.radii))

    def _needs(self, noise: Noise, dim: int) -> list[float]:
        return needs(noise, self.radii, dim, self.fewest, self.cap, self._name)

    @property
    def _name(self) -> str:
        return type(self).__name__.lower()
