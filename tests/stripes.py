"""Bright or dark images, told apart by the mean of what a copy shows: members of ensembles under bands and blocks."""

from __future__ import annotations

import numpy as np
import torch

from smoothcert.noise import HIDDEN

SHAPE = (1, 6, 12)


def brightness(x: torch.Tensor, limit: float) -> torch.Tensor:
    shown = x.flatten(1) != HIDDEN
    mean = (x.flatten(1) * shown).sum(1) / shown.sum(1)
    return torch.stack([limit - mean, mean - limit], dim=1) * 8


def a(x: torch.Tensor) -> torch.Tensor:
    return brightness(x, 0.5)


def b(x: torch.Tensor) -> torch.Tensor:
    return brightness(x, 0.47)


def c(x: torch.Tensor) -> torch.Tensor:
    return 2 * brightness(x, 0.52)


def images(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Of 8 bits, each as bright as it happens to be, with pixels that differ; the label says whether it is bright."""
    random = np.random.default_rng(0)
    level = random.uniform(0.1, 0.9, number)
    x = random.normal(level[:, None, None, None], 0.5, (number, *SHAPE)).clip(0, 1)
    return np.rint(x * 255).astype(np.float32) / np.float32(255), (level > 0.5).astype(np.int64)
