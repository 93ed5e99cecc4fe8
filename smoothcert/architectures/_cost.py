"""What a network costs: its parameters, and multiply-adds for one input."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode


class Cost(NamedTuple):
    """Numbers for one input; an addition to a product counts once, as the field counts."""

    parameters: int
    multiply_adds: int

    def __str__(self) -> str:
        return f"{self.parameters:,} parameters, {self.multiply_adds / 1e6:,.1f} M multiply-adds an input"


def cost(network: nn.Module, shape: tuple[int, ...]) -> Cost:
    """Counted in one forward pass, in eval mode: convolutions and products, and 2 for each value of a batch norm."""
    normalised = 0

    def count(_: nn.Module, __: Any, answer: Tensor) -> None:
        nonlocal normalised
        normalised += 2 * answer.numel()

    layers = [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    was = network.training
    network.eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, *shape))
    network.train(was)
    for hook in hooks:
        hook.remove()
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return Cost(parameters, counter.get_total_flops() // 2 + normalised)
