"""The largest radius that a number of draws can prove, said before any is spent."""

from __future__ import annotations

from smoothcert.bounds import best_lower_bound
from smoothcert.contracts import Noise


def reach(noise: Noise, draws: int, alpha: float, dim: int) -> str:
    """σΦ⁻¹(α^{1/n}) for Gaussian noise, in words."""
    import torch

    best = torch.tensor(best_lower_bound(draws, alpha), dtype=torch.float64)
    radius = float(noise.radius(best, 1 - best, dim))
    return f"{draws} draws at alpha {alpha:g} can prove radii up to {radius:.3f}"
