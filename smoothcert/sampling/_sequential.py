"""What schemes share that keep all their draws from look to look: options, refusals, and the test itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from smoothcert.bounds import check_alpha, check_draws, fewest_draws
from smoothcert.contracts import Evidence, Noise, Source, Steps
from smoothcert.errors import OptionError
from smoothcert.sampling._boundaries import Boundaries, check_radii, follow, needs
from smoothcert.sampling._leader import leader_level


@dataclass(frozen=True)
class Sequential(ABC):
    """Tests the radii, smallest first, with looks every `spacing` draws at first; a scheme adds its boundaries."""

    radii: Sequence[float] = ()
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
        levels = [leader_level(self, wanted, p0) if label is None else self.alpha for p0 in wanted]
        tables = [(p0, self.boundaries(p0, level)) for p0, level in zip(wanted, levels, strict=True)]
        return (yield from follow(source, label, tables, self.alpha, self.radii))

    def _needs(self, noise: Noise, dim: int) -> list[float]:
        return needs(noise, self.radii, dim, self.fewest, self.cap, self._name)

    @property
    def _name(self) -> str:
        return type(self).__name__.lower()
