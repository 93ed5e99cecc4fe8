"""What a network learns in few epochs, judged by inputs that it never saw."""

from __future__ import annotations

import dataclasses
import runpy
from pathlib import Path

import numpy as np
import torch

from smoothcert import data

STUDY = Path(__file__).parents[2] / "studies" / "fast_network.py"


def test_a_trial_learns_at_its_precision_and_is_judged_by_inputs_kept_back(monkeypatch):
    monkeypatch.syspath_prepend(str(STUDY.parent))
    study = runpy.run_path(str(STUDY))
    trial = "digits_cnn4 objective=consistency copies=2 lr=0.05 batch=64 augment=none precision=bfloat16"
    settings = dataclasses.replace(study["parsed"](trial, 4), data="digits")
    assert (settings.objective, settings.objective_options) == ("consistency", {"copies": 2})
    every = data.load("digits", "train")
    places = np.arange(len(every))
    network, seconds = study["learned"](settings, every.chosen(places[places % 5 > 0]))
    assert seconds > 0
    assert {one.dtype for one in network.parameters()} == {torch.float32}
    draws, most, sure = study["shares"](network, every.chosen(places[places % 5 == 0]))
    assert 0.3 < draws < 1
    assert sure <= most
