"""A noise level for every training example, moved uphill as training goes on (Alfarra et al. 2022, §4).

After a warm-up at one σ, each example's σ takes one step of gradient ascent on its radius an epoch, before its loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.contracts import Batch
from smoothcert.noise import at_level
from smoothcert.sigma_ascent import slope
from smoothcert.training.attack import evaluating
from smoothcert.training.draws import added
from smoothcert.training.settings import Settings

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_WIDEST = 4.0  # an example's σ stays within a factor of this of the common one


@dataclass(frozen=True, eq=False)
class SigmaMap:
    """`values` holds σ of every training example."""

    values: Tensor
    settings: Settings

    @classmethod
    def fresh(cls, settings: Settings, count: int) -> SigmaMap:
        """All examples at the common σ; 1 for a noise that has none."""
        return cls(torch.full((count,), 1.0 if settings.sigma is None else settings.sigma), settings)

    def of(self, chosen: np.ndarray[Any, Any]) -> Tensor:
        """σ of these examples."""
        return self.values[torch.from_numpy(chosen)]

    def moves(self, epoch: int) -> bool:
        """Whether levels are moved in this epoch."""
        return self.settings.sigma_per_example and epoch >= self.settings.sigma_warmup

    def step(self, network: nn.Module, batch: Batch, chosen: np.ndarray[Any, Any]) -> Batch:
        """One step uphill for the examples of a batch; the batch at its new levels."""
        noise: Any = batch.noise  # one that a level stretches: `setup` refuses others
        common = float(noise.sigma)
        draws = added(batch, noise, self.settings.sigma_draws)
        draws /= batch.sigma.view(1, -1, *(1 for _ in batch.x.shape[1:]))
        with evaluating(network) as evaluated:
            gradient, _, _ = slope(evaluated, at_level(noise, 1.0), batch.x, batch.sigma, draws)
        moved = (batch.sigma + self.settings.sigma_step * gradient).clamp(common / _WIDEST, common * _WIDEST)
        self.values[torch.from_numpy(chosen)] = moved.cpu()
        return batch._replace(sigma=moved)

    def share(self, fabric: Fabric, before: Tensor) -> None:
        """Bring the processes' maps together: each has moved other examples."""
        moved: Any = fabric.all_reduce(self.values - before, reduce_op="sum")
        self.values.copy_(before + moved)
