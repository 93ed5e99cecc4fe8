"""What many tests share: a fake engine with known probabilities, linear classifiers, and small real runs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell, and children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def answer():
    """Run a procedure's steps on draws from known class probabilities, without a network."""

    def run(steps, probabilities, rng):
        draw = next(steps)
        while True:
            counts = rng.multinomial(draw.draws, probabilities)[None, :].astype(np.int64)
            try:
                draw = steps.send(counts)
            except StopIteration as end:
                return end.value

    return run
