"""What schemes share: one look that proves the largest radius it can, and tests of radii that are known in advance."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smoothcert.boundaries import Boundaries, Verdict, leader_alpha
from smoothcert.bounds import Integers, check_alpha, check_draws, fewest_draws, proven_radii
from smoothcert.contracts import Draw, Evidence, Noise, Sampling, Source, Steps
from smoothcert.errors import OptionError
from smoothcert.sampling import Budget


@dataclass(frozen=True)
class Named(Sampling):
    """A scheme that knows what its file, and so its option, is called."""

    @property
    def name(self) -> str:
        return type(self).__module__.rpartition(".")[2]

    def refuse_few(self, draws: int, option: str, alpha: float) -> None:
        """Refuse numbers of draws with which nothing can be certified at this share of alpha."""
        check_alpha(self.alpha, self.name)
        check_draws(draws, option, self.name)
        if draws < (fewest := fewest_draws(0.5, alpha)):
            raise OptionError(
                f"{option} of {self.name} must be at least {fewest} to certify anything at alpha {self.alpha:g}; "
                f"got {draws}"
            )

    def chosen(self, label: int | None) -> int:
        """The class under test, which other draws must have chosen."""
        if label is None:
            raise OptionError(
                f"{self.name} tests a class that other draws chose; the leader is tested by spending or anytime"
            )
        return label

    def reach(self, noise: Noise, dim: int, alpha: float) -> str:
        """σΦ⁻¹(α^{1/n}) for Gaussian noise, in words."""
        radius = float(proven_radii(np.array(self.cap), self.cap, alpha, noise, dim))
        return f"{self.cap} draws at alpha {alpha:g} can prove radii up to {radius:.3f}"


@dataclass(frozen=True)
class OneLook(Named):
    """n draws, then bounds on probabilities, which share alpha."""

    n: int = 100_000
    alpha: float = 0.001

    shares: ClassVar[int] = 1  # bounds that hold together

    def __post_init__(self) -> None:
        self.refuse_few(self.n, "n", self.alpha / self.shares)

    @property
    def cap(self) -> int:
        return self.n

    def check(self, noise: Noise, dim: int) -> str:
        """The largest radius these draws can prove."""
        return self.reach(noise, dim, self.alpha / self.shares)

    def test(self, source: Source, label: int | None, dim: int) -> Steps[Evidence]:
        label = self.chosen(label)
        counts = yield Draw(source, self.n)
        votes = tuple(int(count) for count in counts[0])
        return Evidence(label, (votes,), self.n, *self.bounds(votes, label), self.alpha)

    @abstractmethod
    def bounds(self, votes: Sequence[int], label: int) -> tuple[float, float]:
        """On the probability of the class from below, and on that of any other from above."""


@dataclass(frozen=True)
class KnownRadii(Named):
    """Tests radii, smallest first, along boundaries; gives up wrongly with probability at most beta."""

    radii: tuple[float, ...] = ()
    alpha: float = 0.001
    beta: float = 0.001

    def __post_init__(self) -> None:
        if not self.radii:
            raise OptionError(f"{self.name} certifies a radius known in advance; give --radius or --radii")
        object.__setattr__(self, "radii", rising(self.radii, self.name))
        check_alpha(self.alpha, self.name)
        check_alpha(self.beta, self.name, "beta")

    @property
    @abstractmethod
    def course(self) -> str:
        """How it draws, in words."""

    @property
    def longest(self) -> tuple[int, str]:
        """The draws that one decision is made on, at most, and what has so many of them."""
        return self.cap, self.name

    @abstractmethod
    def boundaries(self, p0: float, alpha: float | None = None) -> Boundaries:
        """The table for one probability; alpha may be lowered for a purpose of the caller."""

    def fewest(self, p0: float) -> int:
        """The fewest draws that can certify p0, if every one of them hits."""
        return fewest_draws(p0, self.alpha)

    def check(self, noise: Noise, dim: int) -> str:
        """Refuse radii that are out of reach."""
        self.wanted(noise, dim)
        return f"{self.course} decide radius {', '.join(f'{r:g}' for r in self.radii)} at alpha {self.alpha:g}"

    def wanted(self, noise: Noise, dim: int) -> tuple[float, ...]:
        """The probability each radius needs; refused where the draws could not show it even if every one hit."""
        found, (most, whose) = tuple(noise.p_needed(radius, dim) for radius in self.radii), self.longest
        for radius, p0 in zip(self.radii, found, strict=True):
            if p0 >= 1.0:
                raise OptionError(
                    f"radii of {whose} must be within reach of the noise; got {radius:g}, which needs P = 1"
                )
            if most < (least := self.fewest(p0)):
                raise OptionError(
                    f"{whose} must allow at least {least} draws to certify radius {radius:g}; its cap is {most} "
                    "(raise the cap, or take a wider noise or a larger alpha)"
                )
        return found

    def test(self, source: Source, label: int | None, dim: int) -> Steps[Evidence]:
        wanted = self.wanted(source.noise, dim)
        alphas = [leader_alpha(self, wanted, p0) if label is None else self.alpha for p0 in wanted]
        tables = [(p0, self.boundaries(p0, alpha)) for p0, alpha in zip(wanted, alphas, strict=True)]
        return (yield from follow(source, label, tables, self.alpha, self.radii))


def rising(radii: Sequence[float], whose: str) -> tuple[float, ...]:
    """Radii known in advance."""
    if not all(isinstance(r, int | float) and math.isfinite(r) and r >= 0 for r in radii):
        raise OptionError(f"radii of {whose} must be finite numbers of at least 0; got {list(radii)}")
    if list(radii) != sorted(set(radii)):
        raise OptionError(f"radii of {whose} must be rising; got {list(radii)}")
    return tuple(float(r) for r in radii)


@dataclass(frozen=True)
class Sequential(KnownRadii):
    """Keeps all draws from look to look, with looks every `spacing` draws at first; a scheme adds its boundaries."""

    cap: int = 120_000
    spacing: int = 100

    follows_leader: ClassVar[bool] = True
    highest: ClassVar[int] = 10**9  # cap

    def __post_init__(self) -> None:
        super().__post_init__()
        check_draws(self.cap, "cap", self.name, self.highest)
        check_draws(self.spacing, "spacing", self.name)
        if self.spacing > 100:
            raise OptionError(f"spacing of {self.name} must be at most 100; got {self.spacing}")

    @classmethod
    def planned(cls, budget: Budget) -> Mapping[str, Sampling]:
        if not budget.radii:
            return {}
        made = cls(budget.radii, budget.alpha, budget.beta, budget.cap)
        return {made.name: made}

    @property
    def course(self) -> str:
        return f"up to {self.cap} draws"


def follow(
    source: Source, label: int | None, tables: Sequence[tuple[float, Boundaries]], alpha: float, radii: Sequence[float]
) -> Steps[Evidence]:
    """Test rising probabilities on one stream of draws, stopping at the first that fails; label None: the leader.

    `tables` are (p0, boundaries) for each radius, smallest first, over the same looks. Because each is tested only if
    all smaller ones were proven, and each at alpha, one alpha covers them all.
    """
    seen: list[tuple[int, ...]] = []
    votes: Integers = np.zeros(1, dtype=np.int64)
    proven, look = 0.0, -1
    draws = tables[0][1].draws if tables else votes
    for p0, table in tables:
        verdict = table.verdict(look, _hits(votes, label)) if look >= 0 else Verdict.CONTINUE
        while verdict is Verdict.CONTINUE and look + 1 < len(table.size):
            look += 1
            counts = (yield Draw(source, int(draws[look]), ahead=draws[look + 1 :]))[0]
            seen.append(tuple(counts.tolist()))
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
