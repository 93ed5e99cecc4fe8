"""Schemes that test radii known in advance: their boundaries, what they do at every p, and where inputs were decided.

The boundaries are made again from the run's spec and everything is computed from them exactly (`boundaries.profile`);
nothing is simulated. The stored votes are followed through them again, so what is shown is what the counts say. ASC and
ASA are the shares of all inputs certified and abstained on in a stage (Horváth et al., ICLR 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np

from smoothcert.boundaries import START, Boundaries, Hits, Profile, Verdict, leader_alpha, profile
from smoothcert.bounds import Floats
from smoothcert.contracts import ABSTAIN, Sampling, TestClass
from smoothcert.errors import SmoothcertError
from smoothcert.report.metrics import Share
from smoothcert.runs.run import Row, Run

MOMENTS = (100, 1_000, 10_000)  # draws after which a scheme without stages is looked at, and at its cap
REACH, POINTS = 12.0, 22  # of the grid of p on either side of p0, in logits
FAR = 36.0  # the logit that stands for p = 0 and p = 1


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
    test_class: str
    tests: tuple[RadiusTest, ...]
    identity: object  # equal for schemes that differ in their radii at most

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


class Decision(NamedTuple):
    """How the test of one radius ended, and at which look."""

    verdict: Verdict
    look: int


@dataclass(frozen=True)
class StageShares:
    """One stage by itself, or all draws up to a number of them; shares are of all inputs of the run."""

    name: str
    certified: Share
    given_up: Share  # in a last stage: everything not certified
    undecided: Share  # passed on to the next stage, or still open


@dataclass(frozen=True)
class StageOutcomes:
    """The test of one radius over the inputs of a run."""

    radius: float
    staged: bool
    untested: Share  # inputs on which a smaller radius had already failed
    stages: tuple[StageShares, ...]


@dataclass(frozen=True)
class ExpectedDraws:
    """Draws of the tests of a run, without those that chose the class."""

    expected: float
    used: int


def scheme(run: Run) -> Scheme | None:
    """The scheme of a run; None where it has no boundaries, or where its rows were made with others."""
    spec = run.spec
    if spec is None or spec.radii is None or run.kind != "certify" or spec.sampling is None:
        return None
    sampling, noise = cast(Any, spec.sampling), cast(Any, spec.noise)  # frozen dataclasses, so they have a hash
    found = _scheme(sampling, noise, spec.dim, spec.procedure.test_class)
    needs = {test.radius: test.p0 for test in found.tests} if found else {}
    agree = all(row.low is None or row.predicted < 0 or needs.get(row.radius) == row.low for row in run.rows)
    return found if agree else None


@lru_cache(maxsize=64)
def _scheme(sampling: Any, noise: Any, dim: int, test_class: TestClass) -> Scheme | None:
    leader = test_class == "leader"
    try:
        wanted = tuple(noise.p_needed(radius, dim) for radius in sampling.radii)
        levels = [leader_alpha(sampling, wanted, p0) if leader else sampling.alpha for p0 in wanted]
        tests = tuple(
            RadiusTest(radius, p0, level, sampling.boundaries(p0, level))
            for radius, p0, level in zip(sampling.radii, wanted, levels, strict=True)
        )
    except (SmoothcertError, AttributeError, ArithmeticError):
        return None  # a scheme without boundaries: the rest of the report stands
    identity = (replace(sampling, radii=(1.0,)), noise, dim, leader)
    return Scheme(name_of(sampling), sampling.alpha, sampling.beta, test_class, tests, identity)


def name_of(sampling: Sampling) -> str:
    """The name of a sampling's file, as recipes have it."""
    return type(sampling).__module__.rsplit(".", 1)[-1]


def tested(row: Row) -> list[tuple[int, ...]]:
    """The votes of the test's draws, look by look."""
    return [answer.counts[0] for answer in row.answers if answer.purpose == "test"]


def tested_class(test_class: str, row: Row) -> int | None:
    """The class under test; None: whichever leads."""
    if test_class == "labels":
        return row.label
    guess = next((answer.counts[0] for answer in row.answers if answer.purpose == "guess"), None)
    return None if guess is None else guess.index(max(guess))


def stage_outcomes(run: Run, scheme: Scheme) -> tuple[StageOutcomes, ...]:
    """One for each radius; none where votes are not kept, or other boundaries than these made the rows."""
    followed = [decisions(scheme, row) for row in run.rows]
    if not all(_agrees(scheme, row, found) for row, found in zip(run.rows, followed, strict=True)):
        return ()
    return tuple(
        _outcomes(scheme, i, [found[i] if i < len(found) else None for found in followed])
        for i in range(len(scheme.tests))
    )


def decisions(scheme: Scheme, row: Row) -> list[Decision]:
    """How each radius that was tested ended: all but the last of them certified."""
    label, answers = tested_class(scheme.test_class, row), tested(row)
    look, ended = -1, list[Decision]()
    votes = np.zeros(1, dtype=np.int64)
    for test in scheme.tests:
        verdict = test.table.verdict(look, _hits(votes, label)) if look >= 0 else Verdict.CONTINUE
        while verdict is Verdict.CONTINUE and look + 1 < min(len(test.table.size), len(answers)):
            look += 1
            counts = np.array(answers[look], dtype=np.int64)
            votes = counts if test.table.fresh or look == 0 else votes + counts
            verdict = test.table.verdict(look, _hits(votes, label))
        ended.append(Decision(verdict, look))
        if verdict is not Verdict.CERTIFY:
            break
        label = int(votes.argmax()) if label is None else label
    return ended


def _hits(votes: np.ndarray[tuple[int], np.dtype[np.int64]], label: int | None) -> int:
    return int(votes.max() if label is None else votes[label])


def _agrees(scheme: Scheme, row: Row, found: Sequence[Decision]) -> bool:
    proven = [test.radius for test, end in zip(scheme.tests, found, strict=False) if end.verdict is Verdict.CERTIFY]
    whole = found[-1].look == len(tested(row)) - 1 >= 0
    return whole and proven[-1:] == ([] if row.predicted == ABSTAIN else [row.radius])


def _outcomes(scheme: Scheme, number: int, ends: Sequence[Decision | None]) -> StageOutcomes:
    known, inputs = [end for end in ends if end is not None], len(ends)
    test, last = scheme.tests[number], len(scheme.tests[number].table.size) - 1

    def stage(name: str, look: int) -> StageShares:
        within = [end.verdict for end in known if (end.look == look if scheme.staged else end.look <= look)]
        certified, given_up = within.count(Verdict.CERTIFY), within.count(Verdict.GIVE_UP)
        arrived = sum(end.look >= look for end in known) if scheme.staged else len(known)
        undecided = arrived - certified - given_up
        if scheme.staged and look == last:
            given_up, undecided = given_up + undecided, 0
        return StageShares(name, Share(certified, inputs), Share(given_up, inputs), Share(undecided, inputs))

    stages = tuple(stage(name, look) for name, look in scheme.moments)
    return StageOutcomes(test.radius, scheme.staged, Share(inputs - len(known), inputs), stages)


def expected_draws(run: Run, scheme: Scheme) -> ExpectedDraws | None:
    """Expected and used draws; None where votes are not kept.

    The p of an input is estimated by its own votes, so the sum is an estimate; at a given p the expectation is exact.
    """
    seen = [estimate(tested(row), tested_class(scheme.test_class, row)) for row in run.rows]
    known = [item for item in seen if item is not None]
    if not known or len(known) < len(seen):
        return None
    total = float(np.exp(np.interp(logit(np.array([p for p, _ in known])), *curve(scheme))).sum())
    return ExpectedDraws(total, sum(draws for _, draws in known))


def estimate(looks: Sequence[tuple[int, ...]], label: int | None) -> tuple[float, int] | None:
    """The share of votes of the tested class (of the leader, if there was none), and of how many."""
    if not looks:
        return None
    votes = np.array(looks).sum(axis=0)
    return float(votes.max() if label is None else votes[label]) / float(votes.sum()), int(votes.sum())


@lru_cache(maxsize=64)
def curve(scheme: Scheme) -> tuple[Floats, Floats]:
    """The logarithm of the expected draws against the logit of p, on a grid that is dense around every p0.

    Between its points a monotone cubic (it makes no waves), as a line of many pieces.
    """
    from scipy.interpolate import PchipInterpolator

    grid = sorted({0.0, 1.0, *(p for test in scheme.tests for p in test.grid)})
    if len(scheme.tests) == 1:
        draws = [scheme.tests[0].profile(p).draws for p in grid]
    else:
        draws = [chain([test.table for test in scheme.tests], p) for p in grid]
    x = logit(np.array(grid))
    fine = np.unique(np.concatenate([np.linspace(a, b, 9) for a, b in pairwise(x)]))
    return fine, PchipInterpolator(x, np.log(draws))(fine)


def logit(p: Floats) -> Floats:
    """Log-odds, kept finite."""
    with np.errstate(divide="ignore"):
        odds: Floats = np.clip(np.log(p) - np.log1p(-p), -FAR, FAR)
    return odds


def chain(tables: Sequence[Boundaries], p: float) -> float:
    """Expected draws of tests that follow each other on one stream: each begins where the one before it certified."""
    states: list[Hits | None] = [START, *(None for _ in tables[1:])]
    total = 0.0
    for j, draws in enumerate(tables[0].draws.tolist()):
        alive = [0.0 if state is None else float(state.mass.sum()) for state in states]
        total += draws * sum(alive)
        certified: Hits | None = None
        for i, table in enumerate(tables):
            before = Hits(0, np.array([alive[i]])) if table.fresh else states[i]
            here = _joined(certified, before.after(draws, p) if before is not None and alive[i] > 0.0 else None)
            if here is None:
                states[i] = certified = None
                continue
            accept, floor = int(table.accept[j]), int(table.size[j] - table.reject[j])
            certified = here.within(accept, here.first + len(here.mass))
            states[i] = here.within(min(accept, floor + 1), accept)
    return total


def _joined(one: Hits | None, other: Hits | None) -> Hits | None:
    """The sum of two distributions of hits."""
    if one is None or other is None:
        return one or other
    first = min(one.first, other.first)
    mass = np.zeros(max(one.first + len(one.mass), other.first + len(other.mass)) - first)
    for part in (one, other):
        mass[part.first - first : part.first - first + len(part.mass)] += part.mass
    return Hits(first, mass)
