"""The command line as a whole: its story, its hints, and one line for every kind of nonsense."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from made_runs import log, stored

from smoothcert.cli.main import DEFECT, app, run
from smoothcert.foreign import harmless

NONSENSE = ["", "no/such", "empty", "binary", "folder", "object.json", "-1", "é\n"]


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that has no others below it."""
    inner = getattr(command, "commands", {})
    for name in inner:
        yield from leaves(inner[name], (*words, name))
    if not inner:
        yield words, command


COMMANDS = dict(leaves(typer.main.get_command(app)))
ASKING = [words for words, command in COMMANDS.items() if any(param.required for param in command.params)]


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a refused command says."""
    capsys.readouterr()
    assert run(words) == 2, words
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines() or [""]
    assert line.startswith("smoothcert: ") and captured.out == "", (words, captured)
    return line


def test_smoothcert_alone_tells_the_story_in_eight_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8 and max(map(len, lines)) <= 120
    told = [line.split()[1] for line in lines[1:7]]
    assert told == ["demo", "train", "certify", "verify", "report", "compare"]
    assert all((name,) in COMMANDS for name in told)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Usage: smoothcert")
    assert all(f"\n  {words[0]} " in out for words in COMMANDS)


def test_examples_in_help_are_whole_lines_with_options_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    examples = []
    for words in COMMANDS:
        assert run([*words, "--help"]) == 0
        told = capsys.readouterr().out
        examples += [line.split()[1:] for line in told.splitlines() if line.startswith("  smoothcert ")]
    assert len(examples) >= 30
    for example in examples:
        group = len(example) > 1 and tuple(example[:2]) in COMMANDS
        short = {"ensemble": ("ensemble", "make"), "serve": ("serve", "start")}
        words = tuple(example[:2]) if group else short.get(example[0], tuple(example[:1]))
        options = {option for param in COMMANDS[words].params for option in param.opts}
        assert {word for word in example if word.startswith("-")} <= options, example
        assert example.count("smoothcert") == 0, example


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["certfy"], "Did you mean 'certify'"),
        (["aces", "combin"], "Did you mean 'combine'? see smoothcert aces --help"),
        (["certify", "m", "--sgma", "1"], "smoothcert certify has no option --sgma; did you mean --sigma?"),
        (["report", "a", "--jsn"], "smoothcert report has no option --jsn; did you mean --json?"),
        (["report", "a", "--zzzz"], "smoothcert report has no option --zzzz; see smoothcert report --help"),
        (["--versoin"], "did you mean --version?"),
        (["compare", "a"], "Missing argument 'B'; see smoothcert compare --help"),
        (["data"], "Missing command; see smoothcert data --help"),
    ],
)
def test_hints(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in refused(words, capsys)


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_nonsense_is_one_line_and_leaves_nothing(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every required argument and option filled with the same nonsense, and none of them given at all."""
    monkeypatch.chdir(tmp_path)
    Path("empty").touch()
    Path("binary").write_bytes(bytes(range(256)))
    Path("folder").mkdir()
    Path("object.json").write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    needed = [param for param in COMMANDS[words].params if param.required]
    refused(list(words), capsys)
    refused([*words, "--no-such-option"], capsys)
    for value in NONSENSE:
        options = [f"{param.opts[0]}={value}" for param in needed if param.param_type_name == "option"]
        arguments = [value for param in needed if param.param_type_name == "argument"]
        refused([*words, *options, *(["--", *arguments] if arguments else [])], capsys)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("command", ["report", "compare", "history", "export", "certificate"])
def test_nonsense_in_options_of_a_good_run_is_one_line(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "run", [0.1, 0.3])
    good = {"report": ["run"], "compare": ["run", "run"], "history": ["."], "export": ["run", "--out", "x"]}
    words = [command, *good.get(command, ["run", "0"])]
    values = {"--names": "a,b,c", "--data": "no/such"}
    texts = [param for param in COMMANDS[(command,)].params if param.param_type_name == "option" and not param.is_flag]
    assert texts
    for param in texts:
        refused([*words, f"{param.opts[0]}={values.get(param.opts[0], '/no/such/place/é')}"], capsys)


def test_quiet_leaves_results_and_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = log(tmp_path / "a.tsv", [0.1, 0.3])
    words = ["export", str(path), "--to", "csv", "--out", str(tmp_path / "a.csv")]
    assert run(words) == 0 and "wrote" in capsys.readouterr().err
    for quiet in (["--quiet", *words], [*words, "--quiet"], [*words[:2], "-q", *words[2:]]):
        assert run(quiet) == 0
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == ("", "")
    assert run(["report", str(path), "--json", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("{")
    assert "got nothing there" in refused(["report", str(tmp_path / "no"), "-q"], capsys)
    assert run(words) == 0 and "wrote" in capsys.readouterr().err  # it does not last


def completed(*words: str) -> list[str]:
    """What a shell is told for a line that ends in the last of these words."""
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_SMOOTHCERT_COMPLETE": "complete_bash"}
    code = "from smoothcert.cli.main import main; main()"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **asked}, check=False
    )
    return answer.stdout.split()


def test_shells_complete_commands_and_options() -> None:
    assert set(completed("smoothcert", "certif")) == {"certify", "certificate"}
    assert completed("smoothcert", "compare", "--fail") == ["--fail-below"]


def test_nothing_is_coloured_when_piped(tmp_path: Path) -> None:
    path = log(tmp_path / "a.tsv", [0.1, 0.3])
    lines = [["--help"], ["report", str(path), str(path)], ["compare", str(path), str(path)], ["zoo"]]
    code = f"from smoothcert.cli.main import run; raise SystemExit(max(run(words) for words in {lines!r}))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert b"best of its column" in answer.stdout and b"\x1b" not in answer.stdout + answer.stderr


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyError("index"), DEFECT, "a bug in smoothcert"),
        (MemoryError(), 2, "this machine has too little memory"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
            2,
            "this machine has too little memory",
        ),
        (RecursionError("maximum recursion depth exceeded"), 2, "nested too deeply"),
        (OSError(36, "File name too long", "a\nb"), 2, "cannot read or write 'a b': File"),
        (OSError(28, "No space left on device"), 2, "cannot read or write output: No"),
        (UnicodeEncodeError("utf-8", "a\udcff", 1, 2, "surrogates"), 2, "must be UTF-8 text; got 'a\\udcff'"),
    ],
)
def test_what_nobody_foresaw_is_one_line_and_no_finding(
    error: Exception, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise error

    monkeypatch.setattr("smoothcert.zoo.networks", fails)
    assert run(["zoo"]) == code != 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("smoothcert: ") and said in line
    monkeypatch.setenv("SMOOTHCERT_TRACEBACK", "1")
    assert run(["zoo"]) == code
    assert "Traceback (most recent call last)" in capsys.readouterr().err


RED = "\x1b[31mred\x1b[0m"


@pytest.mark.parametrize(
    "words",
    [["zoo", RED], ["report", RED], ["report", f"{RED}.tsv"], ["report", f"{RED}.tsv", "--tables", "md"],
     ["compare", f"{RED}.tsv", f"{RED}.tsv"], ["export", f"{RED}.tsv", "--out", f"{RED}.csv", "--to", "csv"]],
)  # fmt: skip
def test_a_terminal_is_given_no_orders_by_a_name(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    log(Path(f"{RED}.tsv"), [0.1, 0.3])
    assert run(words) == (0 if Path(words[1]).exists() else 2)
    captured = capsys.readouterr()
    shown = captured.out + captured.err
    assert "\x1b" not in shown and ("\\u001b" in shown or "\ufffd" in shown or words[0] == "compare")


def test_json_says_names_that_are_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    log(Path(f"{RED}\x9b.tsv"), [0.1, 0.3])
    assert run(["report", f"{RED}\x9b.tsv", "--json"]) == 0
    told = capsys.readouterr().out
    assert "\x9b" not in told and json.loads(told)["name"] == harmless(f"{RED}\x9b.tsv")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["report", ""], "an argument must have a value; got ''"),
        (["zoo", "--json", " "], "must have a value; got ' '"),
        (["report", "a", "--html="], "--html must have a value; got ''"),
        (["report", "a", "--names", "x\udcff"], "--names must be UTF-8 text without zero bytes; got 'x\\udcff'"),
        (["report", "/dev/zero"], "an argument must be a file or folder, not a device; got '/dev/zero'"),
    ],
)
def test_what_no_command_can_use(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in refused(words, capsys)


def test_bytes_that_are_not_text_are_refused_as_the_shell_gives_them(tmp_path: Path) -> None:
    code = "from smoothcert.cli.main import main; main()"
    words = [sys.executable, "-c", code, "report", os.fsdecode(b"run\xff")]
    answer = subprocess.run(words, capture_output=True, check=False, cwd=tmp_path)
    assert answer.returncode == 2 and answer.stderr.decode().count("\n") == 1
    assert b"must be UTF-8 text" in answer.stderr and b"\xff" not in answer.stderr
