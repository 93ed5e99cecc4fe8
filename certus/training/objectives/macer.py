"""Attack-free training for a large certified radius (Zhai et al., ICLR 2020).

Cross-entropy of the mean softmax + λσ/2·max(γ − (Φ⁻¹(ẑ_y) − Φ⁻¹(ẑ_2)), 0) on correct examples, where ẑ is the mean over
copies of softmax(β f): the second term is the radius of `Gaussian` with estimates in place of bounds, and a hinge.
Published for CIFAR-10, with 440 epochs and lr 0.01, ÷10 at 200 and 400:

    σ      copies  strength λ  hinge γ  beta β
    0.25   16      12          8        16
    0.5    16      4           8        16
    1.0    16      12          8        16
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from certus.contracts import Batch
from certus.training.attack import smoothed_loss
from certus.training.forward import scores
from certus.training.published import require_count, require_number

_TINY = 1e-300  # far below any estimate that the hinge lets through
_ALL = 1 - 2.0**-53


@dataclass(frozen=True)
class Macer:
    """`strength` is λ, `hinge` γ, `beta` the inverse temperature of the radius term."""

    PUBLISHED: ClassVar[Mapping[float, Mapping[str, Any]]] = {
        0.25: {"strength": 12.0},
        0.5: {"strength": 4.0},
        1.0: {"strength": 12.0},
    }

    copies: int = 16
    strength: float = 12.0
    hinge: float = 8.0
    beta: float = 16.0

    def __post_init__(self) -> None:
        require_count("macer", copies=self.copies)
        require_number("macer", strength=self.strength, hinge=self.hinge, beta=self.beta)

    def __call__(self, model: nn.Module, batch: Batch) -> Mapping[str, Tensor]:
        return self.terms(scores(model, batch.x + batch.noise(self.copies)), batch)

    def terms(self, answers: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        """Both terms, from scores [copies, batch, classes]."""
        gap, correct = quantile_gap(self.beta * answers, batch.y)
        shortfall = batch.sigma / 2 * (self.hinge - gap).clamp_min(0) * correct
        return {
            "cross_entropy": smoothed_loss(answers, batch.y).mean(),
            "radius": (self.strength * shortfall.mean()).to(answers.dtype),
        }


def quantile_gap(answers: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Φ⁻¹(ẑ_y) − Φ⁻¹(ẑ_2) [batch] and whether y leads [batch]; ẑ_2 is the largest of the other classes.

    In float64, and with the rest 1 − ẑ_y summed and not subtracted, so that gradients near 0 and 1 stay right.
    """
    shares = answers.double().softmax(-1).mean(0)
    own = torch.nn.functional.one_hot(y, shares.shape[-1]).bool()
    others = shares.masked_fill(own, 0.0)
    top, second = shares.gather(-1, y.unsqueeze(-1)).squeeze(-1), others.amax(-1)
    high = top > 0.5
    quantile = torch.special.ndtri(torch.where(high, others.sum(-1), top).clamp_min(_TINY))
    # Another class may have all the votes: such an example is not correct, but its gap must be a number all the same.
    gap = torch.where(high, -quantile, quantile) - torch.special.ndtri(second.clamp(_TINY, _ALL))
    return gap, top > second
