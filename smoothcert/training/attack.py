"""Attacks on a smoothed classifier, for the objectives that train against them (Salman et al. 2019, §2.3).

Both look, in the l2 ball around x, for the point x̂ where −log mean_k softmax(f(x̂+ε_k))_y is largest, with draws ε_k
that are given and stay: the same in attack and loss. The network is asked in eval mode, so that batch statistics
are left alone, and x̂ stays in [0,1].
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from smoothcert.contracts import Batch
from smoothcert.training.draws import Noisy
from smoothcert.training.forward import scores

_DDN_START, _DDN_GAMMA = 1.0, 0.05  # first norm, and how much it gives in each step


def smoothed_loss(answers: Tensor, y: Tensor) -> Tensor:
    """−log of the mean probability of y: scores [copies, batch, classes] → [batch]."""
    logs = answers.log_softmax(-1)
    picked = logs.gather(-1, y.expand(len(answers), -1).unsqueeze(-1)).squeeze(-1)
    return math.log(len(answers)) - picked.logsumexp(0)


def pgd(
    model: nn.Module, batch: Batch, noisy: Noisy, radius: float, steps: int, step_size: float | None = None
) -> Tensor:
    """Projected gradient ascent by normalised steps, 2·radius/steps long unless told."""
    delta = torch.zeros_like(batch.x)
    with evaluating(model) as network:
        for _ in range(steps):
            gradient, _ = ascent(network, batch, delta, noisy)
            length = 2 * radius / steps if step_size is None else step_size
            delta = _shortened(_inside(batch.x, delta + length * unit(gradient)), radius)
    return batch.x + delta


def ddn(model: nn.Module, batch: Batch, noisy: Noisy, radius: float, steps: int) -> Tensor:
    """Decoupled direction and norm (Rony et al. 2019): the norm shrinks while the attack succeeds, up to radius."""
    delta = torch.zeros_like(batch.x)
    norm = torch.full((len(batch.x),), min(_DDN_START, radius), device=batch.x.device, dtype=batch.x.dtype)
    with evaluating(model) as network:
        for number in range(steps):
            gradient, answers = ascent(network, batch, delta, noisy)
            succeeds = answers.softmax(-1).mean(0).argmax(-1) != batch.y
            length = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * number / steps))
            norm = torch.where(succeeds, norm * (1 - _DDN_GAMMA), norm * (1 + _DDN_GAMMA)).clamp(max=radius)
            moved = delta + length * unit(gradient)
            delta = _inside(batch.x, unit(moved) * _as(norm, moved))
    return batch.x + delta


def ascent(network: nn.Module, batch: Batch, delta: Tensor, noisy: Noisy) -> tuple[Tensor, Tensor]:
    """The gradient of the smoothed loss at x+delta, and the scores there."""
    with torch.enable_grad():
        delta = delta.detach().requires_grad_()
        answers = scores(network, noisy(batch.x + delta))
        (gradient,) = torch.autograd.grad(smoothed_loss(answers, batch.y).sum(), delta)
    return gradient, answers.detach()


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """The network itself, without what devices and processes wrap around it, in eval mode for a while."""
    network = model
    while isinstance(inner := getattr(network, "module", None), nn.Module):
        network = inner
    was = network.training
    network.eval()
    try:
        yield network
    finally:
        network.train(was)


def unit(vectors: Tensor) -> Tensor:
    """Each of [batch, ...] at length 1; zeros stay."""
    length = vectors.flatten(1).norm(dim=1)
    return vectors / _as(length.clamp_min(torch.finfo(vectors.dtype).tiny), vectors)


def _shortened(delta: Tensor, radius: float) -> Tensor:
    length = delta.flatten(1).norm(dim=1).clamp_min(torch.finfo(delta.dtype).tiny)
    return delta * _as((radius / length).clamp(max=1.0), delta)


def _inside(x: Tensor, delta: Tensor) -> Tensor:
    return (x + delta).clamp(0, 1) - x


def _as(values: Tensor, like: Tensor) -> Tensor:
    return values.view(-1, *(1 for _ in like.shape[1:]))
