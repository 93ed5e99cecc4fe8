"""Several processes make one memory at once, and one of them fails: whoever goes on has it, or is told the truth."""

from __future__ import annotations

import contextlib
import io
import os

import numpy as np
import pytest
import small_run
from victims import context

from smoothcert.errors import OptionError, OutputError, RunError
from smoothcert.memory import Memory, sqlite

ROUNDS, PROCESSES = 12, 4


def join(places, together, queue, number):
    """Make or find the memory of each round, all at the same moment, and admit a region to it."""
    for turn, path in enumerate(places):
        together.wait(60)
        try:
            made = Memory.make(path, "abc", "l2", (2,))
            with Memory.open(path) as memory:
                memory.admit(np.array([number, 0], dtype=np.float32), number, 0.25)
            queue.put((turn, "made" if made else "found"))
        except Exception as error:
            queue.put((turn, repr(error)))


def test_of_processes_that_make_one_memory_at_once_one_does_and_all_end_well(new):
    places = [new(f"m{turn}") for turn in range(ROUNDS)]
    together, queue = context.Barrier(PROCESSES), context.Queue()
    processes = [context.Process(target=join, args=(places, together, queue, n)) for n in range(PROCESSES)]
    for process in processes:
        process.start()
    found = [queue.get(timeout=120) for _ in range(ROUNDS * PROCESSES)]
    for process in processes:
        process.join()
    for turn in range(ROUNDS):
        said = sorted(words for number, words in found if number == turn)
        assert said == [*["found"] * (PROCESSES - 1), "made"]
        with Memory.open(places[turn], frozen=True) as memory:
            assert len(memory) == PROCESSES and memory.check() == []


def certify(data, out, memory, together, queue):
    """The command; the two wait for each other where they look for the memory."""
    from smoothcert.cli.main import run
    from smoothcert.runs.remember import MemoryUse

    opened = MemoryUse.opened
    MemoryUse.opened = lambda *asked: (together.wait(60), opened(*asked))[1]
    words = ["--data", str(data), "--sigma", "0.25", "--n", "100", "--n0", "20", "--out", str(out)]
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = run(["certify", "linear:score", *words, "--memory", str(memory)])
    queue.put((code, said.getvalue()))


def test_two_commands_that_begin_one_memory_at_once_both_end_well(tmp_path):
    files = [small_run.write_data(tmp_path / f"{seed}.npz", 30, seed) for seed in (0, 1)]
    for turn in range(2):
        together, queue, memory = context.Barrier(2), context.Queue(), tmp_path / f"m{turn}"
        both = [
            context.Process(target=certify, args=(file, tmp_path / f"{turn}{file.stem}", memory, together, queue))
            for file in files
        ]
        for process in both:
            process.start()
        said = [queue.get(timeout=60) for _ in both]
        for process in both:
            process.join()
        assert [code for code, _ in said] == [0, 0], said
        assert sum("is a new memory" in words for _, words in said) == 1


def test_a_memory_that_another_process_has_open_is_not_discarded(place):
    Memory.make(place, "abc", "l2", (2,))
    release, opened = context.Event(), context.Event()
    other = context.Process(target=hold, args=(place, opened, release))
    other.start()
    assert opened.wait(60)
    Memory.discard(place)
    Memory.open(place).close()
    release.set()
    other.join()
    assert other.exitcode == 0
    Memory.discard(place)
    with Memory.open(place, frozen=True) as memory:  # it holds what the other one has admitted
        assert len(memory) == 1


def hold(path, opened, release):
    with Memory.open(path) as memory:
        opened.set()
        release.wait(60)
        memory.admit(np.zeros(2, dtype=np.float32), 1, 0.5)


def test_an_empty_memory_that_nobody_has_open_is_discarded_without_a_trace(tmp_path):
    Memory.make(tmp_path / "m", "abc", "l2", (2,))
    Memory.discard(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
    Memory.discard(tmp_path / "m")  # nothing there: nothing to do
    assert list(tmp_path.iterdir()) == []


def test_a_memory_that_is_discarded_while_it_is_opened_is_not_used(tmp_path, monkeypatch):
    """The maker gives up after the opener has found the file, and before it has begun to read it."""
    Memory.make(tmp_path / "m", "abc", "l2", (2,))
    refuse = sqlite._refuse_others

    def late(path, connection):
        Memory.discard(tmp_path / "m")
        refuse(path, connection)

    monkeypatch.setattr(sqlite, "_refuse_others", late)
    with pytest.raises(RunError, match=r"m must stay where it is; it was removed by the process that made it"):
        Memory.open(tmp_path / "m")


def test_what_cannot_be_a_memory_is_refused_and_leaves_nothing(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OutputError, match="fifo must be a file for a memory; got something else"):
        Memory.make(tmp_path / "fifo", "abc", "l2", (2,))
    with pytest.raises(RunError, match="fifo must be a memory; there is no such file"):
        Memory.open(tmp_path / "fifo")
    with pytest.raises(OptionError, match="shape of a memory must hold at most 7812500 values; got 1000000000000"):
        Memory.create(tmp_path / "huge", "abc", "l2", (10**6, 10**6))
    assert [path.name for path in tmp_path.iterdir()] == ["fifo"]
