"""What happens to a job while it works: it is copied, its place is taken, its database is locked, its disk is full."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import sys
import time

import pytest
import small_run
import torch
from test_store import without_seconds
from victims import context

from smoothcert.cli.main import run
from smoothcert.errors import OutputError, RunError
from smoothcert.progress import Watcher
from smoothcert.runs.store import read
from smoothcert.training import Settings, checkpoints
from smoothcert.training.loop import Watch, train

INPUTS, DRAWS, COPIES = 120, 4000, 3
SMALL = Settings(data="digits", arch="digits_cnn4", epochs=3, batch=64, schedule="one_cycle")


def certify(folder, data, begun):
    torch.set_num_threads(1)
    # Its pace does not depend on the machine: on a fast one it would be over too soon.
    small_run.make(folder, data, Watcher(finished=lambda _: begun.set(), rows=lambda _: time.sleep(0.001)), n=DRAWS)


@pytest.fixture
def living(tmp_path):
    """A run that a living process is at work on, and its data."""
    data, begun = small_run.write_data(tmp_path / "data.npz", INPUTS), context.Event()
    victim = context.Process(target=certify, args=(tmp_path / "run", data, begun))
    victim.start()
    assert begun.wait(60)
    yield tmp_path / "run", data, victim
    victim.kill()
    victim.join()


def test_copies_of_a_living_run_can_be_continued_and_it_has_one_writer(tmp_path, living):
    folder, data, victim = living
    for number in range(COPIES):
        time.sleep(0.2)
        shutil.copytree(folder, tmp_path / f"copy{number}")
    assert victim.is_alive() and len(read(folder).rows) < INPUTS, "the job ended before it was copied: make it longer"
    with pytest.raises(RunError, match="is being written by another process"):
        small_run.make(folder, data, n=DRAWS)
    victim.join()
    assert victim.exitcode == 0, "the other writer has disturbed it"
    whole = without_seconds(read(folder))
    assert len(whole) == INPUTS
    begun = [len(read(tmp_path / f"copy{number}").rows) for number in range(COPIES)]
    assert begun == sorted(begun) and 0 < begun[-1] < INPUTS
    for number in range(COPIES):
        small_run.make(tmp_path / f"copy{number}", data, n=DRAWS)
        assert without_seconds(read(tmp_path / f"copy{number}")) == whole


def test_a_database_that_another_program_locks_is_named_and_nothing_is_lost(tmp_path):
    data = small_run.write_data(tmp_path / "data.npz")
    small_run.make(tmp_path / "run", data)
    whole = without_seconds(read(tmp_path / "run"))
    with contextlib.closing(sqlite3.connect(tmp_path / "run" / "certificates.sqlite")) as base:
        base.execute("DELETE FROM certificates WHERE idx >= 6")
        base.commit()
        base.execute("BEGIN EXCLUSIVE")
        with pytest.raises(OutputError, match=r"run must be writable; got: database is locked \(rows already stored"):
            small_run.make(tmp_path / "run", data)
    assert without_seconds(read(tmp_path / "run")) == whole[:6]
    small_run.make(tmp_path / "run", data)
    assert without_seconds(read(tmp_path / "run")) == whole


def train_command(folder, begun):
    """`smoothcert train` as a process of its own, which tells when an epoch is done."""
    from smoothcert.cli import main
    from smoothcert.training import loop

    loop.checkpoints.save = _then(loop.checkpoints.save, begun)
    os.dup2(os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    words = ["--data", "digits", "--arch", "digits_cnn4", "--epochs", "3", "--batch", "64", "--schedule", "one_cycle"]
    sys.argv = ["smoothcert", "train", *words, "--threads", "1", "--out", str(folder / "net")]
    main.main()


def _then(save, begun):
    def saved(*arguments):
        save(*arguments)
        begun.set()

    return saved


def test_sigterm_ends_a_training_in_order_and_it_goes_on(tmp_path):
    begun = context.Event()
    victim = context.Process(target=train_command, args=(tmp_path, begun))
    victim.start()
    assert begun.wait(120)
    os.kill(victim.pid, signal.SIGTERM)
    victim.join(60)
    said = (tmp_path / "said").read_text()
    assert victim.exitcode == 130 and "Traceback" not in said and "interrupted; finished work is kept" in said
    assert checkpoints.read_config(tmp_path / "net")["epoch"] in (1, 2)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for name in ("net", "whole"):
        train(SMALL, tmp_path / name)
    torch.set_num_threads(threads)
    assert weights(tmp_path / "net") == weights(tmp_path / "whole")


def weights(folder):
    return (folder / checkpoints.WEIGHTS).read_bytes()


def train_on_a_full_disk(folder, state):
    """No file may grow beyond what was there already: as good as a full disk, and it needs no rights."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (state // 2, state // 2))
    with pytest.raises(OutputError, match=r"state\.pt must be writable; got: File too large"):
        train(SMALL, folder)


def test_a_full_disk_keeps_the_last_epoch_of_a_training(tmp_path):
    class Stop(Watch):
        def finished(self, epoch, terms, found):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(SMALL, tmp_path / "net", Stop())
    before = {path.name: path.read_bytes() for path in (tmp_path / "net").iterdir() if path.is_file()}
    size = max(map(len, before.values()))
    full = context.Process(target=train_on_a_full_disk, args=(tmp_path / "net", size))
    full.start()
    full.join()
    assert full.exitcode == 0
    after = {path.name: path.read_bytes() for path in (tmp_path / "net").iterdir() if path.is_file()}
    assert after[checkpoints.STATE] == before[checkpoints.STATE] and after.keys() == before.keys()
    assert checkpoints.read_config(tmp_path / "net")["epoch"] == 1


MODEL = """
import linear

def score(x):
    return linear.score(x) * (1.0 if len(x) == 1 else {factor})
"""


def test_a_model_refused_at_its_first_draw_leaves_room_for_the_corrected_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    small_run.write_data(tmp_path / "x.npz")
    words = ["certify", "corrected:score", "--data", "x.npz", "--sigma", "0.25", "--n", "100", "--out", "run"]
    for factor, code in (("float('nan')", 2), ("1.0", 0)):
        (tmp_path / "corrected.py").write_text(MODEL.format(factor=factor))
        sys.modules.pop("corrected", None)
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        assert run([*words, "--memory", "m.sqlite"]) == code, capsys.readouterr().err
        assert (tmp_path / "run").exists() == (tmp_path / "m.sqlite").exists() == (code == 0)
    sys.modules.pop("corrected")
