"""Exact range search: which stored balls can touch a ball, told from a few coordinates of their centres.

**Coordinates that never lengthen a distance.** z(x) = (|x − m − QQᵀ(x − m)|, Qᵀ(x − m)), Q with orthonormal columns:
the distance from a subspace, the place in it. By Pythagoras and the triangle inequality |z(x) − z(y)| ≤ |x − y|, in l2
and so in l1. Rounding adds to that at most slack(dim)·(|z(x)| + |z(y)|): every coordinate is a sum of dim products, and
|z(x)| = |x − m|. So who is far in coordinates is far; the few who are not are decided elsewhere, from the inputs
themselves. A tree over the leading coordinates leaves a handful, the other coordinates most often none.

A tree answers "which centres are within T"; radii differ, and one large ball must not make every search wide. So each
centre gets one more coordinate, √(T² − S²), T the largest radius in its tree: from height 0, a ball of radius T reaches
a centre exactly where a ball of radius S reaches it in the plane, and a ball of radius r + T at least where r + S does.

Balls come one at a time. They wait in a short tail, which is scanned; a full tail becomes a tree, and a tree is merged
with the one before it while that is not GROWTH times as large (Bentley and Saxe, J. Algorithms 1980). So there are few
trees, log n to that base, and a ball is built into one at most log n to the base 1 + 1/GROWTH times in its life.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from smoothcert.contracts import Floats, Integers

DIRECTIONS = 16
SAMPLE = 2**22  # numbers: the sample that principal directions are taken from holds no more, beyond its least size
LEAST, MOST = 64, 1024  # inputs in such a sample
LEADING = 8  # coordinates that trees are built on: more cost more than they rule out
LEAF = 32  # centres in a leaf of a tree
TAIL = 512  # balls that are scanned
GROWTH = 8
ROUNDING = 1 + 2.0**-40  # far above the rounding of a tree's distances


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


class Balls(NamedTuple):
    """Consecutive balls of a memory, their centres in coordinates."""

    leading: Floats  # [n, LEADING], or as many as there are
    rest: Floats  # [n, width − LEADING]
    radii: Floats  # [n]
    labels: Integers  # [n]

    @staticmethod
    def of(centres: Floats, radii: Floats, labels: Integers) -> Balls:
        """Centres [n, width]."""
        return Balls(centres[:, :LEADING], centres[:, LEADING:], radii, labels)

    def rows(self, which: Integers | slice) -> Balls:
        return Balls(self.leading[which], self.rest[which], self.radii[which], self.labels[which])

    def distances(self, z: Floats) -> Floats:
        """From a point in coordinates [width]."""
        leading, rest = self.leading - z[:LEADING], self.rest - z[LEADING:]
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", leading, leading) + np.einsum("ij,ij->i", rest, rest)))

    def size(self) -> float:
        """The largest length of a centre."""
        return float(self.distances(np.zeros(self.leading.shape[1] + self.rest.shape[1])).max(initial=0.0))


class Candidates(NamedTuple):
    """What a search cannot rule out, by position."""

    positions: Integers  # [n], ascending
    radii: Floats  # [n]
    labels: Integers  # [n]


class Ask(NamedTuple):
    """Balls that may contain z are wanted, and, of labels other than this one, those within `reach` of it."""

    z: Floats  # [width]
    reach: float
    label: int


@dataclass(frozen=True, eq=False)
class _Block:
    """Balls under one tree, whose data are their leading coordinates and the height."""

    first: int  # position of the first ball
    balls: Balls
    tree: Any  # scipy.spatial.cKDTree over [n, LEADING + 1]
    most: float  # the largest radius
    size: float  # the largest length of a centre

    @staticmethod
    def build(first: int, parts: list[Balls], size: float) -> _Block:
        from scipy.spatial import cKDTree

        radii = np.concatenate([part.radii for part in parts])
        most = float(radii.max())
        lifted = np.empty((len(radii), parts[0].leading.shape[1] + 1))
        leading = np.concatenate([part.leading for part in parts], out=lifted[:, :-1])
        lifted[:, -1] = np.sqrt((most - radii) * (most + radii))
        rest, labels = np.concatenate([part.rest for part in parts]), np.concatenate([part.labels for part in parts])
        return _Block(first, Balls(leading, rest, radii, labels), cKDTree(lifted, leafsize=LEAF), most, size)

    def __len__(self) -> int:
        return len(self.balls.radii)

    def near(self, ask: Ask, allowance: float) -> Candidates:
        hits = self.tree.query_ball_point([*ask.z[:LEADING], 0.0], (ask.reach + allowance + self.most) * ROUNDING)
        which = np.array(sorted(hits), dtype=np.int64)
        return _touching(self.balls.rows(which), which + self.first, ask, allowance)


class Index:
    """All balls of a memory, numbered from 0; `slack` is that of their coordinates."""

    def __init__(self, width: int, slack: float) -> None:
        self._slack = slack
        self._blocks: list[_Block] = []
        self._tail = Balls.of(np.empty((TAIL, width)), np.empty(TAIL), np.empty(TAIL, dtype=np.int64))
        self._waiting = 0  # balls in the tail

    def __len__(self) -> int:
        return self._treed + self._waiting

    @property
    def _treed(self) -> int:
        return sum(map(len, self._blocks))

    def add(self, *parts: Balls) -> None:
        """Append balls, any number at once."""
        if self._waiting + sum(len(part.radii) for part in parts) > TAIL:
            self._grow([self._scanned(), *parts])
            return
        for part in parts:
            until = self._waiting + len(part.radii)
            for kept, new in zip(self._tail, part, strict=True):
                kept[self._waiting : until] = new
            self._waiting = until

    def near(self, ask: Ask) -> Candidates:
        """Every ball that is asked for; some more, none of which is far."""
        length = float(np.linalg.norm(ask.z))
        found = [block.near(ask, self._slack * (length + block.size)) for block in self._blocks]
        tail = self._scanned()
        positions = np.arange(self._treed, len(self), dtype=np.int64)
        found.append(_touching(tail, positions, ask, self._slack * (length + tail.size())))
        return Candidates(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def _scanned(self) -> Balls:
        return self._tail.rows(slice(self._waiting))

    def _grow(self, parts: list[Balls]) -> None:
        """Turn the tail and new balls into a tree, together with all trees before it that are not much larger."""
        count, size = sum(len(part.radii) for part in parts), max(part.size() for part in parts)
        while self._blocks and len(self._blocks[-1]) < GROWTH * count:
            last = self._blocks.pop()
            parts.insert(0, last.balls)
            count, size = count + len(last), max(size, last.size)
        self._blocks.append(_Block.build(self._treed, parts, size))
        self._waiting = 0


def _touching(balls: Balls, positions: Integers, ask: Ask, allowance: float) -> Candidates:
    """The balls that are not ruled out, each by its own radius and label."""
    gaps = balls.distances(ask.z) - balls.radii
    kept = gaps <= np.where(balls.labels == ask.label, 0.0, ask.reach) + allowance
    return Candidates(positions[kept], balls.radii[kept], balls.labels[kept])
