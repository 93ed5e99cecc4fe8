"""A memory looked at again, region by region and pair by pair."""

from __future__ import annotations

import numpy as np

from smoothcert.memory._basis import slack
from smoothcert.memory._regions import Regions, Vector
from smoothcert.memory.rule import margin


def check(regions: Regions) -> list[str]:
    """What is wrong, a line each. None: balls of different labels are disjoint in real numbers, and all can be found.

    Whether another ball is near is asked of the index, which is only right where coordinates are: they are made again.
    """
    store = regions.store
    wrong = [f"region {number} must be no larger than what was certified" for number in store.oversized()]
    done = 0
    for balls in store.regions(0, regions.basis.width):
        vectors = store.vectors(range(done + 1, done + 1 + len(balls.radii)))
        z, stored = regions.basis.coordinates(vectors), np.hstack([balls.leading, balls.rest])
        allowed = 2 * slack(store.owner.dim) * np.linalg.norm(z, axis=1)
        astray = ~(np.linalg.norm(z - stored, axis=1) <= allowed)
        wrong += [f"coordinates of region {done + 1 + i} must be its centre's" for i in np.flatnonzero(astray)]
        for x, radius, label in zip(vectors, balls.radii.tolist(), balls.labels.tolist(), strict=True):
            done += 1
            wrong += _overlaps(regions, done, x, radius, label)
    return wrong


def _overlaps(regions: Regions, number: int, x: Vector, radius: float, label: int) -> list[str]:
    """Earlier regions of another label that a region is not proven to leave alone."""
    numbers, near = regions.near(x, radius, label)
    # Admission leaves a margin of e; half of it proves the pair disjoint in real numbers all the same.
    sure = near.distances * (1 - margin(len(x)) / 2) >= near.radii + radius
    return [
        f"regions {other} and {number} of labels {its_label} and {label} must not overlap"
        for other, its_label, apart in zip(numbers, near.labels.tolist(), sure.tolist(), strict=True)
        if other < number and its_label != label and not apart
    ]
