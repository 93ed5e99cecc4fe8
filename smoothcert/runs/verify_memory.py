"""What a memory answered, replayed from the evidence by other code than made it.

Nothing of `smoothcert.memory` is used but its address and the names of its tables. It is read as a plain database,
every region is held against every input (a product of matrices rules out, exactly rounded sums decide), and the rule is
written down again, without its margins: an answer may lie below the rule's by RELATIVE of the lengths it came from,
never above, and on the edge of a region either side is accepted. Each row is replayed against the regions that were
there when it was settled; its promise is then held against all that are there now.
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from smoothcert import foreign
from smoothcert.contracts import ABSTAIN, Norm, Tensor
from smoothcert.data import Inputs
from smoothcert.errors import RunError, reason
from smoothcert.memory.address import Address, is_url
from smoothcert.memory.sqlite import SCHEMA
from smoothcert.runs.remember import ordered
from smoothcert.runs.run import MemoryRef, Row, Run
from smoothcert.spec import Spec

RELATIVE = 1e-9  # far above the margins of the memory, far below what matters
CHUNK = 1024  # regions, and inputs, held at a time
Matrix = np.ndarray[Any, np.dtype[np.float64]]


class NearRegion(NamedTuple):
    """A region that an input's ball may touch."""

    number: int
    label: int
    radius: float
    certified: float
    distance: float


class RuleAnswer(NamedTuple):
    """What the rule says."""

    label: int
    radius: float
    conflict: str | None


def replay_memory(run: Run, memory: MemoryRef, inputs: Inputs, place: str | None, seed: int) -> list[str]:
    """Every row that the memory of a run answered or was asked about; what is not as it should be, a line each."""
    places = {index: position for position, index in enumerate(inputs.indices.tolist())}
    rows = [row for row in run.rows if row.index in places]
    problems = _out_of_order(rows, memory, seed)
    with _opened(place or memory.place, memory, run.asked) as base:
        for first in range(0, len(rows), CHUNK):
            some = rows[first : first + CHUNK]
            x = inputs.tensors(np.array([places[row.index] for row in some])).numpy().reshape(len(some), -1)
            for row, near in zip(some, _near(base, some, x.astype(np.float64), run.asked.norm), strict=True):
                problems += [f"input {row.index}: {problem}" for problem in _check(row, near, memory)]
    return problems


def replay_one(run: Run, memory: MemoryRef, x: Tensor, place: str) -> list[str]:
    """The only row of a run, of the input x, held against the memory that answered for it."""
    (row,), values = run.rows, x.numpy().reshape(1, -1).astype(np.float64)
    with _opened(place, memory, run.asked) as base:
        return _check(row, _near(base, [row], values, run.asked.norm)[0], memory)


def rules(label: int, radius: float, near: Sequence[NearRegion]) -> list[RuleAnswer]:
    """What the rule says; more than one answer where the input lies on the edge of a region."""
    sure = [ball for ball in near if ball.distance < ball.radius * (1 - RELATIVE)]
    edge = [ball for ball in near if ball not in sure and ball.distance < ball.radius * (1 + RELATIVE)]
    sides = [
        list[NearRegion](),
        *([ball for ball in edge if ball.label == one] for one in {ball.label for ball in edge}),
    ]
    return [rule(label, radius, near, [*sure, *more]) for more in sides]


def rule(label: int, radius: float, near: Sequence[NearRegion], homes: Sequence[NearRegion]) -> RuleAnswer:
    """METHODS, section 5, for an input that lies in these homes."""
    left = max((ball.radius - ball.distance for ball in homes), default=0.0)
    if homes and homes[0].label != label:
        return RuleAnswer(homes[0].label, max(0.0, left), None if label == ABSTAIN else "switched")
    room = min((ball.distance - ball.radius for ball in near if ball.label != label), default=math.inf)
    found = max(left, min(radius, room), 0.0)
    return RuleAnswer(label, found, "shrunk" if found < radius else None)


def _check(row: Row, near: Sequence[NearRegion], memory: MemoryRef) -> list[str]:
    """One row against the regions of its time, and its promise against those of now."""
    if row.settled is None:  # drawn, because the memory had no answer
        there = [ball for ball in near if ball.number <= (memory.regions or 0)]
        outside = any(answer.label == ABSTAIN for answer in rules(ABSTAIN, 0.0, there))
        return [] if outside else ["it was drawn, though it lies in a region"]
    settled = row.settled
    earlier = [ball for ball in near if ball.number <= settled.seen]
    said = RuleAnswer(row.predicted, row.radius, settled.conflict)
    answers = rules(settled.predicted, settled.radius, earlier)
    problems = []
    if not any(_agree(said, answer, settled.radius, earlier) for answer in answers):
        expected = ", ".join(map(str, answers[0]))
        problems.append(f"the memory's rule gives {expected}; the row says {', '.join(map(str, said))}")
    if memory.order is None and (row.draws, *settled) != (0, ABSTAIN, 0.0, None, settled.by, False, memory.regions):
        problems.append(f"it must be answered from {memory.regions} regions that no longer change, without a draw")
    held = [ball for ball in near if ball.number <= settled.seen + settled.stored and ball.label == row.predicted]
    if row.radius > 0 and not any(ball.distance + row.radius <= ball.radius for ball in held):
        problems.append(f"no region holds the ball of radius {row.radius!r} around it")
    if settled.stored and not any(_own(ball, row) for ball in near):
        problems.append(f"region {settled.seen + 1} must be its own")
    others = [b.number for b in near if b.label != row.predicted and b.distance < b.radius + row.radius]
    return problems + [f"region {number} of another label reaches into its ball" for number in others if row.radius > 0]


def _agree(said: RuleAnswer, rule: RuleAnswer, radius: float, near: Sequence[NearRegion]) -> bool:
    """Equal, but that the memory's margins make a radius smaller, and may call that shrunk."""
    slack = RELATIVE * max([radius, 1e-300, *(ball.radius + ball.distance for ball in near)])
    close = rule.radius - slack <= said.radius <= rule.radius
    within = {said.conflict, rule.conflict} == {None, "shrunk"} and abs(radius - rule.radius) <= slack
    return said.label == rule.label and close and (said.conflict == rule.conflict or within)


def _own(ball: NearRegion, row: Row) -> bool:
    settled = row.settled
    return (
        settled is not None
        and (ball.number, ball.label, ball.distance) == (settled.seen + 1, row.predicted, 0.0)
        and ball.certified == settled.radius
        and ball.radius <= settled.radius
    )


def _out_of_order(rows: Sequence[Row], memory: MemoryRef, seed: int) -> list[str]:
    """A later offer sees no fewer regions."""
    if memory.order is None:
        return []
    seen = [(row.index, row.settled.seen) for row in ordered(rows, memory.order, seed) if row.settled is not None]
    wrong = [later[0] for earlier, later in pairwise(seen) if later[1] < earlier[1]]
    return [f"input {index}: the memory must be asked in the order {memory.order}" for index in wrong]


class PlainDatabase(Protocol):
    """A connection that answers a statement, of SQLite or of PostgreSQL."""

    def execute(self, statement: str, /) -> Any: ...


@contextlib.contextmanager
def _opened(place: str, memory: MemoryRef, spec: Spec) -> Iterator[PlainDatabase]:
    """The memory's tables, to be read; refused if they are another's, another classifier's, or damaged."""
    with _file(Path(place)) if not is_url(place) else _database(Address.parse(place)) as (shown, base):
        identity, classifier, norm, shape = base.execute("SELECT * FROM memory").fetchone()
        if identity != memory.identity:
            raise RunError(f"{shown} must be the memory that answered, {memory.identity[:8]}; got another one")
        if (classifier, norm, json.loads(shape)) != (spec.model_digest, spec.norm, list(spec.shape)):
            raise RunError(f"{shown} must be a memory of the run's classifier, norm and shape; got another's")
        yield base


@contextlib.contextmanager
def _file(path: Path) -> Iterator[tuple[str, PlainDatabase]]:
    if not foreign.is_regular(path):
        raise RunError(f"memory of the run must be at {path}; there is no such file (--memory says where it is now)")
    try:
        with contextlib.closing(foreign.open_to_read(path)) as base:
            if other := foreign.other_tables(base, SCHEMA):
                raise ValueError(other)
            yield str(path), base
    except (sqlite3.DatabaseError, TypeError, ValueError) as error:
        raise RunError(f"{path} must be a whole memory of smoothcert; got: {error}") from error


@contextlib.contextmanager
def _database(at: Address) -> Iterator[tuple[str, PlainDatabase]]:
    with contextlib.closing(at.connect(read_only=True)) as base:
        import psycopg

        try:
            base.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield at.shown, base.cursor("regions")  # on the server: rows come as they are asked for
        except (psycopg.Error, TypeError, ValueError) as error:
            raise RunError(f"{at.shown} must be a whole memory of smoothcert; got: {reason(error)}") from error


def _regions(base: PlainDatabase) -> Iterator[tuple[list[tuple[int, int, float, float]], Matrix]]:
    """Number, label, radius and certified radius of all regions, some at a time, with their centres [n, dim]."""
    columns = "regions.id, label, radius, certified, x"
    cursor = base.execute(f"SELECT {columns} FROM regions JOIN vectors USING (id) ORDER BY id")
    while found := cursor.fetchmany(CHUNK):
        centres = np.stack([np.frombuffer(values[-1], dtype="<f4") for values in found])
        yield [values[:-1] for values in found], centres.astype(np.float64)


def _near(base: PlainDatabase, rows: Sequence[Row], x: Matrix, norm: Norm) -> list[list[NearRegion]]:
    """For each row, at x [rows, dim], every region that could touch what it was certified for or was promised."""
    reach = np.array([max(row.radius, row.smoothed.radius) for row in rows])
    own, found = np.einsum("ij,ij->i", x, x), [list[NearRegion]() for _ in rows]
    for balls, centres in _regions(base):
        theirs, radii = np.einsum("ij,ij->i", centres, centres), np.array([ball[2] for ball in balls])
        # l2 is below l1, so that it rules out for both; the slack is far above the rounding of these sums.
        squares, sums = own[:, None] + theirs, (reach[:, None] + radii) ** 2
        for i, j in np.argwhere(squares - 2 * (x @ centres.T) <= sums + RELATIVE * (squares + sums)).tolist():
            found[i].append(NearRegion(*balls[j], _distance(x[i], centres[j], norm)))
    return found


def _distance(x: Matrix, y: Matrix, norm: Norm) -> float:
    away = (x - y).tolist()
    return math.fsum(map(abs, away)) if norm == "l1" else math.sqrt(math.fsum(part * part for part in away))
