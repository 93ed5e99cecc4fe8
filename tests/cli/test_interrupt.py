"""Ctrl-C and SIGTERM: exit 130, no traceback, and the same command continues."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_run

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
    assert "Traceback" not in errors and "interrupted; what was finished is kept" in errors
    kept = read(tmp_path / "run").rows
    assert 3 < len(kept) < 5000


def stored(database: Path) -> int:
    try:
        connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        return connection.execute("SELECT count(*) FROM certificates").fetchone()[0]
    except sqlite3.OperationalError:  # not yet created
        return 0
