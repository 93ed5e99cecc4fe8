"""The sampling of a run, built again from its recipe: its boundaries, what they do at every p, and where inputs ended.

Only schemes that certify radii known in advance have boundaries. Everything is computed from them exactly
(`boundaries.profile`); nothing is simulated.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from smoothcert.boundaries import Boundaries, Profile, leader_alpha, profile
from smoothcert.catalog import rebuild as build
from smoothcert.errors import SmoothcertError
from smoothcert.report.question import asked, part
from smoothcert.runs.run import Run

MOMENTS = (100, 1_000, 10_000)  # draws after which a scheme without stages is looked at, and at its cap
REACH, POINTS = 12.0, 22  # of the grid of p on either side of p0, in logits


@dataclass(frozen=True, eq=False)
class RadiusTest:
    """The test of one radius: is P(class) ≥ p0?"""

    radius: float
    p0: float
    level: float  # of the boundaries; below alpha when the leading class is followed
    table: Boundaries

    @cached_property
    def grid(self) -> tuple[float, ...]:
        """Values of p, ever denser towards p0, where a test takes its longest."""
        middle = np.log(self.p0) - np.log1p(-self.p0)
        width = 1.0 / np.sqrt(self.table.size[-1] * self.p0 * (1 - self.p0))
        steps = np.geomspace(min(width, REACH / 10) / 4, REACH, POINTS)
        return tuple((1 / (1 + np.exp(-(middle + np.concatenate([-steps[::-1], [0.0], steps]))))).tolist())

    @lru_cache(maxsize=4096)  # noqa: B019  (a report ends soon after its tests)
    def profile(self, p: float) -> Profile:
        return profile(self.table, p)

    @property
    def error(self) -> float:
        """P(certify) at p0, the worst p for which that is wrong."""
        return self.profile(self.p0).certified

    @property
    def lost(self) -> float:
        """P(give up) at p0, the worst p for which that is a loss."""
        return self.profile(self.p0).given_up


@dataclass(frozen=True, eq=False)
class Scheme:
    """How a run decided: one test for each radius, smallest first, on the same draws."""

    name: str
    alpha: float
    beta: float
    against: str
    tests: tuple[RadiusTest, ...]
    identity: str  # equal for schemes that differ in their radii at most

    @property
    def staged(self) -> bool:
        return self.tests[0].table.fresh

    @property
    def moments(self) -> list[tuple[str, int]]:
        """The looks to report: every stage, or the last look within 100, 1 000, 10 000 draws and the cap."""
        size = self.tests[0].table.size
        if self.staged:
            return [(f"stage {j + 1}: {draws:,} draws", j) for j, draws in enumerate(size.tolist())]
        ends = [*(draws for draws in MOMENTS if size[0] <= draws < size[-1]), int(size[-1])]
        return [(f"after {draws:,} draws", int(np.searchsorted(size, draws, side="right")) - 1) for draws in ends]


def scheme(record: Run) -> Scheme | None:
    """The scheme of a run; None where it has no boundaries, or where its rows were made with others."""
    question, settings = asked(record), part(record, "sampling")
    if question.radii is None or record.kind != "certify":
        return None
    key = json.dumps([dict(settings), dict(part(record, "noise")), question.against == "leader"], sort_keys=True)
    found = _scheme(key, question.against)
    # The dimension of an input is not in a recipe: a noise whose need depends on it shows here.
    needs = {test.radius: test.p0 for test in found.tests} if found else {}
    agree = all(row.low is None or row.predicted < 0 or needs.get(row.radius) == row.low for row in record.rows)
    return found if agree else None


@lru_cache(maxsize=64)
def _scheme(key: str, against: str) -> Scheme | None:
    settings, noise_settings, leader = json.loads(key)
    try:
        sampling, noise = build("sampling", settings), build("noise", noise_settings)
        wanted = tuple(noise.p_needed(radius, 0) for radius in sampling.radii)
        levels = [leader_alpha(sampling, wanted, p0) if leader else sampling.alpha for p0 in wanted]
        tests = tuple(
            RadiusTest(radius, p0, level, sampling.boundaries(p0, level))
            for radius, p0, level in zip(sampling.radii, wanted, levels, strict=True)
        )
    except (SmoothcertError, AttributeError, ArithmeticError):
        return None  # a scheme of another version, or one without boundaries: the rest of the report stands
    others = {name: value for name, value in settings.items() if name != "radii"}
    identity = json.dumps([others, noise_settings, leader], sort_keys=True)
    return Scheme(str(settings["name"]), sampling.alpha, sampling.beta, against, tests, identity)
