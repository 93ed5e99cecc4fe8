"""Progress in a log file: rate and time left count from where this process began."""

from __future__ import annotations

import time

from smoothcert import progress


def test_a_job_that_goes_on_counts_only_what_it_did_itself(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    update = progress._lines("training", "epochs")
    update(4.0, 8.0)  # half was done before
    now[0] = 100.0
    update(5.0, 8.0)
    assert capsys.readouterr().err == "training: 62% 5/8 epochs, 0.01 epochs/s, 300 s left\n"


def test_a_pause_is_forgotten(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    update = progress._lines("training", "epochs")
    for minute in range(5):
        now[0] = 60.0 * minute
        update(minute, 1000)
    for minute in range(20):
        now[0] = 1e6 + 60.0 * minute
        update(5 + minute, 1000)
    assert capsys.readouterr().err.splitlines()[-1].endswith(f", {60 * (1000 - 24)} s left")


def test_nothing_is_foretold_before_anything_is_done(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    update = progress._lines("training", "epochs")
    update(0.0, 8.0)
    now[0] = 100.0
    update(0.0, 8.0)
    assert capsys.readouterr().err == ""


def test_rate_and_time_left_are_told_and_words_of_the_job_come_first(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with progress.bar("verify a", "draws") as update:
        update(0, 30_000)
        now[0] = 100.0
        update(20_000, 30_000)
        now[0] = 200.0
        update(25_000, 30_000, "input 7")
    assert capsys.readouterr().err == (
        "verify a: 67% 20,000/30,000 draws, 200 draws/s, 50 s left\nverify a: 83% input 7, 40 s left\n"
    )


def test_a_terminal_gets_a_bar_that_is_gone_in_the_end(monkeypatch):
    import io

    from rich.console import Console

    sink = io.StringIO()
    terminal = Console(file=sink, force_terminal=True, width=100)
    monkeypatch.setattr("rich.console.Console", lambda stderr: terminal)
    monkeypatch.setattr(progress, "SOON", 0.0)
    with progress.bar("verify a", "draws") as update:
        update(2500, 10_000)
        terminal.print("seen")
    assert "verify a" in sink.getvalue() and "2,500/10,000 draws" in sink.getvalue() and "25%" in sink.getvalue()
    assert "\x1b[" in sink.getvalue()


def test_what_is_soon_over_shows_nothing(monkeypatch):
    import io

    from rich.console import Console

    sink, now = io.StringIO(), [0.0]
    terminal = Console(file=sink, force_terminal=True, width=100)
    monkeypatch.setattr("rich.console.Console", lambda stderr: terminal)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with progress.bar("verify a", "draws") as update:
        update(2500, 10_000)
        now[0] = 1.9
        update(2600, 10_000)
        assert sink.getvalue() == ""
        now[0] = 2.1
        update(2700, 10_000)
    assert "27%" in sink.getvalue()


def test_what_takes_long_and_shows_nothing_is_told(monkeypatch):
    said = []
    monkeypatch.setattr(progress, "SOON", 0.05)
    with progress.slowly("exporting", said.append):
        pass
    time.sleep(0.1)
    assert said == []
    with progress.slowly("exporting", said.append):
        time.sleep(0.2)
    assert said == ["exporting"]


def test_a_notebook_without_widgets_gets_a_line_now_and_then(monkeypatch, capsys):
    from rich.console import Console

    now = [0.0]
    page = Console(force_jupyter=True)
    monkeypatch.setattr("rich.console.Console", lambda stderr: page)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: None)
    with progress.bar("verify a", "draws") as update:
        update(0, 10_000)
        now[0] = 11.0
        update(2500, 10_000)
    assert capsys.readouterr().err == "verify a: 25% 2,500/10,000 draws, 227 draws/s, 33 s left\n"


def test_a_run_counts_the_copies_of_its_search_and_tells_what_it_does(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with progress.run_bar("certify a") as watcher:
        watcher.started(2, 0, 1000)  # 900 draws, and 100 copies to choose a level
        now[0] = 100.0
        watcher.choosing(200)
        watcher.rows(1300)
        watcher.finished(1000)
        now[0] = 200.0
        watcher.rows(100)
        now[0] = 300.0
        watcher.remembering(0, 50)
        now[0] = 400.0
        watcher.remembering(20, 50)
    assert capsys.readouterr().err == (
        "certify a: 10% 0/2 inputs, 2 draws/s, choosing noise levels, 900 s left\n"
        "certify a: 80% 1/2 inputs, 8 draws/s, 50 s left\n"
        "certify a: 40% memory: 20/50 inputs, 150 s left\n"
    )
