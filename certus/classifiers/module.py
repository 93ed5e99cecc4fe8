"""A torch network as a classifier: device, eval mode and precision are settled here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certus.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Module:
    """A network in eval mode on a device. Normalisation belongs inside it: it is given inputs in [0,1] plus noise."""

    network: nn.Module
    device: str = "cpu"

    def __post_init__(self) -> None:
        training = [name or "the network" for name, part in self.network.named_modules() if part.training]
        if training:
            raise ModelError(
                f"the network must be in eval mode (call .eval()); got {len(training)} parts in train mode, "
                f"first: {training[0]}"
            )
        self.network.to(self.device)

    def __call__(self, x: Tensor) -> Tensor:
        """Inputs [batch, ...] → scores [batch, classes] in float32 on the CPU."""
        import torch

        with torch.inference_mode():
            on_device = x.to(self.device)
            if on_device.ndim == 4:
                on_device = on_device.contiguous(memory_format=torch.channels_last)
            scores: Any = self.network(on_device)
        if not isinstance(scores, torch.Tensor):
            raise ModelError(f"the network must return a tensor of scores; got {type(scores).__name__}")
        return scores.float().cpu()
