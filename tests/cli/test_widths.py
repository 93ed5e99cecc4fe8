"""What commands print fits the terminal: no line is wider, and no number is broken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import small_run

from smoothcert import progress
from smoothcert.cli.main import run

WIDTHS = (30, 50, 80)
NUMBER = re.compile(r"[−+]?\d[\d,]*\.?\d*")
COMMANDS = (
    "report a b",
    "report a b --transpose",
    "compare a b",
    "history .",
    "verify a --seed 0",
    "certificate a 0",
    "zoo",
    "data list",
    "plan --sigma 0.25 --radius 0.5",
    "ensemble forecast lines:a lines:b lines:c --data few.npz --sigma 0.25 --draws 20 --n 200 --sizes 1,3",
)
CERTIFY = "certify lines:{} --data few.npz --sigma 0.25 --n 200 --out {}"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("widths")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        small_run.write_data(folder / "few.npz")
        for name in "ab":
            assert run(CERTIFY.format(name, name).split()) == 0
        yield folder


def shown(command: str, width: int | None, monkeypatch, capsys) -> str:
    monkeypatch.delenv("COLUMNS", raising=False)
    if width is not None:
        monkeypatch.setenv("COLUMNS", str(width))
    capsys.readouterr()
    assert run(command.split()) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_is_wider_and_no_number_is_broken(place: Path, command: str, monkeypatch, capsys):
    whole = shown(command, 500, monkeypatch, capsys)
    figures = set(NUMBER.findall(re.sub(r"[0-9a-f]{32,}|\d+\.\d s\b", "", whole)))
    for width in WIDTHS:
        text = shown(command, width, monkeypatch, capsys)
        wide = [line for line in text.splitlines() if len(line.rstrip()) > width and len(line.split()) > 1]
        assert not wide, wide  # a single word, such as a hash or a path, stays whole
        missing = figures - set(NUMBER.findall(text))
        assert not missing, missing


def test_a_pipe_gets_the_width_it_always_had(place: Path, monkeypatch, capsys):
    text = shown("compare a b", None, monkeypatch, capsys)
    assert "figure" in text and 80 < max(map(len, text.splitlines())) <= 100
    assert max(map(len, shown("verify a", None, monkeypatch, capsys).splitlines())) > 80  # words are not broken


def test_the_summary_of_a_run_fits_too(place: Path, monkeypatch, capsys):
    text = shown(CERTIFY.format("c", "c"), 50, monkeypatch, capsys)
    assert max(map(len, text.splitlines())) <= 50
    assert "abstained %" in text and "time" in text


def test_what_programs_read_is_never_broken(place: Path, monkeypatch, capsys):
    for command in ("report a --json", "report a --tables md", "report a --tables latex", "history . --tables md"):
        assert shown(command, 30, monkeypatch, capsys) == shown(command, None, monkeypatch, capsys)


TOLD = " 25% 25/100 inputs, 1,200 draws/s"


@pytest.mark.parametrize(
    ("width", "title", "bar", "told"),
    [
        (120, "certify digits", 40, TOLD),
        (80, "certify digits", 22, TOLD),
        (65, "certify digits", 0, TOLD),
        (50, "certify digits", 0, " 25% 25/100 inputs"),
        (30, "certify digits", 0, " 25%"),
        (20, "certif", 0, " 25%"),
        (12, "", 0, " 25%"),
    ],
)
def test_progress_gives_up_its_bar_then_its_rate_and_keeps_percent_and_time(width, title, bar, told):
    assert progress.fitted(width, "certify digits", TOLD, "0:01:40") == (title, bar, f"{told} 0:01:40")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_terminal_shows_percent_and_time_left_in_one_line(monkeypatch, width):
    import io

    from rich.console import Console

    sink = io.StringIO()
    terminal = Console(file=sink, force_terminal=True, width=width, color_system=None)
    monkeypatch.setattr("rich.console.Console", lambda stderr: terminal)
    monkeypatch.setattr(progress, "SOON", 0.0)
    with progress.bar("certify digits", "draws") as update:
        update(2500, 10_000)
        terminal.print("seen")
    drawn = [line for line in re.split(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]+", sink.getvalue()) if "25%" in line]
    assert drawn and all(len(line) <= width and ("-:--" in line or "0:0" in line) for line in drawn)
    assert ("━" in drawn[-1]) == (width == 80)


def test_verify_gives_its_threads_to_the_classifier(place: Path, monkeypatch, capsys):
    from smoothcert.classifiers import ready
    from smoothcert.runs import certificate, verify

    seen = []

    def noted(*given, **named):
        seen.append(named["threads"])
        return ready(*given, **named)

    monkeypatch.setattr(verify, "ready", noted)
    monkeypatch.setattr(certificate, "ready", noted)
    assert run(["certificate", "a", "0", "--out", "one.json"]) == 0
    for words in (["a"], ["a", "--threads", "1"], ["one.json", "--threads", "2"]):
        assert run(["verify", *words]) == 0
    assert seen == [None, 1, 2]
    assert run(["verify", "a", "--threads", "0"]) == 2
