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
