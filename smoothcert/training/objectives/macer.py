"""Attack-free training for a large certified radius (Zhai et al., ICLR 2020).

Cross-entropy of the mean softmax + λσ/2·max(γ − (Φ⁻¹(ẑ_y) − Φ⁻¹(ẑ_2)), 0) on correct examples, where ẑ is the mean over
copies of softmax(β f): the second term is the radius of `Gaussian` with estimates in place of bounds, and a hinge. With
another noise the gap is 2/σ times its radius: 2√3(ẑ_y − ẑ_2) for the uniform one, and a hinge above 2√3 never lets go.
Published for CIFAR-10, with 440 epochs and lr 0.01, ÷10 at 200 and 400:

    σ      copies  strength λ  hinge γ  beta β
    0.25   16      12          8        16
    0.5    16      4           8        16
    1.0    16      12          8        16
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from smoothcert.contracts import Batch, Norm
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_grid import GaussianGrid
from smoothcert.training.noisy import smoothed_loss
from smoothcert.training.objectives import Loss

_TINY = 1e-300  # far below any estimate that the hinge lets through
_ALL = 1 - 2.0**-53


@dataclass(frozen=True)
class Macer(Loss):
    """`strength` is λ, `hinge` γ, `beta` the inverse temperature of the radius term."""

    norms: ClassVar[tuple[Norm, ...] | None] = ("l1", "l2")  # a radius in l0 moves in steps, and has no slope
    published = {0.25: {"strength": 12.0}, 0.5: {"strength": 4.0}, 1.0: {"strength": 12.0}}

    copies: int = 16
    strength: float = 12.0
    hinge: float = 8.0
    beta: float = 16.0

    def terms(self, answers: Tensor, batch: Batch) -> dict[str, Tensor]:
        plain = isinstance(batch.noise, Gaussian | GaussianGrid)
        gap, correct = (quantile_gap if plain else partial(radius_gap, batch.noise))(self.beta * answers, batch.y)
        shortfall = batch.sigma / 2 * (self.hinge - gap).clamp_min(0) * correct
        return {
            "cross_entropy": smoothed_loss(answers, batch.y).mean(),
            "radius": (self.strength * shortfall.mean()).to(answers.dtype),
        }


def quantile_gap(answers: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Φ⁻¹(ẑ_y) − Φ⁻¹(ẑ_2) [batch] and whether y leads [batch]; ẑ_2 is the largest of the other classes.

    In float64, and with the rest 1 − ẑ_y summed and not subtracted, so that gradients near 0 and 1 stay right.
    """
    top, others = _shares(answers, y)
    second, high = others.amax(-1), top > 0.5
    quantile = torch.special.ndtri(torch.where(high, others.sum(-1), top).clamp_min(_TINY))
    # Another class may have all the votes: such an example is not correct, but its gap must be a number all the same.
    gap = torch.where(high, -quantile, quantile) - torch.special.ndtri(second.clamp(_TINY, _ALL))
    return gap, top > second


def radius_gap(noise: Any, answers: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The radius in units of σ/2 [batch], by the noise itself, and whether y leads [batch]."""
    top, others = _shares(answers, y)
    second = others.amax(-1)
    gap: Tensor = 2 / noise.sigma * noise.radius(top, second, 1)  # no radius that has a slope asks for the dimension
    return gap, top > second


def _shares(answers: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """ẑ_y [batch], and ẑ [batch, classes] with 0 in its place."""
    shares = answers.double().softmax(-1).mean(0)
    own = torch.nn.functional.one_hot(y, shares.shape[-1]).bool()
    return shares.gather(-1, y.unsqueeze(-1)).squeeze(-1), shares.masked_fill(own, 0.0)
