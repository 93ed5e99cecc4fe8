"""What many tests share: draws answered from known probabilities, and exports to ONNX that are traced once."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell, and children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def traced_once():
    """Networks of one architecture share their trace: the exporter would take most of the time of many tests."""
    import exports
    import torch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.onnx, "export", exports.export)
        yield


@pytest.fixture
def answer():
    """Run a procedure's steps on draws from known class probabilities, without a network."""
    from smoothcert.testing import answer

    return answer
