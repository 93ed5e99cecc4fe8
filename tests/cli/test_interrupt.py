"""Ctrl-C and SIGTERM: exit 130, no traceback, and the same command continues."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_run
from victims import context

from smoothcert.classifiers.undisturbed import interruptions_after
from smoothcert.cli.main import run
from smoothcert.errors import ModelError
from smoothcert.runs.store import read

TESTS = Path(__file__).parent.parent


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_resumable(tmp_path, stop):
    data = small_run.write_data(tmp_path / "x.npz", 5000)
    command = [
        sys.executable, "-m", "smoothcert.cli.main", "certify", "linear:score", "--data", str(data), "--sigma", "0.25",
        "--n", "2000", "--out", str(tmp_path / "run"),
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    database = tmp_path / "run" / "certificates.sqlite"
    for _ in range(600):
        time.sleep(0.1)
        if database.exists() and stored(database) > 3:
            break
    process.send_signal(stop)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors and "interrupted; finished work is kept" in errors
    kept = read(tmp_path / "run").rows
    assert 3 < len(kept) < 5000


def stored(database: Path) -> int:
    try:
        connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        return connection.execute("SELECT count(*) FROM certificates").fetchone()[0]
    except sqlite3.OperationalError:  # not yet created
        return 0


NETWORK = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
"""


def export(folder, begun, ended):
    """The victim: certifies a torch network, which is exported first, by torch's own exporter."""
    import torch

    from smoothcert.cli import main

    real = torch.onnx.export

    def watched(*arguments, **options):
        begun.set()
        real(*arguments, **options)
        ended.set()

    torch.onnx.export = watched
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    words = ["--data", "x.npz", "--sigma", "0.25", "--n", "1000000", "--out", "run"]
    sys.argv = ["smoothcert", "certify", "network:net", *words]
    main.main()


def interrupt_exports(folder, times, seed):
    """Signals at random moments of real exports; how many came before the export had ended."""
    small_run.write_data(folder / "x.npz", 50)
    (folder / "network.py").write_text(NETWORK)
    chance, hits = random.Random(seed), 0
    for _ in range(times):
        begun, ended = context.Event(), context.Event()
        victim = context.Process(target=export, args=(folder, begun, ended))
        victim.start()
        assert begun.wait(120)
        time.sleep(chance.uniform(0.0, 4.0))
        hits += not ended.is_set()
        os.kill(victim.pid, chance.choice([signal.SIGINT, signal.SIGTERM]))
        victim.join(120)
        said = (folder / "said").read_text()
        assert victim.exitcode == 130, said
        assert said.count("interrupted; finished work is kept") == 1 and "not exportable" not in said
        assert "Traceback" not in said, said
    return hits


def test_no_interruption_of_an_export_is_lost(tmp_path):
    assert interrupt_exports(tmp_path, 2, seed=0) > 0


@pytest.mark.study
@pytest.mark.parametrize("seed", range(1, 11))
def test_no_interruption_of_many_exports_is_lost(tmp_path, seed):
    assert interrupt_exports(tmp_path, 20, seed) > 5


def test_an_interruption_waits_for_the_end_and_is_then_neither_lost_nor_taken_for_an_error():
    """In a finaliser Python drops what is raised; in the exporter it may become any other error."""

    class Finalised:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    done = []
    with pytest.raises(KeyboardInterrupt), interruptions_after():
        Finalised()
        done.append("work goes on")
    assert done == ["work goes on"]
    with pytest.raises(KeyboardInterrupt), interruptions_after():
        signal.raise_signal(signal.SIGINT)
        raise ModelError("not exportable")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interruption_does_not_wait(monkeypatch):
    monkeypatch.setattr("smoothcert.classifiers.undisturbed.PATIENCE", 0.05)
    done = []
    with pytest.raises(KeyboardInterrupt), interruptions_after():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)  # of one keystroke
        done.append("work goes on")
        time.sleep(0.1)
        signal.raise_signal(signal.SIGINT)
        done.append("not reached")
    assert done == ["work goes on"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_that_raises_nothing_is_left_to_itself():
    came = []
    before = signal.signal(signal.SIGTERM, lambda *_: came.append(1))
    try:
        with interruptions_after():
            signal.raise_signal(signal.SIGTERM)
        assert came == [1]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("content", [b"", b"PK"])
def test_labels_that_end_too_early_are_bad_input_and_no_interruption(tmp_path, capsys, content):
    (tmp_path / "empty.npz").write_bytes(content)
    words = ["train", "--data", "digits", "--arch", "mlp8", "--epochs", "1", "--out", str(tmp_path / "net")]
    assert run([*words, "--labels", str(tmp_path / "empty.npz")]) == 2
    said = capsys.readouterr().err
    assert "empty.npz' must be a sound .npz file" in said and "interrupted" not in said
    assert not (tmp_path / "net").exists()


def test_a_file_that_ends_too_early_is_never_an_interruption(tmp_path, monkeypatch):
    """Whoever reads it should have said so; if nobody did, click would take it for the user's Ctrl-D."""

    def ends(*_, **__):
        raise EOFError("no data left in file")

    monkeypatch.setattr("smoothcert.training.loop.train", ends)
    with pytest.raises(EOFError, match="no data left"):
        run(["train", "--data", "digits", "--arch", "mlp8", "--epochs", "1", "--out", str(tmp_path / "net")])


def test_an_error_that_an_interruption_has_become_is_an_interruption(tmp_path, monkeypatch, capsys):
    words = ["report", str(tmp_path / "absent")]
    assert run(words) == 2 and "absent" in capsys.readouterr().err
    monkeypatch.setattr("smoothcert.cli.main._interrupted", [time.monotonic()])
    assert run(words) == 130 and capsys.readouterr().err == ""
