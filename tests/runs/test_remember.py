"""A run with a memory: every certificate is settled once, in order, and nothing is lost or done twice by a stop."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import sqlite3
import time

import memory_run
import numpy as np
import pytest
from memory_run import make, regions, rows
from victims import context

from smoothcert.classifiers import load
from smoothcert.contracts import ABSTAIN
from smoothcert.data import load as load_data
from smoothcert.errors import OptionError, RunError
from smoothcert.memory import Memory
from smoothcert.progress import Watcher
from smoothcert.runs.remember import ORDERS, Remember, ordered
from smoothcert.runs.run import Row
from smoothcert.runs.store import RunStore, read
from smoothcert.runs.verify import verify


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return memory_run.write_data(tmp_path_factory.mktemp("islands") / "data.npz")


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """The run and the memory that nothing has disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    make(folder / "run", data, folder / "m")
    return folder


def test_every_certificate_is_settled_in_order(whole, data):
    record, inputs = read(whole / "run"), load_data(str(data))
    kinds = {row.settled.conflict for row in record.rows}
    assert len(record.rows) == 40 and kinds == {None, "switched", "shrunk"}
    assert record.memory.order == "index" and record.memory.regions is None
    with Memory.create(whole / "again", "abc", "l2", (2,)) as memory:
        for position, row in enumerate(record.rows):
            found = memory.admit(inputs.tensor(position), row.settled.predicted, row.settled.radius)
            assert (found.label, found.radius) == (row.predicted, row.radius)
            assert found[2:] == row.settled[2:]
    with Memory.open(whole / "m", frozen=True) as memory:
        assert memory.check() == []
        for position, row in enumerate(record.rows):
            found = memory.query(inputs.tensor(position))
            assert row.radius == 0 or (found.label == row.predicted and found.radius >= row.radius)


def test_without_the_memory_the_same_draws_contradict_each_other(whole, data):
    """Some input lies in the ball of another with another label, as smoothing alone left them; none with the memory."""
    record, x = read(whole / "run"), load_data(str(data)).tensors().numpy().astype(np.float64)
    away = np.linalg.norm(x[:, None] - x[None], axis=2)

    def contradictions(found):
        labels, radii = np.array([row.predicted for row in found]), np.array([row.radius for row in found])
        differ = (
            (labels[:, None] != labels) & (radii[:, None] > 0) & (radii > 0)
        )  # who has no radius was promised nothing
        return int((differ & (away < radii[:, None])).sum())

    assert contradictions([row.smoothed for row in record.rows]) > 3
    assert contradictions(record.rows) == 0


def test_a_run_made_without_a_memory_can_be_given_to_one(tmp_path, data, whole):
    make(tmp_path / "run", data, None)
    assert all(row.settled is None for row in read(tmp_path / "run").rows)
    draws = []
    make(tmp_path / "run", data, tmp_path / "m", watcher=Watcher(rows=draws.append))
    assert draws == [] and rows(tmp_path / "run") == rows(whole / "run")
    assert regions(tmp_path / "m") == regions(whole / "m")


class StopError(Exception):
    """Ends a run in the middle, as Ctrl-C does."""


@pytest.mark.parametrize("moment", ["before the memory", "between memory and run", "after the run"])
@pytest.mark.parametrize("order", ["index", "random"])
def test_stopped_at_any_offer_it_ends_the_same(tmp_path, data, monkeypatch, moment, order):
    make(tmp_path / "whole", data, tmp_path / "m", order)
    make(tmp_path / "parts", data, None)
    offers, left = {"before the memory": (Memory, "admit"), "after the run": (RunStore, "settle")}, [0]
    kind, name = offers.get(moment, (RunStore, "settle"))
    original = getattr(kind, name)

    def stopping(self, *arguments):
        left[0] -= 1
        if moment == "after the run":
            original(self, *arguments)
        if left[0] == 0:
            raise StopError
        return None if moment == "after the run" else original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(kind, name, stopping)
        for number in (1, 9, 3, 14):
            left[0] = number
            with pytest.raises(StopError):
                make(tmp_path / "parts", data, tmp_path / "n", order)
            settled = read(tmp_path / "parts").rows
            assert all(row.settled is not None for row in settled) or len(settled) == 40
    make(tmp_path / "parts", data, tmp_path / "n", order)
    assert regions(tmp_path / "n") == regions(tmp_path / "m")
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")
    assert verify(read(tmp_path / "parts"), load_data(str(data)), load("islands:score"), redraw=0).problems == []


@pytest.mark.parametrize("settled", [0, 1, 5])
@pytest.mark.parametrize("order", ["index", "reverse"])
def test_another_runs_regions_are_not_taken_for_those_of_a_stopped_offer(tmp_path, data, monkeypatch, settled, order):
    """The same question in two folders, one memory: every offer of the second run is a region of the first one's."""
    for name in ("m", "n"):
        make(tmp_path / f"first-{name}", data, tmp_path / name)
    make(tmp_path / "whole", data, tmp_path / "m", order)
    original, left = RunStore.settle, [settled]

    def stopping(self, row):
        if left[0] == 0:
            raise StopError
        left[0] -= 1
        original(self, row)

    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "settle", stopping)
        with pytest.raises(StopError):
            make(tmp_path / "parts", data, tmp_path / "n", order)
    make(tmp_path / "parts", data, tmp_path / "n", order)
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole") and regions(tmp_path / "n") == regions(tmp_path / "m")
    for name in ("first-n", "whole", "parts"):
        assert verify(read(tmp_path / name), load_data(str(data)), load("islands:score"), redraw=0).problems == []


def test_orders():
    made = [Row(index, 0, 1, radius) for index, radius in ((0, 0.5), (1, 0.0), (2, 0.7), (3, 0.5))]
    found = {order: [row.index for row in ordered(made[::-1], order, 7)] for order in ORDERS}
    assert found["index"] == [0, 1, 2, 3] and found["reverse"] == [3, 2, 1, 0] and found["radius"] == [2, 0, 3, 1]
    assert sorted(found["random"]) == [0, 1, 2, 3]
    assert len({tuple(row.index for row in ordered(made, "random", seed)) for seed in range(20)}) > 5
    with pytest.raises(OptionError, match="order of a memory pass must be one of index, radius, random, reverse"):
        Remember(None, "", "size")


def test_order_matters(tmp_path, data, whole):
    make(tmp_path / "run", data, tmp_path / "m", "reverse")
    assert [row.predicted for row in read(tmp_path / "run").rows] != [row.predicted for row in read(whole / "run").rows]


def test_a_run_belongs_to_one_memory_for_ever(tmp_path, data):
    make(tmp_path / "run", data, tmp_path / "m")
    before, kept = rows(tmp_path / "run"), regions(tmp_path / "m")
    with pytest.raises(RunError, match=r"is a run with memory .*m \(.*, order index\); got memory .*other"):
        make(tmp_path / "run", data, tmp_path / "other")
    with pytest.raises(RunError, match=r"order index\); got .*order reverse"):
        make(tmp_path / "run", data, tmp_path / "m", "reverse")
    with pytest.raises(RunError, match=r"is a run with a memory, .*m: give it as --memory"):
        make(tmp_path / "run", data, None)
    with pytest.raises(RunError, match=r"got .*frozen at \d+ regions"):
        make(tmp_path / "run", data, tmp_path / "m", None)
    assert rows(tmp_path / "run") == before and regions(tmp_path / "m") == kept
    (tmp_path / "m").rename(tmp_path / "moved")  # the same memory elsewhere
    make(tmp_path / "run", data, tmp_path / "moved")
    assert read(tmp_path / "run").memory.place == str(tmp_path / "moved")


def test_a_frozen_memory_answers_alone_and_without_draws(tmp_path, data, whole):
    kept, draws = regions(whole / "m"), []
    make(tmp_path / "run", data, whole / "m", None, Watcher(rows=draws.append))
    assert draws == [] and regions(whole / "m") == kept
    record, first = read(tmp_path / "run"), read(whole / "run")
    assert record.memory.regions == len(kept) and record.memory.order is None
    for now, then in zip(record.rows, first.rows, strict=True):
        assert now.draws == 0 and now.clean == then.clean and [a.purpose for a in now.answers] == ["clean"]
        assert now.settled.predicted == ABSTAIN and now.radius >= then.radius
        assert now.predicted == (then.predicted if then.radius > 0 else now.predicted)


def test_a_memory_that_changed_is_another_question_once_frozen(tmp_path, data, whole):
    inputs = load_data(str(data))
    make(tmp_path / "first", data, tmp_path / "m")
    make(tmp_path / "frozen", data, tmp_path / "m", None)
    with Memory.open(tmp_path / "m") as memory:
        assert memory.admit(inputs.tensor(0) + 30, 1, 0.5).stored
    with pytest.raises(RunError, match=r"frozen at (\d+) regions\); got .*frozen at (\d+) regions"):
        make(tmp_path / "frozen", data, tmp_path / "m", None)


def test_prediction_draws_only_outside_the_regions(tmp_path, data):
    draws, inputs = [], load_data(str(data))
    with Memory.create(tmp_path / "m", memory_run.recipe_for(data)[0].spec.model_digest, "l2", (2,)) as memory:
        for position in range(0, 40, 4):
            memory.admit(inputs.tensor(position), 1, 0.15)
    make(tmp_path / "run", data, tmp_path / "m", None, Watcher(rows=draws.append), predict=True)
    record = read(tmp_path / "run")
    inside = [row for row in record.rows if row.settled is not None]
    assert 12 < len(inside) < 36 and len(record.rows) == 40
    with Memory.open(tmp_path / "m", frozen=True) as memory:
        found = [memory.query(inputs.tensor(position)) for position in range(40)]
    for row, region in zip(record.rows, found, strict=True):
        assert (row.settled is None) == (region is None)
        if region is not None:
            assert (row.predicted, row.draws, row.settled.by) == (region.label, 0, region.number)
        else:
            assert row.draws == 200 and [a.purpose for a in row.answers] == ["predict", "clean"]
    assert sum(draws) == 201 * (40 - len(inside))


def test_a_row_without_draws_is_never_stored_without_its_answer(tmp_path, data, whole, monkeypatch):
    """Killed between the two tables it would be a false abstention: they are one transaction."""
    recipe, inputs = memory_run.recipe_for(data)
    with Memory.open(whole / "m", frozen=True) as memory, RunStore(tmp_path / "run", recipe) as store:
        remember = Remember(memory, "m", None, True)
        store.belong(remember.reference)
        store._waiting.append(dataclasses.replace(remember.answer(0, 1, inputs.tensor(0)), seconds=0.0))
        with monkeypatch.context() as patch:
            patch.setattr(RunStore, "_settle", lambda *_: (_ for _ in ()).throw(StopError))
            with pytest.raises(StopError):
                store.commit()
        store._waiting.clear()
    assert read(tmp_path / "run").rows == ()


def work(folder, data, file, begun, together=None):
    """The victim: settles until it is killed or done; the first offer waits for those of others."""
    import torch

    from smoothcert.runs import remember

    torch.set_num_threads(1)
    slow = remember.Memory.admit

    def admit(self, *offer):
        if together is not None and not begun.is_set():
            together.wait(60)
        begun.set()
        time.sleep(0.01)
        return slow(self, *offer)

    remember.Memory.admit = admit
    make(folder, data, file)


def test_two_runs_at_once_share_a_memory_and_both_replay(tmp_path, data):
    """Offers of both are interleaved; each answer says how many regions it was held against."""
    other = memory_run.write_data(tmp_path / "other.npz", 40, seed=3)
    for name, file in (("a", data), ("b", other)):
        make(tmp_path / name, file, None)
    recipe, inputs = memory_run.recipe_for(data)
    Memory.create(tmp_path / "m", recipe.spec.model_digest, "l2", inputs.shape).close()
    together, begun = context.Barrier(2), [context.Event(), context.Event()]
    both = [
        context.Process(target=work, args=(tmp_path / name, file, tmp_path / "m", event, together))
        for name, file, event in zip("ab", (data, other), begun, strict=True)
    ]
    for process in both:
        process.start()
    for process in both:
        process.join(120)
        assert process.exitcode == 0
    seen = [{row.settled.seen for row in read(tmp_path / name).rows} for name in "ab"]
    assert max(map(min, seen)) < min(map(max, seen)), "one run ended before the other began"
    for name, file in (("a", data), ("b", other)):
        found = verify(read(tmp_path / name), load_data(str(file)), load("islands:score"), redraw=0)
        assert found.problems == [] and found.settled == 40
    with Memory.open(tmp_path / "m", frozen=True) as memory:
        assert memory.check() == []


def test_kills_in_the_memory_pass_lose_nothing(tmp_path, data, whole):
    make(tmp_path / "run", data, None)
    chance, kept = random.Random(0), [0]
    for _ in range(6):
        begun = context.Event()
        victim = context.Process(target=work, args=(tmp_path / "run", data, tmp_path / "m", begun))
        victim.start()
        assert begun.wait(60)
        time.sleep(chance.uniform(0.0, 0.12))
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        with sqlite3.connect(tmp_path / "run" / "certificates.sqlite") as base:
            kept.append(base.execute("SELECT count(*) FROM settlements").fetchone()[0])
        assert kept[-1] >= kept[-2], "a settled row was lost"
    assert len(set(kept)) > 2
    make(tmp_path / "run", data, tmp_path / "m")
    assert regions(tmp_path / "m") == regions(whole / "m")
    assert rows(tmp_path / "run") == rows(whole / "run")
