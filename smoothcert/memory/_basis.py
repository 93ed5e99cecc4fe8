"""A few coordinates of an input that never lengthen a distance.

z(x) = (|x − m − QQᵀ(x − m)|, Qᵀ(x − m)), Q with orthonormal columns: the distance from a subspace, the place in it.
By Pythagoras and the triangle inequality |z(x) − z(y)| ≤ |x − y|, in l2 and so in l1. Rounding adds to that at most
slack(dim)·(|z(x)| + |z(y)|): every coordinate is a sum of dim products, and |z(x)| = |x − m|.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from smoothcert.memory.rule import Floats

DIRECTIONS = 16
SAMPLE = 2**22  # numbers: the sample that principal directions are taken from holds no more, beyond its least size
LEAST, MOST = 64, 1024  # inputs in such a sample


def slack(dim: int) -> float:
    """Far above what 17 sums of dim rounded products, and Q's own rounding, can err by."""
    return 64 * (dim + 64) * 2.0**-53


def sample_size(dim: int) -> int:
    """How many inputs principal directions are taken from."""
    return max(LEAST, min(MOST, SAMPLE // dim))


@dataclass(frozen=True, eq=False)
class Basis:
    """A centre and orthonormal directions."""

    mean: Floats  # [dim]
    directions: Floats  # [dim, up to DIRECTIONS]

    @property
    def width(self) -> int:
        """Coordinates of an input."""
        return int(self.directions.shape[1]) + 1

    def coordinates(self, x: np.ndarray[Any, Any]) -> Floats:
        """Inputs [n, dim] → coordinates [n, width]."""
        centred = x.astype(np.float64) - self.mean
        place = centred @ self.directions
        centred -= place @ self.directions.T
        return np.column_stack([np.sqrt(np.einsum("ij,ij->i", centred, centred)), place])


def random(dim: int) -> Basis:
    """Directions at random, always the same: for a memory that knows no inputs yet."""
    raw = np.random.default_rng(0).standard_normal((dim, min(DIRECTIONS, dim)))
    return Basis(np.zeros(dim), _orthonormal(raw))


def principal(sample: np.ndarray[Any, Any]) -> Basis:
    """The directions in which a sample [n, dim] of inputs differs most, the first of them first."""
    mean = sample.mean(axis=0, dtype=np.float64)
    centred = sample.astype(np.float64) - mean
    _, weights = np.linalg.eigh(centred @ centred.T)
    return Basis(mean, _orthonormal(centred.T @ weights[:, ::-1][:, : min(DIRECTIONS, len(mean))]))


def _orthonormal(columns: Floats) -> Floats:
    """Columns that span the same space; also where some were dependent."""
    found: Floats = np.linalg.qr(columns)[0]
    return found
