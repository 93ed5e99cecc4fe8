"""An hour of damaged files through readers and commands: no exception but ours, no hang, nothing left behind.

SMOOTHCERT_STUDY_SECONDS says for how long, SMOOTHCERT_STUDY_SEED which files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.study
def test_damaged_files_get_one_line_for_an_hour():
    seconds = os.environ.get("SMOOTHCERT_STUDY_SECONDS", "3600")
    seed = os.environ.get("SMOOTHCERT_STUDY_SEED", "0")
    program = Path(__file__).with_name("mutate.py")
    # Its own folder comes first by itself; OpenMP's threads would not survive a fork.
    found_in = os.pathsep.join([str(program.parent.parent), *sys.path])
    around = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": found_in}
    done = subprocess.run(
        [sys.executable, str(program), seconds, seed], env=around, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    print(found["seconds"], "s:", found["outcomes"])
    assert sum(found["outcomes"].values()) > float(seconds) / 4  # a reading takes less than that
    assert found["wrong"] == []


@pytest.mark.study
def test_sixty_thousand_damaged_files_get_one_line(tmp_path):
    """The readers alone, here and not in a process of their own: a hundred times as many in the same time."""
    import random
    import shutil
    import signal

    import mutations
    import specimens

    from smoothcert.errors import SmoothcertError

    specimens.make(tmp_path / "specimens")
    known, dice = specimens.known(tmp_path / "specimens"), random.Random(12)

    def too_long(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, too_long)
    for _ in range(60_000):
        specimen, seed = known[dice.choice(sorted(known))], dice.random()
        specimen.copied(tmp_path / "case")
        own, content = random.Random(seed), specimen.content
        stated = dice.random() < 0.8
        bad = mutations.restated(specimen.file, content, own) if stated else mutations.damaged(content, own)
        (tmp_path / "case" / specimen.file).write_bytes(bad)
        signal.alarm(6)
        try:
            specimen.read(tmp_path / "case")
        except SmoothcertError as error:
            assert "\n" not in str(error), (specimen.file, seed)
        finally:
            signal.alarm(0)
        shutil.rmtree(tmp_path / "case")
    signal.signal(signal.SIGALRM, before)
