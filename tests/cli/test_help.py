"""Help reads well: whole short sentences, options in panels, and examples that parse."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from smoothcert.cli.main import app, run
from smoothcert.cli.panels import FEW, PANELS

LONGEST = 70
MAIN = ("demo", "train", "certify", "predict", "plan", "verify", "audit", "report", "compare", "export", "serve start")
WHOLE = typer.main.get_command(app)
TYPERS_OWN = ("install_completion", "show_completion")


def walk(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command and group, by the words that call it."""
    yield " ".join(words), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, (*words, name))


COMMANDS = dict(walk(WHOLE))
LEAVES = {words: command for words, command in COMMANDS.items() if not hasattr(command, "commands")}


def is_sentence(text: str) -> bool:
    return text[:1].isupper() and text.endswith(".") and len(text) <= LONGEST


def test_every_help_is_a_short_sentence():
    lines = [(words, (command.help or "").split("\n\n")[0].replace("\n", " ")) for words, command in COMMANDS.items()]
    lines += [
        (f"{words} {param.name}", param.help or "")
        for words, command in COMMANDS.items()
        for param in command.params
        if param.name not in TYPERS_OWN
    ]
    assert len(lines) > 400
    assert [line for line in lines if not is_sentence(line[1])] == []


def test_the_list_of_commands_cuts_none_at_80_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    for group in (words for words, command in COMMANDS.items() if hasattr(command, "commands")):
        assert run([*group.split(), "--help"]) == 0
        told = capsys.readouterr().out
        assert "..." not in told.partition("Commands:")[2], told


def test_every_option_of_a_large_command_has_a_panel(capsys):
    large = {
        words: options
        for words, command in LEAVES.items()
        if len(options := [param for param in command.params if param.param_type_name == "option"]) > FEW
    }
    assert {"certify", "train", "serve start"} <= set(large)
    loose = [(words, option.name) for words, options in large.items() for option in options
             if option.rich_help_panel not in PANELS]  # fmt: skip
    assert loose == []
    assert run(["certify", "--help"]) == 0
    told = capsys.readouterr().out
    places = [told.index(f"\n{panel}:\n") for panel in PANELS]
    assert places == sorted(places) and "\nOptions:\n" not in told


def test_a_small_command_has_one_list(capsys):
    assert run(["export", "--help"]) == 0
    told = capsys.readouterr().out
    assert "\nOptions:\n" in told and "\nMeans:\n" not in told


@pytest.mark.parametrize("words", LEAVES)
def test_examples_stand_at_the_end_and_parse(words, capsys):
    examples = (LEAVES[words].epilog or "").splitlines()
    assert len(examples) >= (2 if words in MAIN else 1)
    assert run([*words.split(), "--help"]) == 0
    assert capsys.readouterr().out.endswith("Examples:\n" + "".join(f"  {line}\n" for line in examples))
    for example in examples:
        parse(shlex.split(example)[1:])


def parse(given: list[str]) -> None:
    """Down to the command that is meant; it is not run."""
    command = WHOLE
    context = command.make_context("smoothcert", given)
    while hasattr(command, "commands"):
        name, command, left = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, left, parent=context)


@pytest.mark.parametrize("line", ["certify m --data d --sgima 1 --out r", "certify m", "no-such", "memory no-such"])
def test_an_example_that_could_not_be_given_would_be_found(line):
    with pytest.raises(typer.exceptions.TyperException):
        parse(line.split())
