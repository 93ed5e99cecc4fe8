"""Cross-entropy at noisy copies of the input (Lecuyer et al. 2019; Cohen et al. 2019), whatever the noise."""

from dataclasses import dataclass

from smoothcert.training.objectives import Loss


@dataclass(frozen=True)
class GaussianObjective(Loss):
    """Mean cross-entropy over `copies` noisy copies of each input; 1 as in the papers."""

    copies: int = 1
