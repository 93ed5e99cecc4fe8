"""What an objective is given: a batch, and the noise to be added to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from torch import Generator


class Batch(NamedTuple):
    """A batch of clean inputs on their way into a loss."""

    x: Tensor  # [batch, ...] in [0,1]
    y: Tensor  # int64 [batch]
    sigma: Tensor  # [batch], the noise level of each example
    generator: Generator  # the source of every random number of a loss, so that training can be repeated
    epoch: float  # epochs done so far, with the fraction of the present one: warm-ups are told in epochs

    def noise(self, copies: int) -> Tensor:
        """Fresh additive noise [copies, batch, ...]; keep it to use the same draws in an attack and in the loss."""
        shape = (copies, *self.x.shape)
        noise = torch.randn(shape, generator=self.generator, device=self.generator.device).to(self.x.device)
        return noise * self.sigma.view(1, -1, *(1 for _ in self.x.shape[1:]))


class Objective(Protocol):
    """A training loss; its terms are summed for the gradient and logged by name."""

    def __call__(self, model: nn.Module, batch: Batch) -> Mapping[str, Tensor]: ...


def scores(model: nn.Module, noisy: Tensor) -> Tensor:
    """Noisy copies [copies, batch, ...] → scores [copies, batch, classes], in one forward pass."""
    flat = noisy.flatten(0, 1)
    if flat.ndim == 4:
        flat = flat.contiguous(memory_format=torch.channels_last)  # 1.3 × faster on the CPU
    answer: Tensor = model(flat)
    return answer.view(*noisy.shape[:2], *answer.shape[1:])
