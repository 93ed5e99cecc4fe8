"""A classifier that reads its input from the last bits of float noise: importable as `low_bits:coarse` by commands."""

from __future__ import annotations

import torch


def coarse(z: torch.Tensor) -> torch.Tensor:
    """Class 1 where every coordinate is a multiple of 2⁻²⁵: after 0.8 + ε it always is, after 0 + ε it seldom is."""
    whole = (z.double() * 2**25 == torch.round(z.double() * 2**25)).flatten(1).all(1).double()
    return torch.stack([0.5 - whole, whole - 0.5], dim=1)
