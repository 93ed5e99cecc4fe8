"""Noisy copies of a batch, for losses.

A noise that is added (`ScalableNoise`) is drawn once, by torch, at each example's own level, and attacks climb through
it. Any other noise fills the copies as it does for certificates, example by example, and has no slope. Nothing of this
is evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from smoothcert.contracts import Batch, Noise, Stream
from smoothcert.noise import ScalableNoise
from smoothcert.noise.discrete import Discrete

Noisy: TypeAlias = Callable[[Tensor], Tensor]  # points [batch, ...] → noisy copies [copies, batch, ...], draws held


def fresh(batch: Batch, copies: int) -> Noisy:
    """Fresh draws for a batch; keep them to use the same ones in an attack and in the loss."""
    if isinstance(batch.noise, ScalableNoise):
        noise = added(batch, batch.noise, copies)
        return lambda at: at + noise
    seed = int(torch.randint(2**63 - 1, (), generator=batch.generator, device=batch.generator.device))
    return lambda at: filled(batch.noise, at, copies, seed)


def added(batch: Batch, noise: ScalableNoise, copies: int) -> Tensor:
    """What such a noise adds: [copies, batch, ...]."""
    unit = noise.unit((copies, *batch.x.shape), batch.generator).to(batch.x.device)
    return unit * batch.sigma.view(1, -1, *(1 for _ in batch.x.shape[1:]))


def filled(noise: Noise, x: Tensor, copies: int, seed: int) -> Tensor:
    """Noisy copies [copies, batch, ...] of x; the same seed gives the same draws at any other x."""
    inputs = x.detach().float().cpu().contiguous()
    if isinstance(noise, Discrete):  # its coordinates are independent: the batch is as good as one long input
        out = torch.empty(copies, *x.shape)
        noise.fill(out, inputs, Stream(seed, 0, "training"), 0)
        return out.to(x)
    out = torch.empty(len(x), copies, *x.shape[1:])
    for number, own in enumerate(inputs):
        noise.fill(out[number], own, Stream(seed, number, "training"), 0)
    return out.transpose(0, 1).to(x)
