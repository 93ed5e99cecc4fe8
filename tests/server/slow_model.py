"""Classifiers with moods, for tests of the service: importable as `slow_model:…`."""

from __future__ import annotations

import threading
import time

import torch
from linear import score

GATE = threading.Event()
GATE.set()


def gated(x: torch.Tensor) -> torch.Tensor:
    """The linear classifier, while the gate is open."""
    GATE.wait(20)
    return score(x)


def slow(x: torch.Tensor) -> torch.Tensor:
    """Some ten batches a second."""
    time.sleep(0.1)
    return score(x)


def touchy(x: torch.Tensor) -> torch.Tensor:
    """No numbers for inputs near (1, 1, 1, 1)."""
    scores = score(x)
    return torch.where((x.mean(1, keepdim=True) > 0.9), torch.nan, scores)
