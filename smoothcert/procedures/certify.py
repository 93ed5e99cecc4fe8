"""CERTIFY (Cohen, Rosenfeld, Kolter, ICML 2019, section 3.2.2): a label and a radius around one input."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from smoothcert.bounds import check_draws
from smoothcert.contracts import Certificate, Draw, Procedure, Sampling, Source, Steps, TestClass
from smoothcert.errors import OptionError, unknown
from smoothcert.sampling.fixed import Fixed

TEST_CLASSES = ("guess", "labels", "leader")


@dataclass(frozen=True)
class Certify(Procedure):
    """Choose a class, then test it with fresh draws.

    test_class="guess": the class that n0 draws of their own choose. "leader": no draws for choosing; the class that
    leads is tested, at an alpha that allows for that. "labels": the true label, for evaluation; this answers another
    question, *is the right label certified*, and a wrong one is never reported.
    """

    n0: int = 100
    sampling: Sampling = field(default_factory=Fixed)
    test_class: TestClass = field(default="guess", metadata={"stored": "against"})

    kind: ClassVar[Literal["certify"]] = "certify"

    def __post_init__(self) -> None:
        if self.test_class not in TEST_CLASSES:
            raise unknown("against of certify", self.test_class, TEST_CLASSES)
        check_draws(self.n0, "n0", "certify")
        if self.test_class == "guess" and self.sampling.alpha == 0.0:
            object.__setattr__(self, "test_class", "leader")  # where every case is counted, there is nothing to guess
        if self.test_class == "leader" and not self.sampling.follows_leader:
            raise OptionError(
                "sampling must be one that can follow the leading class (spending, anytime); "
                f"got {type(self.sampling).__name__.lower()}"
            )

    @property
    def alpha(self) -> float:
        return self.sampling.alpha

    @property
    def cap(self) -> int:
        return self.sampling.cap + (self.n0 if self.test_class == "guess" else 0)

    def __call__(self, source: Source, dim: int, truth: int | None = None) -> Steps[Certificate]:
        label: int | None = truth if self.test_class == "labels" else None
        if self.test_class == "guess":
            guess = yield Draw(source, self.n0, purpose="guess")  # its own draws: never evidence
            label = int(guess[0].argmax())
        evidence = yield from self.sampling.test(source, label, dim)
        return evidence.certificate(source.noise, dim)
