"""The queue of studies: interrupted it goes on, finished studies are skipped, and a failure is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_run

ROOT = Path(__file__).parents[2]
DATA = ["--data", "data.npz", "--inputs", "6", "--skip", "1"]
FIRST = {
    "name": "first",
    "hours": 0.1,
    "words": ["all_inputs.py", "--model", "lines:a", *DATA, "--radius", "0.1", "--out", "{out}"],
}
SECOND = {
    "name": "second",
    "hours": 0.2,
    "words": ["sampling_run.py", "--models", "lines:b", *DATA, "--radii", "0.1", "--probe", "200", "--out", "{out}"],
}


@pytest.fixture
def queue(tmp_path):
    """Starts the queue in a folder of its own."""
    small_run.write_data(tmp_path / "data.npz", 6)
    places = os.pathsep.join([str(ROOT), str(ROOT / "tests")])

    def start(*experiments):
        (tmp_path / "list.json").write_text(json.dumps(experiments))
        words = [sys.executable, str(ROOT / "studies" / "all.py"), "--experiments", "list.json", "--out", "out"]
        return subprocess.Popen(words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": places}, stdout=subprocess.PIPE,
                                text=True)  # fmt: skip

    return start


def test_an_interrupted_queue_goes_on_and_skips_what_is_finished(queue, tmp_path):
    first, second = tmp_path / "out" / "first", tmp_path / "out" / "second"
    begun = queue(SECOND, FIRST)
    waited(lambda: (first / "finished.json").exists() and (second / "log.txt").exists())
    begun.send_signal(signal.SIGINT)
    told, _ = begun.communicate(timeout=120)
    assert begun.returncode == 130 and "interrupted in second" in told
    assert told.index("[1/2] first") < told.index("[2/2] second")  # the cheapest first
    assert json.loads((second / "notes.json").read_text())["starts"] == 1 and not (second / "finished.json").exists()
    kept = (first / "finished.json").stat().st_mtime_ns

    again = queue(SECOND, FIRST)
    told, _ = again.communicate(timeout=240)
    assert again.returncode == 0 and "first" not in told
    assert (first / "finished.json").stat().st_mtime_ns == kept
    assert json.loads((second / "finished.json").read_text())["starts"] == 2
    schemes = json.loads((second / "result.json").read_text())
    assert [one["scheme"] for one in schemes] == ["spending", "staged"]
    assert all(one["SampleRF"] * one["draws"] == pytest.approx(6 * 100_100) for one in schemes)
    assert json.loads((first / "result.json").read_text())["inputs"] == 6


def test_a_study_that_fails_is_told_and_not_taken_for_finished(queue, tmp_path):
    ended = queue({**FIRST, "words": ["all_inputs.py", "--model", "nowhere", *DATA, "--out", "{out}"]})
    told, _ = ended.communicate(timeout=120)
    assert ended.returncode == 1 and "first failed with exit code 2" in told
    assert not (tmp_path / "out" / "first" / "finished.json").exists()


def waited(condition, seconds=200.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
