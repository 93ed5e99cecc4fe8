"""Classifiers that read their input from the last bits of float noise: importable as `low_bits:coarse` by commands."""

from __future__ import annotations

import torch


def coarse(z: torch.Tensor) -> torch.Tensor:
    """Class 1 where every coordinate is a multiple of 2⁻²⁵: after 0.8 + ε it always is, after 0 + ε it seldom is."""
    whole = (z.double() * 2**25 == torch.round(z.double() * 2**25)).flatten(1).all(1).double()
    return torch.stack([0.5 - whole, whole - 0.5], dim=1)


def last_bit(z: torch.Tensor) -> torch.Tensor:
    """The lowest bit of the first coordinate decides, and nothing else."""
    bit = (z.flatten(1)[:, 0].contiguous().view(torch.int32) & 1).double()
    return torch.stack([0.5 - bit, bit - 0.5], dim=1)


def last_bit_at_times(z: torch.Tensor) -> torch.Tensor:
    """A sum decides; only where it is close, in a fifth of all cases, does the lowest bit of one coordinate."""
    total = z.flatten(1).double().mean(1) - 0.5
    spread = 0.25 / z[0].numel() ** 0.5
    close = (total.abs() < 0.2533 * spread).double()
    return close[:, None] * last_bit(z) + (1 - close[:, None]) * torch.stack([-total, total], dim=1)
