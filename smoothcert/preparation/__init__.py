"""What an input needs before its draws: one file each. Here is the certified radius as a function of the noise level.

r(σ) = σ·R(E_A, E_B), where E is the mean softmax over copies x+σε and R the radius of the noise at level 1: the levels
of Gaussian and of uniform noise only stretch it (Alfarra et al. 2022, Algorithm 1). `slope` has its slope as well. Used
to choose σ, never as evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from smoothcert.contracts import Noise, Tensor

_LEAST, _MOST = 0.02, 0.98  # estimates beyond these would make the slope explode


def device_of(network: Any) -> str:
    """Where a network or a classifier wants its inputs: where its weights are; of several, all together."""
    if isinstance(network, torch.nn.Module):
        return next((str(weight.device) for weight in network.state_dict().values()), "cpu")
    inner = getattr(network, "classifier", network)  # of one that is called in batches of one size
    members = getattr(inner, "members", ())
    found = {device_of(member) for member in members} or {str(getattr(inner, "device", "cpu"))}
    return found.pop() if len(found) == 1 else "cpu"


def slope(
    network: Callable[[Tensor], Tensor],
    unit: Noise,
    x: Tensor,
    sigma: Tensor,
    draws: Tensor,
    label: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """dr/dσ [batch], r [batch] and the class [batch] it is about: the leader, unless a label is given.

    x [batch, ...], sigma [batch], draws [copies, batch, ...] of noise at level 1.
    """
    with torch.enable_grad():
        sigma = sigma.detach().requires_grad_()
        radius, label = _radius(network, unit, x, sigma, draws, label)
        (gradient,) = torch.autograd.grad(radius.sum(), sigma)
    return gradient, radius.detach(), label


@torch.no_grad()
def estimate(
    network: Callable[[Tensor], Tensor],
    unit: Noise,
    x: Tensor,
    sigma: Tensor,
    draws: Tensor,
    label: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The radius [batch] at these levels and the class it is about, without a slope."""
    return _radius(network, unit, x, sigma, draws, label)


def _radius(
    network: Callable[[Tensor], Tensor], unit: Noise, x: Tensor, sigma: Tensor, draws: Tensor, label: Tensor | None
) -> tuple[Tensor, Tensor]:
    flat = (x + sigma.view(1, -1, *(1 for _ in x.shape[1:])) * draws).flatten(0, 1)
    answers = network(flat.contiguous(memory_format=torch.channels_last) if flat.ndim == 4 else flat)
    shares = answers.double().softmax(-1).view(len(draws), len(x), -1).mean(0)
    label = shares.argmax(-1) if label is None else label
    own = torch.nn.functional.one_hot(label, shares.shape[-1]).bool()
    top = shares.gather(-1, label.unsqueeze(-1)).squeeze(-1).clamp(_LEAST, _MOST)
    second = shares.masked_fill(own, 0.0).amax(-1).clamp(_LEAST, _MOST)
    return sigma.double() * unit.radius(top, second, x[0].numel()), label
