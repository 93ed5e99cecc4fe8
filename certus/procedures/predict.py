"""PREDICT (Cohen, Rosenfeld, Kolter, ICML 2019, section 3.2.1): the smoothed classifier's label, without a radius."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from certus.bounds import check_alpha, check_draws, tie_p_value
from certus.contracts import ABSTAIN, Certificate, Draw, Evidence, Source, Steps
from certus.errors import OptionError


@dataclass(frozen=True)
class Predict:
    """n draws; the winner, when a two-sided test of the two leaders rejects a tie at alpha."""

    n: int = 1000
    alpha: float = 0.001

    def __post_init__(self) -> None:
        check_alpha(self.alpha, "predict")
        check_draws(self.n, "n", "predict")
        fewest = 1
        while tie_p_value(fewest, 0) > self.alpha:
            fewest += 1
        if self.n < fewest:
            raise OptionError(
                f"n of predict must be at least {fewest} to answer anything at alpha {self.alpha:g}; got {self.n}"
            )

    @property
    def cap(self) -> int:
        return self.n

    def __call__(self, source: Source, dim: int, truth: int | None = None) -> Steps[Certificate]:
        counts = yield Draw(source, self.n, purpose="predict")
        votes = counts[0]
        # Stable order: of equal counts the lower class number comes first. A lone class runs against nobody.
        leaders = np.argsort(-votes, kind="stable")[:2]
        first, second = int(votes[leaders[0]]), int(votes[leaders[1]]) if len(leaders) > 1 else 0
        # Two-sided, because the winner was chosen by looking.
        label = int(leaders[0]) if tie_p_value(first, second) <= self.alpha else ABSTAIN
        evidence = Evidence(label, (tuple(int(vote) for vote in votes),), self.n, 0.0, 1.0, self.alpha)
        return Certificate(label, 0.0, source.noise.norm, self.alpha, "none", evidence)
