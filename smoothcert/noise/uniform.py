"""Uniform noise and its l1 certificate (Lee, Yuan, Chang, Jaakkola, NeurIPS 2019; Yang et al., ICML 2020).

ε is uniform on [−λ, λ]^d. Moving x by δ takes away at most ‖δ‖₁/2λ of the cube, so no probability changes by more: if
p_A ≥ p_top > p_next ≥ every other p_c, the smoothed classifier is constant in the open l1 ball of radius
λ(p_top − p_next).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smoothcert.contracts import Moments, Noise, Norm, Stream, StreamRows, Tensor, TorchGenerator
from smoothcert.noise import ROOT, added, half_width, needed_within
from smoothcert.philox import Names, names, tensor
from smoothcert.philox import words as device_words
from smoothcert.streams import words


@dataclass(frozen=True, kw_only=True)
class Uniform(Noise):
    """Independent uniform noise on every coordinate: give lam, its half-width, or sigma = lam/√3."""

    lam: float = 0.0
    sigma: float = 0.0

    norm: ClassVar[Norm] = "l1"

    def __post_init__(self) -> None:
        lam = half_width("uniform", self.lam, self.sigma)
        object.__setattr__(self, "lam", lam)
        object.__setattr__(self, "sigma", float(self.sigma) or lam / ROOT)

    @property
    def level(self) -> str:
        return f"λ = {self.lam:.4g} (σ = {self.sigma:.4g})"

    def fill(self, out: Tensor, x: Tensor, stream: Stream, first: int) -> None:
        """Write x + λ·u into out [rows, *x.shape], u from one signed 32-bit word a coordinate."""
        rows, dim = out.shape[0], x.numel()
        noisy = out.view(rows, dim).numpy()
        noisy[:] = words(stream, first, rows, dim).view(np.int32)[:, :dim]
        noisy *= _width(self.lam)
        noisy += x.reshape(1, dim).numpy()

    def fill_rows(self, out: Tensor, x: Tensor, rows: StreamRows) -> None:
        """The same from the same words."""
        rows.run(_add_uniform, out, x, names(rows), tensor(_width, (self.lam,), x))

    def unit(self, shape: Sequence[int], generator: TorchGenerator) -> Tensor:
        """Uniform numbers of standard deviation 1, so λ = √3."""
        import torch

        return ROOT * (2 * torch.rand(tuple(shape), generator=generator, device=generator.device) - 1)

    def radius(self, p_top: Tensor, p_next: Tensor, dim: int) -> Tensor:
        """λ(p_top − p_next), whatever the dimension."""
        radius: Tensor = self.lam * (p_top - p_next)
        return radius

    def p_needed(self, radius: float, dim: int) -> float:
        """½ + r/(2λ), rounded up."""
        return needed_within(radius, self.lam)

    def moments(self, x: Tensor) -> Moments:
        return added(x, self.lam / ROOT, 9 / 5)


def _width(lam: float) -> np.float32:
    return np.float32(lam * 2.0**-31)


def _add_uniform(out: Tensor, x: Tensor, of: Names, width: Tensor) -> None:
    level = x.flatten(1)
    out.copy_((device_words(of, level.shape[1]).float() * width + level).view(out.shape))
