"""How the weights of a new network begin, where the layers' own defaults are not what its paper uses."""

from __future__ import annotations

from torch import nn


def start(network: nn.Module) -> None:
    """Draw convolutions' weights so that gradients keep their size through rectifiers (He et al. 2015); biases 0."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
