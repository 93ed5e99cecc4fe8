"""Inputs and members whose scores are known exactly, for tests of weights and forecasts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from smoothcert.data import Inputs
from smoothcert.ensembles.variance import MarginSample


@dataclass(frozen=True)
class Values:
    values: np.ndarray

    def take(self, positions):
        return self.values[positions]


def inputs_of(count, dim, labels, values=None):
    """Inputs [count, dim] with these labels; all a half unless values are given. Indices are not positions."""
    array = np.full((count, dim), 0.5) if values is None else np.asarray(values)
    return Inputs(
        "made", "test", 3 * np.arange(count) + 1, np.asarray(labels), (dim,), None, Values(array.astype("f4"))
    )


def linear_network(weight):
    """x → Wx as a torch network."""
    weight = torch.tensor(np.asarray(weight), dtype=torch.float32)
    network = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    network.weight.data = weight
    return network.eval()


@dataclass(frozen=True)
class Family:
    """Members alike, exactly as the variance model has them: margins = clean part + noise part, both normal.

    Clean parts have mean c and root R over members; noise parts have root M, and ζ of their covariance between members.
    """

    centre: np.ndarray  # [inputs, rivals]
    clean_root: np.ndarray  # [rivals, rivals]
    noise_root: np.ndarray  # [rivals, rivals]
    zeta: float

    def sample(self, members, draws, rng):
        """Margins of so many members of the family on so many noisy copies."""
        inputs, rivals = self.centre.shape
        clean = self.centre[:, None] + rng.standard_normal((inputs, members, rivals)) @ self.clean_root.T
        shared = rng.standard_normal((inputs, 1, draws, rivals))
        own = rng.standard_normal((inputs, members, draws, rivals))
        noise = (np.sqrt(self.zeta) * shared + np.sqrt(1 - self.zeta) * own) @ self.noise_root.T
        return MarginSample(clean, clean[:, :, None] + noise)

    def hits(self, members, draws, rng):
        """How often ensembles of so many members get the label, one ensemble an input: [inputs]."""
        return (self.sample(members, draws, rng).noisy.mean(axis=1) > 0).all(axis=2).sum(axis=1)
