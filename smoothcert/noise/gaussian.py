"""Gaussian noise and its l2 certificate (Cohen, Rosenfeld, Kolter, ICML 2019, Theorem 1).

ε ~ N(0, σ²I). If p_A ≥ p_top > p_next ≥ every other p_c, the smoothed classifier is constant in the open l2 ball of
radius σ/2·(Φ⁻¹(p_top) − Φ⁻¹(p_next)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smoothcert.contracts import Moments, Noise, Norm, Stream, StreamRows, Tensor, TorchGenerator
from smoothcert.noise import added, check_level
from smoothcert.philox import Names, names, tensor, unsigned, whole_blocks
from smoothcert.philox import words as device_words
from smoothcert.streams import words

TURN = 2 * math.pi * 2.0**-32


@dataclass(frozen=True)
class Gaussian(Noise):
    """Independent normal noise on every coordinate; sigma is on the scale of inputs in [0,1]."""

    sigma: float

    norm: ClassVar[Norm] = "l2"
    kind: ClassVar[str] = "Gaussian noise"

    def __post_init__(self) -> None:
        check_level(self.sigma, "sigma", "gaussian")

    def fill(self, out: Tensor, x: Tensor, stream: Stream, first: int) -> None:
        """Write x + σ·normal into out [rows, *x.shape]: float32 Box–Muller on 32-bit words, tail to 6.7 sd.

        In numpy and not in torch, whose threads, still spinning, would slow the network that comes next.
        """
        rows, dim = out.shape[0], x.numel()
        raw = words(stream, first, rows, dim)
        half = raw.shape[1] // 2
        length, angle = raw[:, :half].astype(np.float32), raw[:, half:].astype(np.float32)
        length *= np.float32(2.0**-32)
        length += np.float32(2.0**-33)  # half a step above zero, so that the logarithm is finite
        np.log(length, out=length)
        length *= _stretch(self.sigma)
        np.sqrt(length, out=length)
        angle *= np.float32(TURN)
        noisy = out.view(rows, dim).numpy()
        wide = noisy if dim == 2 * half else np.empty((rows, 2 * half), dtype=np.float32)
        np.multiply(np.cos(angle, out=wide[:, :half]), length, out=wide[:, :half])
        np.multiply(np.sin(angle, out=wide[:, half:]), length, out=wide[:, half:])
        np.add(wide[:, :dim], x.reshape(1, dim).numpy(), out=noisy)

    def fill_rows(self, out: Tensor, x: Tensor, rows: StreamRows) -> None:
        """The same from the same words, to a few units in the last place: logarithms and sines differ by device."""
        rows.run(_add_normal, out, x, names(rows), tensor(_stretch, (self.sigma,), x))

    def unit(self, shape: Sequence[int], generator: TorchGenerator) -> Tensor:
        """Normal numbers of torch's own, as in the field's trainings."""
        import torch

        return torch.randn(tuple(shape), generator=generator, device=generator.device)

    def radius(self, p_top: Tensor, p_next: Tensor, dim: int) -> Tensor:
        """σ/2·(Φ⁻¹(p_top) − Φ⁻¹(p_next)), whatever the dimension."""
        import torch

        radius: Tensor = self.sigma / 2 * (torch.special.ndtri(p_top) - torch.special.ndtri(p_next))
        return radius

    def p_needed(self, radius: float, dim: int) -> float:
        """Φ(r/σ), rounded up."""
        from scipy.special import ndtr

        return min(1.0, math.nextafter(float(ndtr(radius / self.sigma)) * (1 + 1e-15), math.inf))

    def moments(self, x: Tensor) -> Moments:
        return added(x, self.sigma, 3.0)


def _stretch(sigma: float) -> np.float32:
    return np.float32(-2 * sigma**2)


def _add_normal(out: Tensor, x: Tensor, of: Names, stretch: Tensor) -> None:
    import torch

    dim = x.flatten(1).shape[1]
    length, angle = unsigned(device_words(of, whole_blocks(dim))).float().chunk(2, dim=1)
    length = (torch.log(length * 2.0**-32 + 2.0**-33) * stretch).sqrt()
    angle = angle * TURN
    noise = torch.cat([angle.cos() * length, angle.sin() * length], dim=1).narrow(1, 0, dim)
    out.copy_((noise + x.flatten(1)).view(out.shape))
