"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """How much was tried, and everything that is not as it should be."""

    name: str
    trials: int
    tried: str  # in words, with its numbers
    violations: tuple[str, ...] = ()
    excused: tuple[str, ...] = ()  # contradicted certificates, not more than alpha allows

    @property
    def held(self) -> bool:
        return not self.violations
