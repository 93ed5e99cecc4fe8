"""The memory replayed by other code: it agrees with the rule everywhere, and names whatever was tampered with."""

from __future__ import annotations

import shutil
import sqlite3
from itertools import pairwise

import forging
import memory_run
import numpy as np
import pytest
from hypothesis import given, settings
from memory_run import make
from scan_memory import ScanMemory, streams

from smoothcert.classifiers import load
from smoothcert.errors import RunError
from smoothcert.memory import Memory
from smoothcert.runs.store import read
from smoothcert.runs.verify import verify
from smoothcert.runs.verify_memory import NearRegion, RuleAnswer, _agree, _distance, rules


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    data = memory_run.write_data(folder / "data.npz")
    make(folder / "run", data, folder / "m")
    make(folder / "frozen", data, folder / "m", None)
    make(folder / "predict", data, folder / "m", None, predict=True)
    return folder


@pytest.fixture
def copy(made, tmp_path):
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


def findings(folder, name="run"):
    _, inputs = memory_run.recipe_for(folder / "data.npz")
    return verify(read(folder / name), inputs, load("islands:score"), redraw=2, memory=str(folder / "m"))


def change(path, statement, *values, rows=1):
    with sqlite3.connect(path) as base:
        assert base.execute(statement, values).rowcount == rows
    if path.name == "certificates.sqlite":
        forging.rechain(path.parent)


def one(folder, conflict):
    """An input that was settled so."""
    return next(r for r in read(folder / "run").rows if r.settled.conflict == conflict and r.radius > 0)


@pytest.mark.parametrize(("name", "rows", "settled"), [("run", 40, 40), ("frozen", 0, 40), ("predict", None, None)])
def test_nothing_is_found_in_honest_runs(made, name, rows, settled):
    found = findings(made, name)
    assert found.problems == []
    if rows is not None:
        assert (found.rows, found.settled) == (rows, settled)
    else:
        assert found.rows + found.settled == 40 and found.settled > 5


@settings(max_examples=150, deadline=None)
@given(streams(most=10))
def test_the_rule_written_again_agrees_with_the_memorys(stream):
    norm, offers = stream
    memory = ScanMemory(len(offers[0].x), norm)
    for offer in offers:
        points = [np.asarray(x, dtype=np.float64) for x in memory.centres]
        away = [_distance(offer.x.astype(np.float64), x, norm) for x in points]
        near = [
            NearRegion(i, *ball)
            for i, ball in enumerate(zip(memory.labels, memory.radii, memory.radii, away, strict=True))
        ]
        found = memory.admit(*offer)
        said = RuleAnswer(found.label, found.radius, found.conflict)
        assert any(_agree(said, answer, offer.radius, near) for answer in rules(offer.label, offer.radius, near))


def test_a_raised_promise_is_named(copy):
    row = one(copy, "shrunk")
    change(
        copy / "run" / "certificates.sqlite", "UPDATE settlements SET radius = radius * 1.001 WHERE idx = ?", row.index
    )
    problems = findings(copy).problems
    assert problems[0].startswith(f"input {row.index}: the memory's rule gives {row.predicted}, ")
    assert any("no region holds the ball" in problem for problem in problems)
    assert all(problem.startswith(f"input {row.index}: ") for problem in problems)


def test_a_label_that_was_not_taken_is_named(copy):
    row = one(copy, "switched")
    said = row.settled.predicted
    change(copy / "run" / "certificates.sqlite", "UPDATE settlements SET predicted = ? WHERE idx = ?", said, row.index)
    problems = findings(copy).problems
    assert any(
        problem.startswith(f"input {row.index}: the memory's rule gives {row.predicted}, ") for problem in problems
    )
    assert any(f"input {row.index}: region {row.settled.by} of another label reaches into" in p for p in problems)


def test_a_conflict_that_was_hidden_is_named(copy):
    row = one(copy, "switched")
    change(copy / "run" / "certificates.sqlite", "UPDATE settlements SET conflict = NULL WHERE idx = ?", row.index)
    (problem,) = findings(copy).problems
    assert problem.startswith(f"input {row.index}: the memory's rule gives") and "switched; the row says" in problem


def test_a_memory_that_was_tampered_with_is_named(copy):
    row = next(r for r in read(copy / "run").rows if r.settled.stored)
    own = row.settled.seen + 1
    change(copy / "m", "UPDATE regions SET radius = radius * 0.9 WHERE id = ?", own)
    problems = findings(copy).problems
    assert any(problem.startswith(f"input {row.index}: no region holds the ball") for problem in problems)


def test_a_region_that_was_moved_is_named(copy):
    row, other = [r for r in read(copy / "run").rows if r.settled.stored][:2]
    centre = "(SELECT x FROM vectors WHERE id = ?)"
    change(copy / "m", f"UPDATE vectors SET x = {centre} WHERE id = ?", other.settled.seen + 1, row.settled.seen + 1)
    assert any(problem.startswith(f"input {row.index}: ") for problem in findings(copy).problems)


def test_a_later_region_that_breaks_a_promise_is_named(copy):
    """Put into the file behind the rule's back."""
    row = next(r for r in read(copy / "run").rows if r.settled.stored and r.radius > 0.01)
    with Memory.open(copy / "m") as memory:
        number = len(memory) + 1
    own = row.settled.seen + 1
    columns = "id, label, radius, certified, coordinates"
    change(copy / "m", f"INSERT INTO regions ({columns}) SELECT ?, 9, radius, certified, coordinates FROM regions "
           "WHERE id = ?", number, own)  # fmt: skip
    change(copy / "m", "INSERT INTO vectors SELECT ?, x FROM vectors WHERE id = ?", number, own)
    problems = findings(copy).problems
    assert f"input {row.index}: region {number} of another label reaches into its ball" in problems


def test_another_order_is_named(copy):
    rows = [row for row in read(copy / "run").rows if row.settled.stored]
    first, second = next((a, b) for a, b in pairwise(rows) if a.settled.seen < b.settled.seen)
    change(copy / "run" / "certificates.sqlite", "UPDATE settlements SET seen = 99 WHERE idx = ?", first.index)
    problems = findings(copy).problems
    assert any("the memory must be asked in the order index" in problem for problem in problems)
    assert any(problem.startswith(f"input {first.index}: ") for problem in problems) and second.index > first.index


def test_an_answer_without_draws_is_only_for_frozen_memories(copy):
    """Counts cannot be made to vanish from a run whose memory grew."""
    base = copy / "run" / "certificates.sqlite"
    change(base, "UPDATE certificates SET answers = '[]', draws = 0 WHERE idx = 3")
    assert any(problem.startswith("input 3: answers end where 50 guess draws") for problem in findings(copy).problems)
    change(copy / "frozen" / "certificates.sqlite", "UPDATE settlements SET seen = 2 WHERE idx = 5")
    assert any("input 5: it must be answered from" in problem for problem in findings(copy, "frozen").problems)


def test_draws_for_what_lies_in_a_region_are_named(copy):
    row = next(r for r in read(copy / "predict").rows if r.settled is not None)
    change(copy / "predict" / "certificates.sqlite", "DELETE FROM settlements WHERE idx = ?", row.index)
    problems = findings(copy, "predict").problems
    assert f"input {row.index}: it was drawn, though it lies in a region" in problems


def test_another_memory_and_none_are_refused(copy):
    _, inputs = memory_run.recipe_for(copy / "data.npz")
    model = load("islands:score")
    with pytest.raises(RunError, match=r"there is no such file .--memory says where it is now"):
        verify(read(copy / "run"), inputs, model, memory=str(copy / "gone"))
    with (
        Memory.create(copy / "other", "abc", "l2", (2,)),
        pytest.raises(RunError, match="must be the memory that answ"),
    ):
        verify(read(copy / "run"), inputs, model, memory=str(copy / "other"))
    (copy / "text").write_text("not a memory" * 500)
    with pytest.raises(RunError, match="text must be a whole memory of smoothcert; got: file is not a database"):
        verify(read(copy / "run"), inputs, model, memory=str(copy / "text"))
    make(copy / "plain", copy / "data.npz", None)
    with pytest.raises(RunError, match="must be a run with a memory if one is given"):
        verify(read(copy / "plain"), inputs, model, memory=str(copy / "m"))
    assert verify(read(copy / "plain"), inputs, model).problems == []
