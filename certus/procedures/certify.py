"""CERTIFY (Cohen, Rosenfeld, Kolter, ICML 2019, section 3.2.2): a label and a radius around one input."""

from __future__ import annotations

from dataclasses import dataclass, field

from certus.bounds import check_draws
from certus.contracts import Certificate, Draw, Sampling, Source, Steps
from certus.sampling.fixed import Fixed


@dataclass(frozen=True)
class Certify:
    """Guess the class with n0 draws, then test it with fresh ones."""

    n0: int = 100
    sampling: Sampling = field(default_factory=Fixed)

    def __post_init__(self) -> None:
        check_draws(self.n0, "n0", "certify")

    @property
    def cap(self) -> int:
        return self.n0 + self.sampling.cap

    def __call__(self, source: Source, dim: int) -> Steps[Certificate]:
        guess = yield Draw(source, self.n0, purpose="guess")  # its own draws: never evidence
        evidence = yield from self.sampling.test(source, label=int(guess[0].argmax()))
        return evidence.certificate(source.noise, dim)
