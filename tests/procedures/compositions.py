"""Compositions without networks: procedures are answered from given or known counts."""

from __future__ import annotations

import numpy as np
from scipy.signal import convolve2d
from scipy.special import ndtri

from smoothcert.classifiers.composed import Bundle
from smoothcert.contracts import Source
from smoothcert.decisions import BINS
from smoothcert.noise.gaussian import Gaussian
from smoothcert.testing import answer

SIGMA = 0.5
NOISE = Gaussian(SIGMA)
LAST = BINS - 1  # the bin of a copy that only θ = 1 selects


def source(*roles, sigmas=None):
    """A composition of networks that are never asked; a core has no noise."""
    levels = dict.fromkeys(roles, SIGMA) | {"core": None} | (sigmas or {})
    noises = tuple(None if levels[role] is None else Gaussian(levels[role]) for role in roles)
    return Source(Bundle(roles, tuple(object() for _ in roles), noises), NOISE)


def played(steps, answers):
    """Run steps on answers; the result and the draws that were asked. An answer may be a function of the draw."""
    asked = []

    def counted(draw):
        asked.append((draw.purpose, draw.draws))
        counts = np.asarray(answers(draw), dtype=np.int64)
        assert (counts.sum(axis=1) == draw.draws).all()
        return counts

    return answer(steps, counted), asked


def two_columns(classes, hits):
    """Votes of classes, and `hits` copies of them selected at every θ > 0, the others at θ = 1 only."""
    counts = np.zeros((2, BINS), dtype=np.int64)
    counts[0, : len(classes)] = classes
    counts[1, 0], counts[1, LAST] = hits, sum(classes) - hits
    return counts


def one_column(hits, draws):
    return two_columns([draws], hits)[1:]


def clean(label, classes=3):
    return np.eye(classes, dtype=np.int64)[None, label]


def joint(cells, draws):
    """The distribution [votes of class 0, selected copies] of so many draws, from P(class, selected) [2, 2]."""
    total = np.ones((1, 1))
    for _ in range(draws):
        total = convolve2d(total, cells)
    return total


def cells(p, q, mixing):
    """P of class 0 and selection as [[neither, selected], [class 0, both]]; mixing −1…1 from opposite to alike."""
    independent = np.outer([1 - p, p], [1 - q, q])
    both = min(p, q) if mixing > 0 else max(0.0, p + q - 1)
    extreme = np.array([[1 - p - q + both, q - both], [p - both, both]])
    return (1 - abs(mixing)) * independent + abs(mixing) * extreme


ENTROPY_SOURCE = source("certify", "core")
NETWORK_SOURCE = source("certify", "core", "select")


def truth(p, q, core):
    """The composition's label and radius where P(class 0) = p and P(selected) = q; None where it has no one answer."""
    winner = None if p == 0.5 else int(p < 0.5)
    if q == 0.5:
        return (winner if winner == core else None), 0.0
    if q < 0.5:
        return core, 0.0
    return winner, SIGMA * ndtri(min(q, max(p, 1 - p)))
