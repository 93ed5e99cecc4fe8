"""Progress in a log file: the time left counts from where this process began."""

from __future__ import annotations

import time

from certus.cli import _progress


def test_a_job_that_goes_on_counts_only_what_it_did_itself(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    update = _progress._lines("training", "epochs")
    update(4.0, 8.0)  # half was done before
    now[0] = 100.0
    update(5.0, 8.0)
    assert capsys.readouterr().err == "training: 62% epochs, 300 s left\n"


def test_nothing_is_foretold_before_anything_is_done(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    update = _progress._lines("training", "epochs")
    update(0.0, 8.0)
    now[0] = 100.0
    update(0.0, 8.0)
    assert capsys.readouterr().err == ""
