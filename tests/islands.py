"""Small islands of class 1 in a sea of class 0, in the plane: importable as `islands:score` by commands.

On an island a small noise level sees class 1; from the sea a large one hardly sees the islands, and its ball covers
them. So certificates at levels of their own contradict each other, and a memory has something to settle.
"""

from __future__ import annotations

import numpy as np
import torch

APART, RADIUS = 0.25, 0.05
LEVELS = ("--sigma", "0.02", "--sigma-per-input", "--sigma-search", "votes", "--draws", "40", "--evaluations", "400",
          "--sigma-bounds", "0.01,0.2")  # fmt: skip


def score(x: torch.Tensor) -> torch.Tensor:
    away = (x % APART - APART / 2).norm(dim=1)
    return torch.stack([torch.full_like(away, RADIUS), 2 * RADIUS - away], dim=1)


def write_data(path, number=40, seed=0):
    """Every fourth input on an island, the others anywhere."""
    rng = np.random.default_rng(seed)
    x = rng.random((number, 2), dtype=np.float32)
    x[::4] = APART / 2 + APART * rng.integers(0, 4, (len(x[::4]), 2)) + rng.uniform(-0.01, 0.01, (len(x[::4]), 2))
    np.savez(path, x=x, y=score(torch.from_numpy(x)).argmax(1).numpy())
    return path
