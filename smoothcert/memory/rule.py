"""The admission rule: what a memory answers for a new ball, given the stored balls near it (METHODS, section 5).

A stored ball (centre, radius S, label) stands for the open ball of that radius, and the invariant is exact: balls of
different labels are disjoint, so that |x_i − x_j| ≥ S_i + S_j in real numbers, not only in computed ones. A point
belongs to a ball when its computed distance is below S(1 − e); the radius reported is at most S(1 − 2e).

Why one margin e is enough. Inputs are float32, distances are computed in float64 from differences, u = 2⁻⁵³. A
difference, its square or absolute value, the sum of dim terms in whatever order, and the root err together by less than
γ = (dim + 4)u relatively; no square under- or overflows, because the inputs are float32. With e = 4(dim + 8)u, which is
above γ by several u for the rounding of the comparisons themselves,

    found inside    d̂ < S(1 − e)              ⇒ d ≤ d̂(1 + γ) < S: a member is truly inside, so members share a label
    promised        d < S(1 − 2e)             ⇒ d̂ ≤ d(1 + γ) < S(1 − e): what was promised is found inside
    from a region   P = S(1 − 2e) − d̂(1 + e)  : a point within P of a member is within S(1 − 2e) of the region's centre
    room            S = d̂(1 − e) − S_j        ⇒ S + S_j ≤ d̂(1 − e) < d: the invariant holds exactly

A ball inside a stored one of its label adds nothing, so it is not stored: the promise is kept by the enclosing region.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from smoothcert.contracts import ABSTAIN, Floats, Integers
from smoothcert.errors import RunError

Conflict: TypeAlias = Literal["switched", "shrunk"]


class Near(NamedTuple):
    """Stored balls that may touch the new one: all that contain its centre, all of other labels that meet it."""

    distances: Floats  # [balls], computed in float64 differences
    radii: Floats  # [balls], as stored
    labels: Integers  # [balls]


class Home(NamedTuple):
    """The stored ball that a point lies deepest in."""

    position: int  # among the balls near the point
    label: int
    radius: float  # promised around the point


class Ruling(NamedTuple):
    """What the memory answers, and what it has to keep."""

    label: int
    radius: float  # promised: every later query closer than this gets the label
    conflict: Conflict | None  # with regions of another label: took their label, or made room for them
    by: int | None  # position of the ball that answered or was made room for
    keep: float  # radius of the ball to store; 0: nothing to store


def margin(dim: int) -> float:
    """The e of this page for inputs of so many coordinates."""
    return 4 * (dim + 8) * 2.0**-53


def settle(label: int, radius: float, near: Near, e: float) -> Ruling:
    """Answer for a ball that certification has found, so that no two answers ever contradict each other."""
    home = find_home(near, e)
    if home is not None and home.label != label:
        return Ruling(home.label, home.radius, None if label == ABSTAIN else "switched", home.position, 0.0)
    keep, neighbour = _room(label, radius, near, e)
    promised, whole = keep * (1 - 2 * e), radius * (1 - 2 * e)
    if home is None or home.radius < promised:
        return Ruling(label, promised, "shrunk" if promised < whole else None, neighbour, keep)
    if home.radius < whole:
        return Ruling(label, home.radius, "shrunk", neighbour, 0.0)
    return Ruling(label, home.radius, None, home.position, 0.0)


def find_home(near: Near, e: float) -> Home | None:
    """The ball whose promise around the point is largest, among those that contain the point; None if none does."""
    inside = np.flatnonzero(near.distances < near.radii * (1 - e))
    if len(inside) == 0:
        return None
    labels = np.unique(near.labels[inside])
    if len(labels) > 1:
        raise RunError(f"regions around one point must have one label; got {' and '.join(map(str, labels))}")
    left = near.radii[inside] * (1 - 2 * e) - near.distances[inside] * (1 + e)
    deepest = int(left.argmax())
    return Home(int(inside[deepest]), int(labels[0]), max(0.0, float(left[deepest])))


def _room(label: int, radius: float, near: Near, e: float) -> tuple[float, int | None]:
    """The radius that leaves every ball of another label alone, and the ball that limits it, if one does."""
    others = np.flatnonzero(near.labels != label)
    if len(others) == 0:
        return radius, None
    gaps = near.distances[others] * (1 - e) - near.radii[others]
    nearest = int(gaps.argmin())
    if gaps[nearest] >= radius:
        return radius, None
    return max(0.0, float(gaps[nearest])), int(others[nearest])
